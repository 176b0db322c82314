import type { Delivery, DeliveryListener } from '#core/outbound/deliveries.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { DestinationStore, type LogName } from './store.ts';

/** {@link Delivery.kind} of ends of runs. The subject is an entry of a log, see {@link subjectOf}. */
export const RUN_END = 'run';
/** Takes the place of a destination's id for webhooks that calls name. */
export const CALLS = 'calls';

const MINUTE_MS = 60_000;
/** Six attempts within about nine hours, so that a receiver may be down for a night's maintenance. */
export const RUN_BACKOFF_MS = [1, 5, 30, 120, 360].map((minutes) => minutes * MINUTE_MS);
/** A destination is disabled when so many deliveries in a row have failed for good. */
export const MAX_FAILURES = 20;

/** Names the entry of a delivery; its id is the delivery's own. */
export const subjectOf = ({ destinationId, createdAt }: LogName): string => `${destinationId}#${createdAt}`;

function nameOf({ id, subjectId }: Delivery): LogName {
  const [destinationId, createdAt] = subjectId.split('#');
  return { id, destinationId: destinationId!, createdAt: createdAt! };
}

/** Records each attempt in the log of its destination, and disables a destination that keeps failing. */
export const runEndListener = (deps: Pick<Deps, 'main' | 'clock' | 'log'>): DeliveryListener => ({
  backoffMs: RUN_BACKOFF_MS,

  async addressOf(delivery) {
    const { destinationId } = nameOf(delivery);
    if (destinationId === CALLS) return delivery;
    const destination = await new DestinationStore(deps, delivery.workspaceId).find(destinationId);
    if (destination === undefined) return { problem: 'the destination was deleted' };
    return destination.enabled ? { url: destination.url } : { problem: 'the destination is disabled' };
  },

  async deliveryDelayed(delivery, { tries, problem, nextTryAt }) {
    const store = new DestinationStore(deps, delivery.workspaceId);
    const state = { status: 'pending', tries, problem, nextTryAt: isoTime(nextTryAt) } as const;
    // Fails if the entry has expired, or if another process has ended the delivery in the meantime.
    await deps.main.transact([store.updateOperation(nameOf(delivery), state)]);
  },

  async deliveryEnded(delivery, outcome, end) {
    const store = new DestinationStore(deps, delivery.workspaceId);
    const name = nameOf(delivery);
    const state = outcome.ok
      ? ({ status: 'delivered', tries: delivery.tries, problem: null, nextTryAt: null } as const)
      : ({ status: 'failed', tries: outcome.tries, problem: outcome.problem, nextTryAt: null } as const);
    const { ok } = await deps.main.transact([store.updateOperation(name, state), end]);
    if (!ok || name.destinationId === CALLS) return ok;
    if (outcome.ok) await store.forgetFailures(name.destinationId);
    else await countFailure(deps, store, { ...name, workspaceId: delivery.workspaceId, problem: outcome.problem });
    return true;
  },
});

async function countFailure(
  { clock, log }: Pick<Deps, 'clock' | 'log'>,
  store: DestinationStore,
  { destinationId, workspaceId, problem }: LogName & { readonly workspaceId: string; readonly problem: string },
): Promise<void> {
  if ((await store.countFailure(destinationId)) < MAX_FAILURES) return;
  const disabledReason = `${MAX_FAILURES} deliveries in a row failed, the last because of this: ${problem}.`;
  const isDisabled = await store.change((destinations) => {
    if (!destinations.some(({ id, enabled }) => id === destinationId && enabled)) return undefined;
    return destinations.map((each) =>
      each.id === destinationId ? { ...each, enabled: false, disabledReason, updatedAt: isoTime(clock.now()) } : each,
    );
  });
  if (isDisabled) log.warn('destination disabled', { workspace_id: workspaceId, destination_id: destinationId });
}
