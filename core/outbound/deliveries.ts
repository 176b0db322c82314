import { batchesOf } from '#core/base/batches.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { OutboundResult } from '#core/ports/outbound.ts';
import { absent, equals, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { messageHeaders } from './signing.ts';

/**
 * A message to an address that a user configured. Main table: `DELIVERY#<id> / META`, from the transaction that makes
 * it due until the one that records its outcome; gsi2 lists it by the time of its next attempt. So a crash loses no
 * message, and receivers recognize duplicates by their `webhook-id`.
 */
export interface Delivery {
  readonly id: string;
  readonly workspaceId: string;
  /** Selects the listener for the outcome of the delivery. */
  readonly kind: string;
  /** Id of the subject of the message; its meaning depends on the kind. */
  readonly subjectId: string;
  readonly url: string;
  /** JSON text of at most 64 KB. */
  readonly body: string;
  /** @default `application/json` */
  readonly contentType?: string;
  /** Number of attempts started. */
  readonly tries: number;
}

/** Outcome of a delivery. `problem` is a sentence for the user who configured the address. */
export type DeliveryOutcome =
  | { readonly ok: true }
  | { readonly ok: false; readonly tries: number; readonly problem: string };

/** A delivery that is tried again at `nextTryAt` (epoch milliseconds). */
export interface DeliveryDelay {
  readonly tries: number;
  readonly problem: string;
  readonly nextTryAt: number;
}

export interface DeliveryAddress {
  readonly url: string;
  /** @default - only those of every message */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Callback of a higher wing for the end of a delivery; `core/api/listeners.ts` connects them. */
export interface DeliveryListener {
  /** Delays after the attempts that failed; one more attempt follows the last of them. @default {@link BACKOFF_MS} */
  readonly backoffMs?: readonly number[];
  /**
   * Returns the address to which the delivery goes now, or why it goes nowhere any more; it then ends as failed. `headers` are
   * those that are secret: they are sent to this address alone and not stored.
   *
   * @default - the address that it was made with
   */
  addressOf?(delivery: Delivery): Promise<DeliveryAddress | { readonly problem: string }>;
  /** Records a failed attempt that is not the last. @default - nothing is recorded */
  deliveryDelayed?(delivery: Delivery, delay: DeliveryDelay): Promise<void>;
  /**
   * Writes `end` in one transaction with its own record of the outcome.
   *
   * @returns false if the subject no longer exists, or if another process wrote `end` first.
   */
  deliveryEnded(delivery: Delivery, outcome: DeliveryOutcome, end: TransactOperation): Promise<boolean>;
}

/** Listeners by {@link Delivery.kind}. A delivery of another kind ends without a record. */
export interface DeliveryListeners {
  readonly [kind: string]: DeliveryListener | undefined;
}

/**
 * Backoff after the first and the second attempt. The first attempt is immediate, the others are made by {@link
 * sweepDeliveries}.
 */
const BACKOFF_MS = [60_000, 300_000];
/** Longer than an attempt takes: an attempt that has not ended by then was lost with its process. */
const TRY_LOST_MS = 30_000;
const SWEEP_CONCURRENCY = 20;
const MAX_DUE_OF_WORKSPACE = 64;
/** A sweep starts no new batch after this time; the sweep of the next minute continues. */
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

/** Makes the next attempt of a delivery, unless another process makes it. Never throws. */
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
    const backoffMs = listener?.backoffMs ?? BACKOFF_MS;
    if (delivery.tries > backoffMs.length) {
      const problem = 'the platform stopped during its last attempt';
      return await conclude(deps, current, { ok: false, tries: delivery.tries, problem }, listener);
    }
    const address: DeliveryAddress | { readonly problem: string } = (await listener?.addressOf?.(delivery)) ?? {
      url: delivery.url,
    };
    if ('problem' in address) {
      return await conclude(deps, current, { ok: false, tries: delivery.tries, problem: address.problem }, listener);
    }
    const result = await postDelivery(deps, { ...delivery, url: address.url }, address.headers);
    const backoff = backoffMs[delivery.tries];
    if (!result.ok && !result.isFinal && backoff !== undefined) {
      const nextTryAt = clock.now() + backoff;
      const next = dueIndex(delivery.id, nextTryAt);
      await main.update(keyOf(delivery.id), { set: next }, equals('tries', current.tries));
      await listener?.deliveryDelayed?.(current, { tries: current.tries, problem: result.problem, nextTryAt });
      return;
    }
    const outcome: DeliveryOutcome = result.ok
      ? { ok: true }
      : { ok: false, tries: current.tries, problem: result.problem };
    await conclude(deps, current, outcome, listener);
  } catch (error) {
    // The sweep retries it.
    const { id, kind, subjectId } = delivery;
    deps.log.error('delivery not made', { delivery_id: id, kind, subject_id: subjectId, error: String(error) });
  }
}

