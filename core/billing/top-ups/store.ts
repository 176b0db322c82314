import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { PaymentState } from '#core/ports/payments.ts';
import { absent, type Changes, equals, exists, type Item, queryAll } from '#core/ports/table.ts';
import { ledgerPartition } from '../credits/ledger.ts';

/**
 * A purchase of credits. Main table: `WS#<workspace id>#LEDGER / TOPUP#<id>`, written before the payment provider knows
 * it.
 * While its state may still change (it is unpaid or disputed), it is in gsi2 under the first digit of its id, by order
 * time.
 *
 * `paidCents`, `refundedCents` and `disputedCents` are the amounts that the ledger has booked for it, and change only
 * together
 * with the ledger's entries. `revision` counts the changes.
 */
export interface TopUp {
  readonly id: string;
  readonly workspaceId: string;
  /** Ordered. */
  readonly cents: number;
  /** Null until the provider's payment page exists. */
  readonly sessionId: string | null;
  readonly status: PaymentState['status'];
  readonly paidCents: number;
  readonly refundedCents: number;
  readonly disputedCents: number;
  readonly revision: number;
  /** ISO 8601. */
  readonly createdAt: string;
}

export interface TopUpIds {
  readonly workspaceId: string;
  readonly topUpId: string;
}

const DIGITS = '0123456789abcdef';

export const topUpKey = ({ workspaceId, topUpId }: TopUpIds) => ({
  pk: ledgerPartition(workspaceId),
  sk: `TOPUP#${topUpId}`,
});

/** Attributes of the index of open top-ups. */
const openIndex = ({ id, createdAt }: Pick<TopUp, 'id' | 'createdAt'>) => ({
  gsi2pk: `TOPUPS#${id[0]}`,
  gsi2sk: `${createdAt}#${id}`,
});

export async function addTopUp(
  { main, clock, ids }: Pick<Deps, 'main' | 'clock' | 'ids'>,
  workspaceId: string,
  cents: number,
): Promise<TopUp> {
  const item: Item = {
    ...topUpKey({ workspaceId, topUpId: ids.uuid() }),
    workspace_id: workspaceId,
    cents,
    session_id: null,
    status: 'open',
    paid_cents: 0,
    refunded_cents: 0,
    disputed_cents: 0,
    revision: 0,
    created_at: isoTime(clock.now()),
  };
  const topUp = readTopUp(item);
  await main.put({ ...item, ...openIndex(topUp) }, absent());
  return topUp;
}

export async function findTopUp({ main }: Pick<Deps, 'main'>, ids: TopUpIds): Promise<TopUp | undefined> {
  const item = await main.get(topUpKey(ids));
  return item && readTopUp(item);
}

/** Records the provider's session. The revision stays: the session does not make data read from the provider stale. */
export async function noteSession({ main }: Pick<Deps, 'main'>, { id, workspaceId }: TopUp, sessionId: string) {
  await main.update(topUpKey({ workspaceId, topUpId: id }), { set: { session_id: sessionId } }, exists());
}

/** Changes of a top-up's record to a newer state; `isOpen`: whether its state may still change. */
export function topUpChange(
  before: TopUp,
  after: Pick<TopUp, 'sessionId' | 'status' | 'paidCents' | 'refundedCents' | 'disputedCents'>,
  isOpen: boolean,
) {
  const changes: Changes = {
    set: {
      session_id: after.sessionId,
      status: after.status,
      paid_cents: after.paidCents,
      refunded_cents: after.refundedCents,
      disputed_cents: after.disputedCents,
      revision: before.revision + 1,
      ...(isOpen && openIndex(before)),
    },
    ...(!isOpen && { remove: ['gsi2pk', 'gsi2sk'] }),
  };
  const key = topUpKey({ workspaceId: before.workspaceId, topUpId: before.id });
  return { key, changes, condition: equals('revision', before.revision) };
}

/** Yields the open top-ups of all workspaces that were ordered before this time. */
export async function* openTopUps({ main }: Pick<Deps, 'main'>, before: number): AsyncGenerator<TopUp> {
  for (const digit of DIGITS) {
    const query = { index: 'gsi2', pk: `TOPUPS#${digit}`, sk: { lessThan: isoTime(before) }, limit: 1000 } as const;
    for await (const item of queryAll(main, query)) yield readTopUp(item);
  }
}

const readTopUp = (item: Item): TopUp => ({
  id: item.sk.slice('TOPUP#'.length),
  workspaceId: item.workspace_id as string,
  cents: item.cents as number,
  sessionId: item.session_id as string | null,
  status: item.status as TopUp['status'],
  paidCents: item.paid_cents as number,
  refundedCents: item.refunded_cents as number,
  disputedCents: item.disputed_cents as number,
  revision: item.revision as number,
  createdAt: item.created_at as string,
});
