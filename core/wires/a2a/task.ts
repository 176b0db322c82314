import type { Json } from '#core/base/json.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, approvalIdOf } from '#core/runs/approvals/approval.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { openQuestions } from '../questions.ts';
import { type End, storedEnd } from '../run-mapping.ts';
import type { Artifact, Message, Part, Task, TaskState, TaskStatus } from './objects.ts';

/** The ids of a task: those of a run, and of its session. */
export interface TaskIds {
  readonly id: string;
  readonly contextId: string;
}

/** A run without a session is a context of its own. */
export const idsOf = ({ id, sessionId }: Pick<Run, 'id' | 'sessionId'>): TaskIds => ({
  id,
  contextId: sessionId ?? id,
});

/** The only artifact of a task. */
export const ARTIFACT_ID = 'answer';

/** Returns what an agent said as an artifact: a text, or the only member that is one, as text, everything else as data. */
export const artifactOf = (output: Json): Artifact => ({ artifactId: ARTIFACT_ID, parts: [partOf(output)] });

function partOf(value: Json): Part {
  if (typeof value === 'string') return { text: value };
  const members = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.values(value) : [];
  const [only] = members;
  return members.length === 1 && typeof only === 'string' ? { text: only } : { data: value };
}

const says = ({ id, contextId }: TaskIds, name: string, parts: readonly Part[]): Message => ({
  messageId: `${id}.${name}`,
  ...{ contextId, taskId: id, role: 'ROLE_AGENT', parts },
});

/** Returns the state of a task that waits for its client, with what it is asked. */
export function askingStatus(ids: TaskIds, asked: readonly Approval[], at: number): TaskStatus {
  const approvals = asked.map((each) => ({
    id: approvalIdOf(each),
    kind: each.kind === 'approve' ? 'approval' : 'question',
    tool: each.tool,
    arguments: each.args,
    ...(each.question !== undefined && { question: each.question }),
    ...(each.options !== undefined && { options: [...each.options] }),
    ...(each.schema !== undefined && { schema: each.schema }),
    expires_at: isoTime(each.expiresAt),
  }));
  const text = asked.map(({ question, tool }) => question ?? `May the agent call ${tool}?`).join('\n');
  const message = says(ids, `asks.${asked.length === 0 ? 0 : approvalIdOf(asked[0]!)}`, [
    { text },
    { data: { approvals } },
  ]);
  return { state: 'TASK_STATE_INPUT_REQUIRED', message, timestamp: isoTime(at) };
}

/** Returns the state of a task that has ended. */
export function endStatus(ids: TaskIds, end: End, timestamp: string): TaskStatus {
  if (!('error' in end)) return { state: 'TASK_STATE_COMPLETED', timestamp };
  const { code, message: text } = end.error;
  const state = code === 'RUN_CANCELLED' ? 'TASK_STATE_CANCELED' : 'TASK_STATE_FAILED';
  const message = says(ids, 'end', [{ text }, { data: { error: { code, message: text } } }]);
  return { state, message, timestamp };
}

/** Returns a run as a task as it is now. */
export async function taskOf(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
  run: Run,
  { hasArtifacts = true }: { readonly hasArtifacts?: boolean } = {},
): Promise<Task> {
  const ids = idsOf(run);
  const runs = new RunStore(deps, run.workspaceId);
  if (!hasEnded(run.status)) return { ...ids, status: await openStatus(deps, run) };
  const end = (await storedEnd(hasArtifacts ? runs : NO_BODIES, run))!;
  return {
    ...ids,
    status: endStatus(ids, end, run.completedAt ?? run.startedAt),
    ...(hasArtifacts && 'output' in end && { artifacts: [artifactOf(end.output)] }),
  };
}

const NO_BODIES = { body: async () => undefined };

async function openStatus(deps: Pick<Deps, 'runs' | 'clock'>, run: Run): Promise<TaskStatus> {
  const { status, startedAt, workspaceId, id: runId } = run;
  if (status !== 'waiting') {
    const state: TaskState = status === 'queued' && !run.hasBegun ? 'TASK_STATE_SUBMITTED' : 'TASK_STATE_WORKING';
    return { state, timestamp: startedAt };
  }
  const asked = await openQuestions(deps, { workspaceId, runId });
  if (asked.length === 0) return { state: 'TASK_STATE_WORKING', timestamp: startedAt };
  return askingStatus(idsOf(run), asked, Date.parse(asked[0]!.askedAt));
}
