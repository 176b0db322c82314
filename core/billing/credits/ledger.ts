import { PlatformError } from '#core/base/errors.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type Item, type Query, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { findRunContext } from '#core/runs/lookup.ts';
import { earningOperations } from '../earnings/store.ts';

/**
 * The prepaid credits of a workspace, in whole cents. Main table, `WS#<workspace id>#LEDGER`:
 *
 * - `BALANCE` is the balance and the number of entries;
 * - `ENTRY#<number>` is one movement of money, and never changes: the balance is always the sum of the entries;
 * - `HOLD#<run id>` is the state of a call's payment. While it is open, it is in gsi1 under its workspace and in gsi2
 *   under the first digit of the run id, both by expiry;
 * - `GRANT#<id>` is a grant of credits by the operator, so that it is booked once;
 * - `TOPUP#<id>` is the state of a purchase of credits: `../top-ups/store.ts`.
 *
 * The price of a call is charged before it runs, and refunded if it fails: a workspace with ten cents cannot start a
 * hundred calls at ten cents each. Each step is one transaction, and happens at most once for a run.
 *
 * Calls never bring the sum below zero, but refunds and disputes of purchases may. The balance is then zero, and the
 * missing
 * amount is a debt, which blocks paid calls until later credits cover it.
 */
export interface LedgerEntry {
  readonly id: string;
  readonly type: 'top_up' | 'charge' | 'refund';
  /** Cause of the movement, more specific than `type`. */
  readonly kind: EntryKind;
  /** Negative if credits were deducted. */
  readonly amountCents: number;
  readonly balanceAfterCents: number;
  readonly debtAfterCents: number;
  readonly description: string;
  /** Id of the run of a charge or refund, the top-up, or the operator's grant; null for grants of earlier releases. */
  readonly referenceId: string | null;
  /** The payment provider's receipt. */
  readonly receiptUrl: string | null;
  readonly createdAt: string;
}

/**
 * `refund` is for a failed call; `top_up_refund` for credits returned to the payer, or for such a return that failed.
 */
export const ENTRY_KINDS = ['top_up', 'charge', 'refund', 'top_up_refund', 'dispute', 'dispute_release'] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

/** Mapping to the three types that clients know. */
const TYPE_OF = {
  top_up: 'top_up',
  charge: 'charge',
  refund: 'refund',
  top_up_refund: 'refund',
  dispute: 'charge',
  dispute_release: 'refund',
} as const satisfies Record<EntryKind, LedgerEntry['type']>;

/** Balance or debt: at least one of the two is zero. */
export interface Balance {
  readonly cents: number;
  readonly debtCents: number;
}

/** A movement of money to book. */
export type Movement = Pick<LedgerEntry, 'kind' | 'amountCents' | 'description' | 'referenceId'> & {
  readonly receiptUrl?: string | null;
};

export interface Charge {
  readonly workspace: Pick<Workspace, 'id' | 'slug'>;
  readonly runId: string;
  readonly cents: number;
  /** `org/agent@v1`. */
  readonly agentRef: string;
  /** Workspace of the agent's author, and the platform's share of the price. */
  readonly author: { readonly workspaceId: string; readonly feeCents: number };
  /** Epoch milliseconds after which the run counts as lost and the charge is refunded. */
  readonly expiresAt: number;
}

export type LedgerDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>;
type BookDeps = Pick<Deps, 'main' | 'clock' | 'ids'>;

/** Retention of a closed payment's state: longer than any run can take. */
const CLOSED_HOLD_SECONDS = 7 * 24 * 3600;
const DIGITS = '0123456789abcdef';

export const ledgerPartition = (workspaceId: string): string => `WS#${workspaceId}#LEDGER`;
const balanceKey = (workspaceId: string) => ({ pk: ledgerPartition(workspaceId), sk: 'BALANCE' });
const holdKey = (workspaceId: string, runId: string) => ({ pk: ledgerPartition(workspaceId), sk: `HOLD#${runId}` });
/** Padded to twelve digits, so that numbers sort as text. */
const entryKey = (workspaceId: string, number: number) => ({
  pk: ledgerPartition(workspaceId),
  sk: `ENTRY#${String(number).padStart(12, '0')}`,
});

/** Returns the balance, from which the prices of running calls are already deducted. */
export async function balanceOf(deps: LedgerDeps, workspaceId: string): Promise<Balance> {
  await resolveHolds(deps, expiredOf(deps, workspaceId));
  return balanceFrom((await readSum(deps, workspaceId)).sum);
}

const balanceFrom = (sum: number): Balance => ({ cents: Math.max(0, sum), debtCents: Math.max(0, -sum) });

