import type { DeliveryListener } from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RUN_BACKOFF_MS } from '#core/runs/destinations/listener.ts';

/** {@link Delivery.kind} of messages about tasks. The subject is the id of the run, and that of the address. */
export const TASK_PUSH = 'a2a';

/** Gives a message the address and the secrets that its task has now: a message never has secrets where it is stored. */
export const taskPushListener = (deps: Pick<Deps, 'runs' | 'vault' | 'log'>): DeliveryListener => ({
  backoffMs: RUN_BACKOFF_MS,

  async addressOf({ workspaceId, subjectId }) {
    const [runId, id] = subjectId.split('#') as [string, string];
    // Loaded lazily: few runs are tasks that are posted anywhere.
    const { openPush } = await import('./push-store.ts');
    const push = await openPush(deps, { workspaceId, runId }, id);
    if (push === undefined) return { problem: 'the client deleted the address' };
    const { url, token, authorization } = push;
    return {
      url,
      headers: { ...(token && { 'x-a2a-notification-token': token }), ...(authorization && { authorization }) },
    };
  },

  /** Nothing is recorded of a message, apart from one that never arrived. */
  async deliveryEnded({ workspaceId, subjectId, tries }, outcome) {
    const [runId, pushId] = subjectId.split('#') as [string, string];
    if (!outcome.ok) {
      deps.log.warn('task not pushed', { workspace_id: workspaceId, run_id: runId, push_id: pushId, tries });
    }
    return false;
  },
});
