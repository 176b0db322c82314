import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, equals, type Item, type Query, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';
import { findRunContext } from '#core/runs/lookup.ts';

/**
 * The prepaid credits of a workspace, in whole cents. Main table, `WS#<workspace id>#LEDGER`:
 *
 * - `BALANCE` is the balance and the number of entries;
 * - `ENTRY#<number>` is one movement of money, and never changes: the balance is always the sum of the entries;
 * - `HOLD#<run id>` is the state of the payment of a call. While it is open, it is in gsi1 under its workspace and in gsi2
 *   under the first digit of the run id, both by the time at which it expires.
 *
 * The price of a call is charged before it runs, and refunded if it fails: a workspace with ten cents cannot start a
 * hundred calls at ten cents each. Each step is one transaction, and happens at most once for a run.
 */
export interface LedgerEntry {
  readonly id: string;
  readonly type: 'top_up' | 'charge' | 'refund';
  /** Negative for charges. */
  readonly amountCents: number;
  readonly balanceAfterCents: number;
  readonly description: string;
  /** The run of a charge or its refund; null for a top-up. */
  readonly referenceId: string | null;
  readonly createdAt: string;
}

export interface Charge {
  readonly workspace: Pick<Workspace, 'id' | 'slug'>;
  readonly runId: string;
  readonly cents: number;
  /** `org/agent@v1`. */
  readonly agentRef: string;
  /** Epoch milliseconds. Past it, the run is lost and the charge is refunded. */
  readonly expiresAt: number;
}

type LedgerDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>;

/** How long the state of a closed payment is kept: longer than any run can take. */
const CLOSED_HOLD_SECONDS = 7 * 24 * 3600;
const DIGITS = '0123456789abcdef';
/** Position of the additional operation in the transaction of {@link book}. */
const ALONGSIDE = 2;

const partition = (workspaceId: string): string => `WS#${workspaceId}#LEDGER`;
const balanceKey = (workspaceId: string) => ({ pk: partition(workspaceId), sk: 'BALANCE' });
const holdKey = (workspaceId: string, runId: string) => ({ pk: partition(workspaceId), sk: `HOLD#${runId}` });
/** Padded to twelve digits, numbers sort as text. */
const entryKey = (workspaceId: string, number: number) => ({
  pk: partition(workspaceId),
  sk: `ENTRY#${String(number).padStart(12, '0')}`,
});

/** Balance in cents, from which the prices of running calls are already taken. */
export async function balanceOf(deps: LedgerDeps, workspaceId: string): Promise<number> {
  await resolveHolds(deps, expiredOf(deps, workspaceId));
  return (await readBalance(deps, workspaceId)).cents;
}