/** Lists entries, newest first. */
export async function listEntries(
  { main }: LedgerDeps,
  workspaceId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<LedgerEntry[]> {
  const end = offset + limit;
  const query: Query = { pk: ledgerPartition(workspaceId), sk: { beginsWith: 'ENTRY#' }, reverse: true };
  const items: Item[] = [];
  for await (const item of queryAll(main, { ...query, limit: Math.min(end, 1000) })) {
    if (items.push(item) === end) break;
  }
  return items.slice(offset).map((item) => {
    const after = balanceFrom(item.balance_after_cents as number);
    const kind = item.type as EntryKind;
    return {
      id: item.id as string,
      type: TYPE_OF[kind],
      kind,
      amountCents: item.amount_cents as number,
      balanceAfterCents: after.cents,
      debtAfterCents: after.debtCents,
      description: item.description as string,
      referenceId: item.reference_id as string | null,
      receiptUrl: (item.receipt_url as string | null | undefined) ?? null,
      createdAt: item.created_at as string,
    };
  });
}

/** A grant of credits by the operator. */
export interface Grant {
  /** Idempotency key chosen by the operator. */
  readonly id: string;
  readonly cents: number;
  readonly description: string;
}

/**
 * Adds credits as the operator, once for each id, and returns the balance; `isNew` is false if the grant was already
 * booked.
 * Throws INVALID_INPUT unless `cents` is a whole number of at least 1, and CONFLICT if the id was used for another
 * grant.
 */
export async function grantCredits(
  deps: BookDeps,
  workspaceId: string,
  { id, cents, description }: Grant,
): Promise<{ readonly balance: Balance; readonly isNew: boolean }> {
  if (!Number.isSafeInteger(cents) || cents < 1) {
    throw new PlatformError('INVALID_INPUT', `Credits are a whole number of cents, at least 1, not ${cents}.`);
  }
  const movement = { kind: 'top_up', amountCents: cents, description, referenceId: id } as const;
  const key = { pk: ledgerPartition(workspaceId), sk: `GRANT#${id}` };
  const alongside: TransactOperation = { op: 'put', item: { ...key, cents, description }, condition: absent() };
  const { balance, isWritten } = await book(deps, workspaceId, [movement], { alongside, mayOwe: true });
  if (isWritten) return { balance, isNew: true };
  const before = await deps.main.get(key);
  if (before?.cents !== cents || before?.description !== description) {
    throw new PlatformError('CONFLICT', `The grant "${id}" was booked before, with another amount or note.`);
  }
  return { balance, isNew: false };
}

/**
 * Charges the price of a call before it runs, once for each run. Throws INSUFFICIENT_CREDITS without charging. When the
 * run
 * has ended, the caller must {@link settle} or {@link refund} the charge. Otherwise the next sweep after `expiresAt`
 * does so
 * according to the run's record.
 */
export async function hold(deps: LedgerDeps, charge: Charge): Promise<void> {
  const { workspace, runId, cents, agentRef, author, expiresAt } = charge;
  const byExpiry = `${isoTime(expiresAt)}#${runId}`;
  const item: Item = {
    ...holdKey(workspace.id, runId),
    workspace_id: workspace.id,
    run_id: runId,
    state: 'held',
    cents,
    agent: agentRef,
    author_workspace_id: author.workspaceId,
    fee_cents: author.feeCents,
    gsi1pk: `WS#${workspace.id}#HOLDS`,
    gsi1sk: byExpiry,
    gsi2pk: `HOLDS#${runId[0]}`,
    gsi2sk: byExpiry,
  };
  const movement = {
    kind: 'charge',
    amountCents: -cents,
    description: `Call of ${agentRef}`,
    referenceId: runId,
  } as const;
  const alongside: TransactOperation = { op: 'put', item, condition: absent() };
  const charged = () => book(deps, workspace.id, [movement], { alongside });
  let booked = await charged();
  // Refunds of lost runs may raise the balance enough.
  if (booked.isShort && (await resolveHolds(deps, expiredOf(deps, workspace.id)))) booked = await charged();
  // The run was charged by an earlier attempt.
  if (!booked.isShort || (await deps.main.get(holdKey(workspace.id, runId)))) return;
  const { cents: left, debtCents } = booked.balance;
  const has = debtCents > 0 ? `owes ${debtCents} for payments that went back to the payer` : `has ${left}`;
  throw new PlatformError(
    'INSUFFICIENT_CREDITS',
    `A call of ${agentRef} costs ${cents} cents, and the workspace "${workspace.slug}" ${has}.`,
    {
      hint: 'An owner can buy credits with POST /billing/checkout; GET /billing/transactions lists past charges.',
    },
  );
}

/** Closes the payment of a completed call and books its author's earnings. Safe to repeat. */
export async function settle({ main, clock }: LedgerDeps, workspaceId: string, runId: string): Promise<void> {
  const held = await main.get(holdKey(workspaceId, runId));
  if (held?.state !== 'held') return;
  const authorId = held.author_workspace_id as string | undefined;
  const priceCents = held.cents as number;
  const earning = { runId, agentRef: held.agent as string, priceCents, feeCents: (held.fee_cents as number) ?? 0 };
  const operations: TransactOperation[] = [
    { op: 'update', ...closing(workspaceId, runId, 'settled', clock.now()) },
    // Charges from releases without earnings have no author.
    ...(authorId === undefined ? [] : earningOperations({ clock }, authorId, earning)),
  ];
  await retryOnConflict(clock, `the payment of run ${runId}`, async () => {
    const result = await main.transact(operations);
    return result.ok || result.failed.includes(0) || undefined;
  });
}

/** Refunds the price of a failed call. Safe to repeat; a no-op for a run that was not charged. */
export async function refund(deps: LedgerDeps, workspaceId: string, runId: string): Promise<void> {
  const held = await deps.main.get(holdKey(workspaceId, runId));
  if (held?.state !== 'held') return;
  const movement = {
    kind: 'refund',
    amountCents: held.cents as number,
    description: `Call of ${held.agent} that failed`,
    referenceId: runId,
  } as const;
  const closed = closing(workspaceId, runId, 'refunded', deps.clock.now());
  await book(deps, workspaceId, [movement], { alongside: { op: 'update', ...closed }, mayOwe: true });
}

/** Closes the expired payments of all workspaces, left open by hosts that died. Call it periodically. */
export async function sweepHolds(deps: LedgerDeps): Promise<void> {
  const before = { lessThan: isoTime(deps.clock.now()) };
  for (const digit of DIGITS) await resolveHolds(deps, { index: 'gsi2', pk: `HOLDS#${digit}`, sk: before });
}

const expiredOf = ({ clock }: LedgerDeps, workspaceId: string): Query => ({
  index: 'gsi1',
  pk: `WS#${workspaceId}#HOLDS`,
  sk: { lessThan: isoTime(clock.now()) },
});

/** Settles or refunds expired payments according to the records of their runs. Returns false if there were none. */
async function resolveHolds(deps: LedgerDeps, expired: Query): Promise<boolean> {
  let found = false;
  for await (const item of queryAll(deps.main, expired)) {
    const [workspaceId, runId] = [item.workspace_id as string, item.run_id as string];
    const recorded = await findRunContext(deps, workspaceId, runId);
    if (recorded !== undefined && !hasEnded(recorded.run.status)) continue;
    const isCharged = recorded !== undefined && recorded.run.creditsCents > 0;
    await (isCharged ? settle : refund)(deps, workspaceId, runId);
    found = true;
  }
  return found;
}

const closing = (workspaceId: string, runId: string, state: 'settled' | 'refunded', now: number) => ({
  key: holdKey(workspaceId, runId),
  changes: {
    set: { state, ttl: epochSeconds(now) + CLOSED_HOLD_SECONDS },
    remove: ['gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk'],
  },
  condition: equals('state', 'held'),
});

/** Reads the sum of all entries, which is negative if there is a debt. */
async function readSum(
  { main }: Pick<LedgerDeps, 'main'>,
  workspaceId: string,
): Promise<{ sum: number; entries: number }> {
  const item = await main.get(balanceKey(workspaceId));
  return { sum: (item?.cents as number | undefined) ?? 0, entries: (item?.entries as number | undefined) ?? 0 };
}

export interface Booked {
  readonly balance: Balance;
  /** False if the balance is too low or the condition of `alongside` failed; nothing was written then. */
  readonly isWritten: boolean;
  readonly isShort: boolean;
}

/**
 * Books movements: writes balance, entries and `alongside` in one transaction, or nothing. Takes at most seven
 * movements.
 * With `mayOwe` the sum may become negative.
 */
export async function book(
  { main, clock, ids }: BookDeps,
  workspaceId: string,
  movements: readonly Movement[],
  { alongside, mayOwe = false }: { readonly alongside?: TransactOperation; readonly mayOwe?: boolean } = {},
): Promise<Booked> {
  return retryOnConflict(clock, `the ledger of workspace ${workspaceId}`, async () => {
    const { sum: before, entries } = await readSum({ main }, workspaceId);
    let after = before;
    const written = movements.map(
      ({ kind, amountCents, description, referenceId, receiptUrl }, i): TransactOperation => {
        after += amountCents;
        return {
          op: 'put',
          item: {
            ...entryKey(workspaceId, entries + i + 1),
            id: ids.uuid(),
            type: kind,
            amount_cents: amountCents,
            balance_after_cents: after,
            description,
            reference_id: referenceId,
            receipt_url: receiptUrl ?? undefined,
            created_at: isoTime(clock.now()),
          },
          condition: absent(),
        };
      },
    );
    const unwritten = { balance: balanceFrom(before), isWritten: false };
    if (after < 0 && !mayOwe) return { ...unwritten, isShort: true };
    const balance: TransactOperation = {
      op: 'put',
      item: { ...balanceKey(workspaceId), cents: after, entries: entries + movements.length },
      condition: entries === 0 ? absent() : equals('entries', entries),
    };
    const { ok, ...rest } = await main.transact([...(alongside ? [alongside] : []), balance, ...written]);
    if (ok) return { balance: balanceFrom(after), isWritten: true, isShort: false };
    const isRefused = alongside !== undefined && 'failed' in rest && rest.failed.includes(0);
    return isRefused ? { ...unwritten, isShort: false } : undefined;
  });
}
