import { batchesOf } from '#core/base/batches.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { OutboundResult } from '#core/ports/outbound.ts';
import { absent, equals, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { messageHeaders } from './signing.ts';

/**
 * A message on its way to an address that a user named. Main table: `DELIVERY#<id> / META`, from the transaction that makes
 * it due until the one that records how it ended; gsi2 has it by the time of its next try. So no crash loses a message,
 * and receivers recognise a repeated one by its `webhook-id`.
 */
export interface Delivery {
  readonly id: string;
  readonly workspaceId: string;
  /** Selects the listener that is told how the delivery ended. */
  readonly kind: string;
  /** Id of what the message is about; its meaning depends on the kind. */
  readonly subjectId: string;
  readonly url: string;
  /** JSON text of at most 64 KB. */
  readonly body: string;
  /** Tries that have begun. */
  readonly tries: number;
}

/** How a delivery ended. `problem` is a sentence for the user who named the address. */
export type DeliveryOutcome =
  | { readonly ok: true }
  | { readonly ok: false; readonly tries: number; readonly problem: string };

/** What a higher wing does when a delivery ends; `core/api/listeners.ts` connects them. */
export interface DeliveryListener {
  /**
   * Writes `end` in one transaction with its own record of the outcome.
   *
   * @returns false if there is nothing left to record it in, or another process wrote `end` first.
   */
  deliveryEnded(delivery: Delivery, outcome: DeliveryOutcome, end: TransactOperation): Promise<boolean>;
}

/** By {@link Delivery.kind}. A delivery of another kind ends without a record. */
export interface DeliveryListeners {
  readonly [kind: string]: DeliveryListener | undefined;
}

/** Pause after the first try, and after the second. The first try is made at once, the others by {@link sweepDeliveries}. */
const BACKOFF_MS = [60_000, 300_000];
const MAX_TRIES = BACKOFF_MS.length + 1;
/** Longer than a try takes: one that has not ended by then was lost with its process. */
const TRY_LOST_MS = 30_000;
const SWEEP_CONCURRENCY = 20;
/** A sweep starts no further batch after this time; the sweep of the next minute continues. */
const MAX_SWEEP_MS = 30_000;
const DIGITS = '0123456789abcdef';

export type DeliveryDeps = Pick<Deps, 'main' | 'vault' | 'outbound' | 'clock' | 'log'>;

const keyOf = (id: string) => ({ pk: `DELIVERY#${id}`, sk: 'META' });
const dueIndex = (id: string, at: number) => ({ gsi2pk: `DELIVERIES#${id[0]}`, gsi2sk: `${isoTime(at)}#${id}` });

export const newDelivery = ({ ids }: Pick<Deps, 'ids'>, message: Omit<Delivery, 'id' | 'tries'>): Delivery => ({
  ...message,
  id: ids.uuid(),
  tries: 0,
});

/** Writes a delivery in the transaction that makes it due. */
export const deliveryOperation = ({ clock }: Pick<Deps, 'clock'>, delivery: Delivery): TransactOperation => ({
  op: 'put',
  item: { ...itemFrom(delivery), ...dueIndex(delivery.id, clock.now() + TRY_LOST_MS) },
  condition: absent(),
});

/** Makes the next try of a delivery, unless another process makes it. Never throws. */
export async function tryDelivery(
  deps: DeliveryDeps,
  delivery: Delivery,
  listener: DeliveryListener | undefined,
): Promise<void> {
  const { main, clock } = deps;
  try {
    const current = { ...delivery, tries: delivery.tries + 1 };
    const claim = { tries: current.tries, ...dueIndex(delivery.id, clock.now() + TRY_LOST_MS) };
    const claimed = await main.update(keyOf(delivery.id), { set: claim }, equals('tries', delivery.tries));
    if (!claimed.ok) return;
    if (delivery.tries >= MAX_TRIES) {
      const problem = 'the platform stopped during its last try';
      return await conclude(deps, current, { ok: false, tries: delivery.tries, problem }, listener);
    }
    const result = await postDelivery(deps, delivery);
    if (!result.ok && !result.isFinal && current.tries < MAX_TRIES) {
      const next = dueIndex(delivery.id, clock.now() + BACKOFF_MS[delivery.tries]!);
      await main.update(keyOf(delivery.id), { set: next }, equals('tries', current.tries));
      return;
    }
    const outcome: DeliveryOutcome = result.ok
      ? { ok: true }
      : { ok: false, tries: current.tries, problem: result.problem };
    await conclude(deps, current, outcome, listener);
  } catch (error) {
    // The sweep tries it again.
    const { id, kind, subjectId } = delivery;
    deps.log.error('delivery not made', { delivery_id: id, kind, subject_id: subjectId, error: String(error) });
  }
}

/** Makes the tries that are due, of all workspaces. Call it every minute. */
export async function sweepDeliveries(deps: DeliveryDeps, listeners: DeliveryListeners): Promise<void> {
  const until = deps.clock.now() + MAX_SWEEP_MS;
  for (const digit of DIGITS) {
    const query = { index: 'gsi2', pk: `DELIVERIES#${digit}`, sk: { lessThan: isoTime(deps.clock.now()) } } as const;
    const due = (await Array.fromAsync(queryAll(deps.main, query))).map(deliveryFrom);
    for (const batch of batchesOf(due, SWEEP_CONCURRENCY)) {
      if (deps.clock.now() >= until) break;
      await Promise.all(batch.map((delivery) => tryDelivery(deps, delivery, listeners[delivery.kind])));
    }
  }
}

/** Posts the message once, signed, and records nothing. */
export async function postDelivery(
  deps: Pick<Deps, 'vault' | 'outbound' | 'clock'>,
  { id, workspaceId, url, body }: Delivery,
): Promise<OutboundResult> {
  const headers = await messageHeaders(deps, workspaceId, { id: `msg_${id}`, body });
  return deps.outbound.post({ url, body, headers });
}

/** The end and its record are one transaction, so each delivery is recorded once. */
async function conclude(
  { main }: Pick<Deps, 'main'>,
  delivery: Delivery,
  outcome: DeliveryOutcome,
  listener: DeliveryListener | undefined,
): Promise<void> {
  const end = { op: 'delete', key: keyOf(delivery.id), condition: equals('tries', delivery.tries) } as const;
  const isRecorded = await listener?.deliveryEnded(delivery, outcome, end);
  if (!isRecorded) await main.delete(end.key, end.condition);
}

const itemFrom = ({ id, workspaceId, kind, subjectId, url, body, tries }: Delivery): Item => ({
  ...keyOf(id),
  id,
  workspace_id: workspaceId,
  kind,
  subject_id: subjectId,
  url,
  body,
  tries,
});

const deliveryFrom = ({ id, workspace_id, kind, subject_id, url, body, tries }: Item): Delivery =>
  ({ id, workspaceId: workspace_id, kind, subjectId: subject_id, url, body, tries }) as Delivery;