/** Entries, newest first. */
export async function listEntries(
  { main }: LedgerDeps,
  workspaceId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<LedgerEntry[]> {
  const end = offset + limit;
  const query: Query = { pk: partition(workspaceId), sk: { beginsWith: 'ENTRY#' }, reverse: true };
  const items: Item[] = [];
  for await (const item of queryAll(main, { ...query, limit: Math.min(end, 1000) })) {
    if (items.push(item) === end) break;
  }
  return items.slice(offset).map((item) => ({
    id: item.id as string,
    type: item.type as LedgerEntry['type'],
    amountCents: item.amount_cents as number,
    balanceAfterCents: item.balance_after_cents as number,
    description: item.description as string,
    referenceId: item.reference_id as string | null,
    createdAt: item.created_at as string,
  }));
}

/** Adds credits and returns the new balance. Throws INVALID_INPUT unless `cents` is a whole number of at least 1. */
export async function topUp(
  deps: LedgerDeps,
  workspaceId: string,
  { cents, description }: { cents: number; description: string },
): Promise<number> {
  if (!Number.isSafeInteger(cents) || cents < 1) {
    throw new PlatformError('INVALID_INPUT', `Credits are a whole number of cents, at least 1, not ${cents}.`);
  }
  const { balance } = await book(deps, workspaceId, {
    type: 'top_up',
    amountCents: cents,
    description,
    referenceId: null,
  });
  return balance;
}

/**
 * Charges the price of a call before it runs, once for each run. Throws INSUFFICIENT_CREDITS without charging. The caller
 * must {@link settle} or {@link refund} it when the run has ended. Otherwise the next sweep after `expiresAt` does, by the
 * run's record.
 */
export async function hold(deps: LedgerDeps, charge: Charge): Promise<void> {
  const { workspace, runId, cents, agentRef, expiresAt } = charge;
  const byExpiry = `${isoTime(expiresAt)}#${runId}`;
  const item: Item = {
    ...holdKey(workspace.id, runId),
    workspace_id: workspace.id,
    run_id: runId,
    state: 'held',
    cents,
    agent: agentRef,
    gsi1pk: `WS#${workspace.id}#HOLDS`,
    gsi1sk: byExpiry,
    gsi2pk: `HOLDS#${runId[0]}`,
    gsi2sk: byExpiry,
  };
  const entry = {
    type: 'charge',
    amountCents: -cents,
    description: `Call of ${agentRef}`,
    referenceId: runId,
  } as const;
  const charged = () => book(deps, workspace.id, entry, { op: 'put', item, condition: absent() });
  let booked = await charged();
  // Refunds of lost runs may raise the balance.
  if (booked.isShort && (await resolveHolds(deps, expiredOf(deps, workspace.id)))) booked = await charged();
  // A run that was charged before has paid.
  if (!booked.isShort || (await deps.main.get(holdKey(workspace.id, runId)))) return;
  throw new PlatformError(
    'INSUFFICIENT_CREDITS',
    `A call of ${agentRef} costs ${cents} cents, and the workspace "${workspace.slug}" has ${booked.balance}.`,
    {
      hint: 'The operator of the platform adds credits; GET /billing/transactions lists what they were spent on.',
    },
  );
}

/** Closes the payment of a call that completed. Safe to repeat. */
export async function settle({ main, clock }: LedgerDeps, workspaceId: string, runId: string): Promise<void> {
  const { key, changes, condition } = closing(workspaceId, runId, 'settled', clock.now());
  await main.update(key, changes, condition);
}

/** Gives back the price of a call that failed. Safe to repeat; does nothing for a run that was not charged. */
export async function refund(deps: LedgerDeps, workspaceId: string, runId: string): Promise<void> {
  const held = await deps.main.get(holdKey(workspaceId, runId));
  if (held?.state !== 'held') return;
  const entry = {
    type: 'refund',
    amountCents: held.cents as number,
    description: `Call of ${held.agent} that failed`,
    referenceId: runId,
  } as const;
  await book(deps, workspaceId, entry, {
    op: 'update',
    ...closing(workspaceId, runId, 'refunded', deps.clock.now()),
  });
}

/** Closes the expired payments of all workspaces, whose hosts have died. Call it periodically. */
export async function sweepHolds(deps: LedgerDeps): Promise<void> {
  const before = { lessThan: isoTime(deps.clock.now()) };
  for (const digit of DIGITS) await resolveHolds(deps, { index: 'gsi2', pk: `HOLDS#${digit}`, sk: before });
}

const expiredOf = ({ clock }: LedgerDeps, workspaceId: string): Query => ({
  index: 'gsi1',
  pk: `WS#${workspaceId}#HOLDS`,
  sk: { lessThan: isoTime(clock.now()) },
});

/** Settles or refunds expired payments by the records of their runs. Returns false if there were none. */
async function resolveHolds(deps: LedgerDeps, expired: Query): Promise<boolean> {
  let found = false;
  for await (const item of queryAll(deps.main, expired)) {
    const [workspaceId, runId] = [item.workspace_id as string, item.run_id as string];
    const recorded = await findRunContext(deps, workspaceId, runId);
    if (recorded?.run.status === 'running') continue;
    await (recorded?.run.status === 'completed' ? settle : refund)(deps, workspaceId, runId);
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

async function readBalance(
  { main }: Pick<LedgerDeps, 'main'>,
  workspaceId: string,
): Promise<{ cents: number; entries: number }> {
  const item = await main.get(balanceKey(workspaceId));
  return { cents: (item?.cents as number | undefined) ?? 0, entries: (item?.entries as number | undefined) ?? 0 };
}

/**
 * Moves money: writes balance, next entry and `alongside` in one transaction. Writes nothing if the balance is too low
 * (`isShort`), or if the condition of `alongside` fails.
 */
async function book(
  { main, clock, ids }: LedgerDeps,
  workspaceId: string,
  { type, amountCents, description, referenceId }: Omit<LedgerEntry, 'id' | 'balanceAfterCents' | 'createdAt'>,
  alongside?: TransactOperation,
): Promise<{ readonly balance: number; readonly isShort: boolean }> {
  return untilWritten(clock, `the ledger of workspace ${workspaceId}`, async () => {
    const { cents: before, entries } = await readBalance({ main }, workspaceId);
    const after = before + amountCents;
    if (after < 0) return { balance: before, isShort: true };
    const written = await main.transact([
      {
        op: 'put',
        item: { ...balanceKey(workspaceId), cents: after, entries: entries + 1 },
        condition: entries === 0 ? absent() : equals('entries', entries),
      },
      {
        op: 'put',
        item: {
          ...entryKey(workspaceId, entries + 1),
          id: ids.uuid(),
          type,
          amount_cents: amountCents,
          balance_after_cents: after,
          description,
          reference_id: referenceId,
          created_at: isoTime(clock.now()),
        },
        condition: absent(),
      },
      ...(alongside ? [alongside] : []),
    ]);
    if (written.ok) return { balance: after, isShort: false };
    return written.failed.includes(ALONGSIDE) ? { balance: before, isShort: false } : undefined;
  });
}
