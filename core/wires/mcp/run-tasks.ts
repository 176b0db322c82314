import type { Config } from '#core/base/config.ts';
import { hasEnded, type RunStatus } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isMcpError, MCP_CODES, type McpContext, McpError, type McpObject } from '#core/ports/mcp-endpoint.ts';
import { cancelRun } from '#core/runs/cancellation.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { type Answering, checkMayAnswer, openQuestions } from '../questions.ts';
import { answerInputs, type InputRequests, inputRequestsOf } from './input-requests.ts';

/*
 * Tasks of MCP (extension `io.modelcontextprotocol/tasks`): a task is a run, and its id is that of the run
 * (`docs/interface/mcp.md#tasks`). Nothing else is stored.
 */

export const TASKS = 'io.modelcontextprotocol/tasks';
const POLL_INTERVAL_MS = 1000;

type Status = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

type Task = {
  readonly taskId: string;
  readonly status: Status;
  readonly createdAt: string;
  readonly lastUpdatedAt: string;
  readonly ttlMs: number;
  readonly pollIntervalMs: number;
};

/** What `tasks/get` adds at the end of a run, or while it asks people. */
type Detail = {
  readonly result?: McpObject;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: McpObject };
  readonly inputRequests?: InputRequests;
};

/** The runs that a request may see as tasks. */
export interface TaskScope extends Answering {
  /** A request without a tenant sees the runs of all tenants. */
  readonly tenantId: string | undefined;
  /** Limits the tasks to the runs of one agent. */
  readonly isVisible: (run: Run) => boolean;
}

/** Returns the result of a tool whose run has ended. Throws {@link McpError} for what is no result of the tool. */
type ResultOfRun = (run: Run) => Promise<McpObject>;

/** Whether a client can handle tasks, as it says with this request. */
export function takesTasks({ clientCapabilities }: Pick<McpContext, 'clientCapabilities'>): boolean {
  const { extensions } = clientCapabilities;
  return typeof extensions === 'object' && extensions !== null && Object.hasOwn(extensions, TASKS);
}

const MISSING_CAPABILITY = -32021;

/** Throws {@link McpError} unless the client declared the extension with this request. */
export function checkTakesTasks(context: Pick<McpContext, 'clientCapabilities'>): void {
  if (takesTasks(context)) return;
  throw new McpError(MISSING_CAPABILITY, `This method needs the extension ${TASKS}, declared with the request.`, {
    requiredCapabilities: { extensions: { [TASKS]: {} } },
  });
}

/** Returns the answer to a call whose run is a task. The run must be recorded. */
export async function createdTask(deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>, place: RunPlace) {
  const run = await new RunStore(deps, place.workspaceId).find(place.runId);
  if (run === undefined) throw new Error(`the run ${place.runId} has no record`);
  return { resultType: 'task' as const, ...taskOf(deps, run, STATUSES[run.status]) };
}

interface RunPlace {
  readonly workspaceId: string;
  readonly runId: string;
}

/** Returns a task as it is now. Throws -32602 for a task that there is not, or that the caller may not see. */
export async function getTask(
  deps: Deps,
  scope: TaskScope,
  taskId: string,
  resultOf: ResultOfRun,
): Promise<Task & Detail> {
  const run = await findTask(deps, scope, taskId);
  if (!hasEnded(run.status)) {
    // A run of which some questions are answered runs for a moment, before it waits for the others.
    const open = await openQuestions(deps, { workspaceId: run.workspaceId, runId: run.id });
    if (open.length > 0) return { ...taskOf(deps, run, 'input_required'), inputRequests: inputRequestsOf(open) };
  }
  if (run.status === 'cancelled' || !hasEnded(run.status)) return taskOf(deps, run, STATUSES[run.status]);
  try {
    return { ...taskOf(deps, run, 'completed'), result: await resultOf(run) };
  } catch (error) {
    if (!isMcpError(error)) throw error;
    const { rpcCode: code, message, data } = error;
    return { ...taskOf(deps, run, 'failed'), error: { code, message, ...(data && { data }) } };
  }
}

/** Answers what a task asks. Answers to what it does not ask, or asks no more, are ignored. Throws as `answerInputs` does. */
export async function updateTask(
  deps: Deps,
  scope: TaskScope,
  taskId: string,
  responses: { readonly [key: string]: unknown },
): Promise<void> {
  const { workspaceId, id: runId } = await findTask(deps, scope, taskId);
  const open = await openQuestions(deps, { workspaceId, runId });
  if (open.length === 0) return;
  await checkMayAnswer(deps, scope);
  await answerInputs(deps, scope, open, responses);
}

/** Cancels the run of a task, soon. A task that has ended stays as it is. */
export async function cancelTask(deps: Deps, scope: TaskScope, taskId: string): Promise<void> {
  const run = await findTask(deps, scope, taskId);
  await cancelRun(deps, run.workspaceId, run.id);
}

const RUN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

async function findTask(deps: Deps, { workspace, tenantId, isVisible }: TaskScope, taskId: string): Promise<Run> {
  const run = RUN_ID.test(taskId) ? await new RunStore(deps, workspace.id).find(taskId) : undefined;
  const isOther = tenantId !== undefined && run?.tenantId !== tenantId;
  if (run === undefined || run.triggerSource !== 'mcp' || run.isErased || isOther || !isVisible(run)) {
    // Tasks of other workspaces get the same answer, so that nobody learns which exist.
    throw new McpError(MCP_CODES.invalidParams, `There is no task "${taskId.slice(0, 64)}".`);
  }
  return run;
}

const STATUSES: { readonly [status in RunStatus]: Status } = {
  queued: 'working',
  running: 'working',
  // It waits for a time, or an event.
  waiting: 'working',
  completed: 'completed',
  failed: 'completed',
  timeout: 'completed',
  cancelled: 'cancelled',
};

const taskOf = ({ config }: { readonly config: Pick<Config, 'runRetentionDays'> }, run: Run, status: Status): Task => ({
  taskId: run.id,
  status,
  createdAt: run.createdAt,
  lastUpdatedAt: run.completedAt ?? run.startedAt,
  ttlMs: config.runRetentionDays * 24 * 3600_000,
  pollIntervalMs: POLL_INTERVAL_MS,
});
