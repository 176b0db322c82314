import { derivedUuid } from '#core/base/derived-uuid.ts';
import { type Delivery, type DeliveryDeps, deliveryOperation, tryDelivery } from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { PushTask } from '#core/ports/task-pushes.ts';
import { RunStore } from '#core/runs/store.ts';
import type { StreamResponse, Task } from './objects.ts';
import { TASK_PUSH, taskPushListener } from './push-listener.ts';
import { listPushes, type PushConfig, type TaskPlace } from './push-store.ts';
import { taskOf } from './task.ts';

export type PushDeps = DeliveryDeps & Pick<Deps, 'runs' | 'blobs' | 'config'>;

/** Bound of the body of a delivery. */
const MAX_BYTES = 64 * 1024;

/** What of a run is no news of its task: that it left its process, and that a question is over because the run is. */
const NO_NEWS = /^(waiting#|approval#cancelled#)/;

/** Posts what a task is now to the addresses that its client named (`docs/interface/a2a.md#push-notifications`). */
export const taskPusher =
  (deps: PushDeps): PushTask =>
  async ({ about, ...place }) => {
    const configs = NO_NEWS.test(about) ? [] : await listPushes(deps, place);
    const run = configs.length === 0 ? undefined : await new RunStore(deps, place.workspaceId).find(place.runId);
    if (run === undefined) return async () => {};
    return makePushes(deps, place, { configs, task: await taskOf(deps, run), about });
  };

/**
 * Writes the messages of a task, and returns what makes their first attempts. Repeating it while a message is due writes it
 * once.
 */
export async function makePushes(
  deps: PushDeps,
  place: TaskPlace,
  { configs, task, about }: { readonly configs: readonly PushConfig[]; readonly task: Task; readonly about: string },
): Promise<() => Promise<void>> {
  const body = bodyOf(task);
  const made: Delivery[] = [];
  for (const { id: pushId, url } of configs) {
    const delivery: Delivery = {
      // Every process derives the same.
      id: derivedUuid(`${place.runId}#a2a#${about}`, pushId),
      kind: TASK_PUSH,
      workspaceId: place.workspaceId,
      subjectId: `${place.runId}#${pushId}`,
      url,
      body,
      contentType: 'application/a2a+json',
      tries: 0,
    };
    const { ok } = await deps.main.transact([deliveryOperation(deps, delivery)]);
    if (ok) made.push(delivery);
  }
  return async () => {
    await Promise.all(made.map((delivery) => tryDelivery(deps, delivery, taskPushListener(deps))));
  };
}

/** Leaves out what a message has no room for: the receiver gets the task. */
function bodyOf(task: Task): string {
  const { artifacts: _, ...short } = task;
  const { message: __, ...status } = task.status;
  const [body] = [task, short, { ...short, status }]
    .map((each) => JSON.stringify({ task: each } satisfies StreamResponse))
    .filter((text) => Buffer.byteLength(text) <= MAX_BYTES);
  return body!;
}
