import { hasEnded } from '#core/base/run-kinds.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getAll, type Item } from '#core/ports/table.ts';
import { headKey, runFrom, runIdOf } from '#core/runs/items.ts';
import type { Run } from '#core/runs/run.ts';
import type { Turn, TurnContent } from '#core/runs/sessions/session.ts';
import { expiresAt, type FoundSession, SessionStore } from '#core/runs/sessions/store.ts';
import { RunStore } from '#core/runs/store.ts';

type ViewDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>;

/** Turns that are read to show a session: those that may be under way. */
export const SHOWN_TURNS = 21;

/** Shows sessions, with the status of what is under way in them. */
export async function sessionViews(deps: ViewDeps, workspaceId: string, found: readonly FoundSession[]) {
  const open = found.map(({ newest }) => newest.filter(({ end }) => end === undefined));
  const runs = await runsOf(
    deps,
    workspaceId,
    open.flatMap((turns) => turns.map(({ runId }) => runId)),
  );
  return found.map((each, index) =>
    viewOf(
      each,
      open[index]!.map(({ runId }) => runs.get(runId)),
    ),
  );
}

function viewOf(found: FoundSession, open: readonly (Run | undefined)[]) {
  const { session, newest } = found;
  const last = newest[0];
  const statuses = open.flatMap((run) => (run === undefined || hasEnded(run.status) ? [] : [run.status]));
  const status = statuses.length === 0 ? 'idle' : statuses.at(-1) === 'waiting' ? 'waiting' : 'running';
  return {
    id: session.id,
    agent: `${session.agentOrg}/${session.agentName}`,
    external_id: session.externalId ?? null,
    title: session.title ?? null,
    tenant_id: session.tenantId ?? null,
    metadata: { ...session.metadata },
    status: status as 'idle' | 'running' | 'waiting',
    pin_version: session.pinVersion ?? null,
    busy: session.busy,
    ttl_days: session.ttlDays,
    messages: last?.number ?? 0,
    bytes: last?.bytes ?? 0,
    forked_from: session.forkedFrom
      ? { session_id: session.forkedFrom.sessionId, after: session.forkedFrom.after }
      : null,
    last_run_id: last?.runId ?? null,
    created_at: isoTime(session.createdAt),
    last_message_at: last === undefined ? null : isoTime(last.createdAt),
    expires_at: isoTime(expiresAt(found)),
  };
}

/** A message with its answer. Of a damaged one, what was said is null, and the error says so. */
export async function messageViews(deps: ViewDeps, workspaceId: string, sessionId: string, turns: readonly Turn[]) {
  const store = new SessionStore(deps, workspaceId);
  const open = turns.filter(({ end }) => end === undefined).map(({ runId }) => runId);
  const runs = await runsOf(deps, workspaceId, open);
  return Promise.all(
    turns.map(async (turn) => {
      const content = turn.end === undefined ? undefined : await store.content(sessionId, turn);
      const input = content?.input ?? (turn.end === undefined ? await inputOf(deps, workspaceId, turn.runId) : null);
      return messageOf(turn, { run: runs.get(turn.runId), input, content });
    }),
  );
}

const inputOf = async (deps: ViewDeps, workspaceId: string, runId: string) =>
  (await new RunStore(deps, workspaceId).body(runId))?.input ?? null;

function messageOf(
  { number, runId, agentVersion, createdAt, end }: Turn,
  {
    run,
    input,
    content,
  }: { readonly run: Run | undefined; readonly input: unknown; readonly content: TurnContent | undefined },
) {
  const failed = end?.errorCode ? { code: end.errorCode, message: end.errorMessage ?? '' } : null;
  const lost = end !== undefined && content === undefined;
  return {
    number,
    run_id: runId,
    status: end?.status ?? run?.status ?? 'running',
    input,
    output: content?.output ?? null,
    error: lost ? { code: 'INTERNAL_ERROR', message: 'What was said in this message is damaged.' } : failed,
    agent_version: agentVersion,
    created_at: isoTime(createdAt),
    ended_at: end === undefined ? null : isoTime(end.at),
  };
}

/** Returns the records of runs by their ids. A run whose process died reads as failed. */
async function runsOf(deps: ViewDeps, workspaceId: string, runIds: readonly string[]): Promise<Map<string, Run>> {
  const heads = await getAll(
    deps.runs,
    runIds.map((id) => headKey(workspaceId, id)),
  );
  const known = heads.filter((head): head is Item => head !== undefined);
  return new Map(known.map((head) => [runIdOf(head), runFrom(head, deps.clock.now())]));
}