/** Makes all due attempts, of all workspaces. Call it every minute. */
export async function sweepDeliveries(deps: DeliveryDeps, listeners: DeliveryListeners): Promise<void> {
  const until = deps.clock.now() + MAX_SWEEP_MS;
  const due = await dueDeliveries(deps);
  for (const batch of batchesOf(inTurns(due), SWEEP_CONCURRENCY)) {
    if (deps.clock.now() >= until) break;
    await Promise.all(batch.map((delivery) => tryDelivery(deps, delivery, listeners[delivery.kind])));
  }
}

/** Reads at most {@link MAX_DUE_OF_WORKSPACE} deliveries of each workspace, in every sweep from another partition on. */
async function dueDeliveries({ main, clock }: DeliveryDeps): Promise<Delivery[]> {
  const now = clock.now();
  const first = Math.floor(now / 60_000) % DIGITS.length;
  const counts = new Map<string, number>();
  const due: Delivery[] = [];
  for (const digit of DIGITS.slice(first) + DIGITS.slice(0, first)) {
    const query = { index: 'gsi2', pk: `DELIVERIES#${digit}`, sk: { lessThan: isoTime(now) } } as const;
    for await (const item of queryAll(main, query)) {
      const delivery = deliveryFrom(item);
      const count = (counts.get(delivery.workspaceId) ?? 0) + 1;
      counts.set(delivery.workspaceId, count);
      if (count <= MAX_DUE_OF_WORKSPACE) due.push(delivery);
    }
  }
  return due;
}

/** Orders deliveries so that workspaces take turns: a slow receiver of one does not delay the others. */
function inTurns(due: readonly Delivery[]): Delivery[] {
  const turns = new Map<string, number>();
  return due
    .map((delivery) => {
      const turn = turns.get(delivery.workspaceId) ?? 0;
      turns.set(delivery.workspaceId, turn + 1);
      return { delivery, turn };
    })
    .sort((a, b) => a.turn - b.turn)
    .map(({ delivery }) => delivery);
}

/** `webhook-id` of all attempts of a delivery. */
export const messageId = (deliveryId: string): string => `msg_${deliveryId}`;

/** Posts the message once, signed, and records nothing. */
export async function postDelivery(
  deps: Pick<Deps, 'vault' | 'outbound' | 'clock'>,
  { id, workspaceId, url, body, contentType }: Delivery,
  secretHeaders?: DeliveryAddress['headers'],
): Promise<OutboundResult> {
  const headers = await messageHeaders(deps, workspaceId, { id: messageId(id), body });
  return deps.outbound.post({
    url,
    body,
    headers: { ...secretHeaders, ...headers, ...(contentType && { 'content-type': contentType }) },
    // A redirect would give them to another receiver.
    ...(secretHeaders && { followsRedirects: false }),
  });
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

const itemFrom = ({ id, workspaceId, kind, subjectId, url, body, contentType, tries }: Delivery): Item => ({
  ...keyOf(id),
  id,
  workspace_id: workspaceId,
  kind,
  subject_id: subjectId,
  url,
  body,
  content_type: contentType,
  tries,
});

const deliveryFrom = ({ id, workspace_id, kind, subject_id, url, body, content_type, tries }: Item): Delivery =>
  ({
    id,
    workspaceId: workspace_id,
    kind,
    subjectId: subject_id,
    url,
    body,
    ...(content_type !== undefined && { contentType: content_type }),
    tries,
  }) as Delivery;
