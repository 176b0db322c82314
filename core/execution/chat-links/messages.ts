import type { ErrorCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { hasEnded, type RunStatus } from '#core/base/run-kinds.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import { SessionStore } from '#core/runs/sessions/store.ts';
import { RunStore } from '#core/runs/store.ts';
import { textOfAnswer } from '../calls/answer-text.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { changeOf } from './answer-stream.ts';
import { type ChatLink, tenantOf } from './link.ts';
import { plainText } from './plain-error.ts';
import { settle } from './send.ts';
import type { Visited } from './visit.ts';
import type { VisitorSession } from './visitors.ts';

/** Characters of an answer under way that are shown. */
const MAX_PARTIAL = 64 * 1024;
const MAX_NUMBER = 99_999_999;

const STATUSES: { readonly [Status in RunStatus]: 'running' | 'waiting' | 'completed' | 'failed' | 'stopped' } = {
  queued: 'running',
  running: 'running',
  waiting: 'waiting',
  completed: 'completed',
  failed: 'failed',
  timeout: 'failed',
  cancelled: 'stopped',
};

interface Page {
  readonly limit: number;
  /** Only messages before this number. @default - all */
  readonly before?: number | undefined;
}

/** A message and its answer, as far as they are known. */
interface Known {
  readonly number: number;
  readonly status: RunStatus;
  readonly errorCode: ErrorCode | null;
  readonly input: Json | undefined;
  readonly output: Json;
  /** ISO 8601. */
  readonly createdAt: string;
  /** What was said so far, of an answer under way. */
  readonly partial?: string | null;
}

/** Returns the newest messages of a session as its visitor sees them, oldest first. A form keeps the last one. */
export async function messagesOf(deps: Deps, { link, agent }: Visited, session: VisitorSession, page: Page) {
  const known =
    link.kind === 'chat'
      ? await turnsOf(deps, { link, agent }, session, page)
      : await Promise.all(
          session.lastRunId === undefined || page.before !== undefined
            ? []
            : [messageOfRun(deps, link, { number: 1, runId: session.lastRunId })],
        );
  const shown = known.filter((each) => each !== undefined);
  const last = shown[0];
  // A run that went on in another process has ended there.
  if (session.isUnderWay && page.before === undefined && last !== undefined && hasEnded(last.status)) {
    await settle(deps, { link }, session, session.lastRunId!);
  }
  return {
    messages: shown
      .slice(0, page.limit)
      .reverse()
      .map((each) => viewOf(link, each)),
    has_older: known.length > page.limit,
  };
}

/** Returns the turns of a session, newest first, and one more than the page has if there are more. */
async function turnsOf(
  deps: Deps,
  { link, agent }: Pick<Visited, 'link' | 'agent'>,
  session: VisitorSession,
  { limit, before = Number.MAX_SAFE_INTEGER }: Page,
): Promise<readonly (Known | undefined)[]> {
  const store = new SessionStore(deps, link.workspaceId);
  const owner = { agentWorkspaceId: agent.workspaceId, agentName: agent.name, tenantId: tenantOf(link) };
  const id = await store.findNamed(owner, session.id);
  if (id === undefined) return [];
  const turns = await store.turns(id, { after: Math.min(before, MAX_NUMBER), limit: limit + 1, reverse: true });
  return Promise.all(
    turns.map(async (turn): Promise<Known | undefined> => {
      const { number, end } = turn;
      if (end === undefined) return messageOfRun(deps, link, { number, runId: turn.runId });
      const content = await store.content(id, turn);
      const { status, errorCode } = end;
      const { input, output = null } = content ?? {};
      return { number, status, errorCode, input, output, createdAt: isoTime(turn.createdAt) };
    }),
  );
}

async function messageOfRun(
  deps: Deps,
  { workspaceId, kind }: ChatLink,
  { number, runId }: { readonly number: number; readonly runId: string },
): Promise<Known | undefined> {
  const runs = new RunStore(deps, workspaceId);
  const run = await runs.find(runId);
  if (run === undefined) return undefined;
  const body = await runs.body(runId);
  const { status, errorCode, createdAt } = run;
  const isUnderWay = kind === 'chat' && !hasEnded(status);
  const partial = isUnderWay ? await partialAnswer(deps, workspaceId, runId) : null;
  return {
    number,
    status,
    errorCode,
    input: body?.input ?? undefined,
    output: body?.output ?? null,
    createdAt,
    partial,
  };
}

function viewOf({ kind }: ChatLink, { number, status, errorCode, input, output, createdAt, partial = null }: Known) {
  const isCompleted = status === 'completed';
  return {
    number,
    status: STATUSES[status],
    text: kind === 'chat' && input !== undefined ? textOfAnswer(input) : null,
    answer: isCompleted ? textOfAnswer(output) : partial,
    output: kind === 'form' && isCompleted ? output : null,
    error: hasEnded(status) && !isCompleted ? plainText(errorCode) : null,
    created_at: createdAt,
  };
}

/** Returns what a run has said so far. It lacks the last second. */
async function partialAnswer(deps: Pick<Deps, 'runs'>, workspaceId: string, runId: string): Promise<string | null> {
  let text = '';
  for await (const { type, data } of liveEventsOf(deps, { workspaceId, runId }, 0)) {
    if (type !== 'progress') continue;
    const change = changeOf(data as unknown as ProgressEvent);
    if (change === undefined) continue;
    if ('isVoid' in change) text = '';
    else if ('text' in change) text = `${text}${change.text}`.slice(0, MAX_PARTIAL);
  }
  return text === '' ? null : text;
}
