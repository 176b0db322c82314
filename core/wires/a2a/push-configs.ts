import { isPlatformError } from '#core/base/errors.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { A2aError, refuse } from './errors.ts';
import type { Task } from './objects.ts';
import {
  listPushes,
  MAX_PUSHES,
  type PushConfig,
  type PushSecrets,
  putPush,
  removePush,
  type TaskPlace,
} from './push-store.ts';
import { makePushes } from './pushes.ts';
import type { SentPush } from './requests.ts';
import { findTask, type WithAgent } from './served.ts';
import { taskOf } from './task.ts';

/** The only address of a client that names none: a second one without a name takes its place, as in the SDKs. */
const idOf = ({ id }: SentPush, runId: string): string => id || runId;

/** Returns an address as answers have it: without what is secret. */
const shown = (taskId: string, { id, url }: PushConfig) => ({ id, taskId, url });

/** Checks where a client wants a task posted. Throws INVALID_INPUT for an address that messages may not go to. */
export function checkPush(
  { config }: Pick<Deps, 'config'>,
  sent: SentPush,
  runId: string,
  field: string,
): PushConfig & PushSecrets {
  const { url, token, authentication } = sent;
  try {
    checkOutboundUrl(url, config.outboundHosts, `${field}url`);
  } catch (error) {
    if (isPlatformError(error)) throw new A2aError('InvalidParams', error.message);
    throw error;
  }
  const { scheme, credentials } = authentication ?? {};
  return {
    ...{ id: idOf(sent, runId), url },
    ...(token && { token }),
    ...(scheme && credentials && { authorization: `${scheme} ${credentials}` }),
  };
}

/** Stores where a task is posted. Throws InvalidParams for more than {@link MAX_PUSHES}. */
export async function addPush(deps: Deps, place: TaskPlace, push: PushConfig & PushSecrets): Promise<void> {
  if (await putPush(deps, place, push)) return;
  refuse('taskId', `the task is posted to ${MAX_PUSHES} addresses, the maximum: delete one first.`);
}

/** Removes an address of a task that did not begin. Never throws: it expires anyway. */
export const forgetPush = (deps: Deps, place: TaskPlace, { id }: PushConfig): Promise<unknown> =>
  removePush(deps, place, id).catch(() => {});

/** Posts a task as it is now to one address. */
export async function pushNow(deps: Deps, place: TaskPlace, task: Task, push: PushConfig): Promise<void> {
  const attempt = await makePushes(deps, place, { configs: [push], task, about: deps.ids.uuid() });
  void deps.background(attempt());
}

/** Finds the run of a task that can be posted: its end is noted. Throws TaskNotFound, UnsupportedOperation. */
async function findPushed(deps: Deps, { served }: WithAgent, taskId: string): Promise<Run> {
  const run = await findTask(deps, served, taskId);
  if (run.triggerSource === 'a2a') return run;
  throw new A2aError('UnsupportedOperation', 'Only tasks that a message began are posted: ask for this one.');
}

const placeOf = ({ workspaceId, id: runId }: Run): TaskPlace => ({ workspaceId, runId });

/** Adds an address to a task, and posts the task as it is now to it. */
export async function createPush(deps: Deps, request: WithAgent, { taskId, ...sent }: SentPush & { taskId: string }) {
  const found = await findPushed(deps, request, taskId);
  const push = checkPush(deps, sent as SentPush, found.id, '');
  await addPush(deps, placeOf(found), push);
  // Read after it was stored: the end of the task is in what is read, or finds the address.
  const run = await findTask(deps, request.served, taskId);
  await pushNow(deps, placeOf(run), await taskOf(deps, run), push);
  return shown(run.id, push);
}

/** Throws TaskNotFound, the same for a task and for an address that does not exist. */
export async function getPush(deps: Deps, request: WithAgent, { taskId, id }: { taskId: string; id: string }) {
  const run = await findTask(deps, request.served, taskId);
  const push = (await listPushes(deps, placeOf(run))).find((each) => each.id === id);
  return push === undefined ? unknownPush(id) : shown(run.id, push);
}

export async function listPushesOf(deps: Deps, request: WithAgent, { taskId }: { taskId: string }) {
  const run = await findTask(deps, request.served, taskId);
  const configs = (await listPushes(deps, placeOf(run))).map((push) => shown(run.id, push));
  return { configs, nextPageToken: '' };
}

/** Removing an address that is not there succeeds. What is due for it is posted no more. */
export async function deletePush(deps: Deps, request: WithAgent, { taskId, id }: { taskId: string; id: string }) {
  const run = await findTask(deps, request.served, taskId);
  await removePush(deps, placeOf(run), id);
  return {};
}

function unknownPush(id: string): never {
  throw new A2aError('TaskNotFound', `The task is not posted to an address "${id.slice(0, 64)}".`);
}
