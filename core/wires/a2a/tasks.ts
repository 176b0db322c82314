import { hasEnded, type RunStatus } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { cancelRun, waitForEnd } from '#core/runs/cancellation.ts';
import { listRuns } from '#core/runs/listing.ts';
import type { Run } from '#core/runs/run.ts';
import { SessionStore } from '#core/runs/sessions/store.ts';
import { RunStore } from '#core/runs/store.ts';
import { A2aError } from './errors.ts';
import type { Task } from './objects.ts';
import type { ListParams } from './requests.ts';
import { findTask, isTaskOf, type Served, type WithAgent } from './served.ts';
import { taskOf } from './task.ts';

const PAGE = 50;

export async function getTask(deps: Deps, { served }: WithAgent, taskId: string): Promise<Task> {
  return taskOf(deps, await findTask(deps, served, taskId));
}

/** Cancels a task. Throws TaskNotFound, and TaskNotCancelable for one that has ended. */
export async function cancelTask(deps: Deps, { served }: WithAgent, taskId: string): Promise<Task> {
  const { id, workspaceId, status } = await findTask(deps, served, taskId);
  const runs = new RunStore(deps, workspaceId);
  if (hasEnded(status) || !(await cancelRun(deps, workspaceId, id))) {
    throw new A2aError('TaskNotCancelable', `The task ${id} has ended.`);
  }
  await waitForEnd(deps, runs, id);
  return taskOf(deps, await findTask(deps, served, taskId));
}

/** The statuses of a run that each state of a task stands for. Runs have no others. */
const STATUS_OF: { readonly [State in NonNullable<ListParams['status']>]?: RunStatus } = {
  TASK_STATE_SUBMITTED: 'queued',
  TASK_STATE_WORKING: 'running',
  TASK_STATE_INPUT_REQUIRED: 'waiting',
  TASK_STATE_COMPLETED: 'completed',
  TASK_STATE_FAILED: 'failed',
  TASK_STATE_CANCELED: 'cancelled',
};

/** Lists tasks of the agent, the last begun first; those of a context in the order of its session, the last first. */
export async function listTasks(deps: Deps, { served }: WithAgent, params: ListParams) {
  const { pageSize, includeArtifacts, status = 'TASK_STATE_UNSPECIFIED' } = params;
  const limit = pageSize || PAGE;
  const isAny = status === null || status === 'TASK_STATE_UNSPECIFIED';
  const wanted = isAny ? undefined : STATUS_OF[status!];
  const none = { tasks: [], nextPageToken: '', pageSize: limit, totalSize: 0 };
  if (!isAny && wanted === undefined) return none;
  const page = params.contextId
    ? await runsOfContext(deps, served, params.contextId, wanted)
    : await runsOfAgent(deps, served, params, { wanted, limit });
  const runs = page.runs.filter((run) => isTaskOf(run, served)).slice(0, limit);
  const all = await Promise.all(runs.map((run) => taskOf(deps, run, { hasArtifacts: includeArtifacts === true })));
  // A run that waits may wait for nobody.
  const tasks = all.filter((task) => isAny || task.status.state === status);
  return { tasks, nextPageToken: page.next, pageSize: limit, totalSize: Math.max(page.total, tasks.length) };
}

interface Page {
  readonly runs: readonly Run[];
  readonly next: string;
  readonly total: number;
}

async function runsOfAgent(
  deps: Deps,
  { agent, workspace, tenantId }: Served,
  { pageToken, statusTimestampAfter }: ListParams,
  { wanted, limit }: { readonly wanted: RunStatus | undefined; readonly limit: number },
): Promise<Page> {
  const filter = {
    agentName: agent.name,
    status: wanted,
    tenantId,
    topLevel: true,
    ...(statusTimestampAfter && { from: Date.parse(statusTimestampAfter) }),
  };
  const cursor = pageToken || undefined;
  const { runs, nextCursor, total } = await listRuns(deps, workspace.id, filter, { limit, offset: 0, cursor });
  return { runs, next: nextCursor ?? '', total: total ?? runs.length };
}

/** The newest tasks of a context: a page has all that are listed. */
const MAX_OF_CONTEXT = 100;

async function runsOfContext(
  deps: Deps,
  { workspace, tenantId }: Served,
  contextId: string,
  wanted: RunStatus | undefined,
): Promise<Page> {
  const found = await new SessionStore(deps, workspace.id).find(contextId, MAX_OF_CONTEXT);
  const isForeign = found === undefined || found.session.tenantId !== tenantId;
  const ids = isForeign ? [] : found.newest.map(({ runId }) => runId);
  const all = await new RunStore(deps, workspace.id).findAll(ids);
  const runs = all.filter(({ status }) => wanted === undefined || status === wanted);
  return { runs, next: '', total: runs.length };
}
