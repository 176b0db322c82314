import type { Caller } from '#core/base/caller.ts';
import { hasCode } from '#core/base/errors.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import { takePlace } from '#core/events/watchers.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import type { KeyNeeds } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { approvalIdOf } from '#core/runs/approvals/approval.ts';
import { approvalsOfRun } from '#core/runs/approvals/store.ts';
import { LocalProgress } from '../local-progress.ts';
import { textKindOf } from '../run-mapping.ts';
import { RunStream } from '../run-stream.ts';
import { A2aError } from './errors.ts';
import type { SendParams } from './requests.ts';
import { type A2aRequest, type Begun, beginTask } from './send.ts';
import { findTask, type WithAgent } from './served.ts';
import { TaskEvents, type TaskWriter } from './stream.ts';
import { taskOf } from './task.ts';

/** Throws if a caller with these headers has no access to the workspace, or not at this path. */
export type Authenticate = (
  headers: RequestHeaders,
  workspaceId: string,
  row: KeyNeeds,
  path: string,
) => Promise<Caller>;

/** How a stream is written, and how its caller is checked again. */
export interface Following {
  readonly writer: TaskWriter;
  readonly authenticate: Authenticate;
  readonly row: KeyNeeds;
}

type Followed = Pick<Begun, 'served' | 'runId' | 'task' | 'after' | 'answered' | 'started'>;

/** Sends a message, and returns the stream of its task. Throws what `beginTask` throws. */
export async function streamMessage(
  deps: Deps,
  incoming: A2aRequest & WithAgent,
  params: SendParams,
  following: Following,
) {
  return streamOf(deps, incoming, await beginTask(deps, incoming, params, true), following);
}

/** Returns the stream of a task that has not ended. Throws TaskNotFound, and UnsupportedOperation for one that has. */
export async function subscribeToTask(
  deps: Deps,
  incoming: A2aRequest & WithAgent,
  taskId: string,
  following: Following,
) {
  const { served } = incoming;
  const run = await findTask(deps, served, taskId);
  if (hasEnded(run.status)) throw new A2aError('UnsupportedOperation', 'The task has ended: get it with GetTask.');
  const task = await taskOf(deps, run);
  // It is read from its beginning: what was decided since then is asked no more.
  const asked = await approvalsOfRun(deps, { workspaceId: run.workspaceId, runId: run.id });
  const answered = asked.filter(({ status }) => status !== 'waiting').map(approvalIdOf);
  return streamOf(deps, incoming, { served, runId: run.id, task, after: 0, answered }, following);
}

function streamOf(
  deps: Deps,
  incoming: A2aRequest,
  { served, runId, task, after, answered, started }: Followed,
  { writer, authenticate, row }: Following,
) {
  const { caller, receivedAt, request, params } = incoming;
  const followed = { task, text: textKindOf(served.agent), answered };
  return new RunStream(deps, {
    run: { workspaceId: served.workspace.id, runId, after },
    newMapping: () => new TaskEvents(deps.clock, followed),
    writer,
    ...(started && started.heldBy === undefined && { local: localProgress(deps, started, runId) }),
    until: receivedAt + HELD_CALL_MS,
    check: async () =>
      void (await authenticate(request.headers, caller.workspace.id, row, `/a2a/${params.org}/${params.agent}`)),
    takePlace: () => placeOf(deps, caller),
  });
}

function localProgress(deps: Deps, started: NonNullable<Begun['started']>, runId: string): LocalProgress {
  const { progress, work } = LocalProgress.of(deps, (emit) => started.finish(emit), runId);
  deps.background(work);
  return progress;
}

async function placeOf(deps: Deps, { workspace }: Caller): Promise<(() => Promise<void>) | undefined> {
  try {
    return await takePlace(deps, workspace.id);
  } catch (error) {
    if (hasCode(error, 'RATE_LIMITED')) return undefined;
    throw error;
  }
}
