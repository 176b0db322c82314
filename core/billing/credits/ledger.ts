import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, equals, type Item, type Query, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';
import { findRunContext } from '#core/runs/lookup.ts';

/**
 * A workspace's prepaid credits, in whole cents. Main table, `WS#<workspace id>#LEDGER`:
 *
 * - `BALANCE` is what there is, and how many entries led to it;
 * - `ENTRY#<number>` is one movement, never changed: the balance is the sum of them, at any moment;
 * - `HOLD#<run id>` says how far the payment of a call is. While it is open, gsi1 has it under its workspace and gsi2
 *   under the first digit of the run, by the time at which it expires.
 *
 * The price of a call is charged before it runs and given back when it fails, so whoever has ten cents cannot start a
 * hundred calls for ten. Each step is one transaction, and none happens twice for the same run.
 */
export interface LedgerEntry {
  readonly id: string;
  readonly type: 'top_up' | 'charge' | 'refund';
  /** Negative for charges. */
  readonly amountCents: number;
  readonly balanceAfterCents: number;
  readonly description: string;
  /** Run id of a charge and its refund. */
  readonly referenceId: string | null;
  readonly createdAt: string;
}

export interface Charge {
  readonly workspace: Pick<Workspace, 'id' | 'slug'>;
  readonly runId: string;
  readonly cents: number;
  /** `org/agent@v1`. */
  readonly agentRef: string;
  /** Epoch milliseconds past which the run is lost, and what is held is given back. */
  readonly expiresAt: number;
}

type LedgerDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>;

/** How a payment went is known for this long: no run is finished later. */
const CLOSED_HOLD_SECONDS = 7 * 24 * 3600;
const DIGITS = '0123456789abcdef';
/** Its position in a transaction. */
const ALONGSIDE = 2;

const partition = (workspaceId: string): string => `WS#${workspaceId}#LEDGER`;
const balanceKey = (workspaceId: string) => ({ pk: partition(workspaceId), sk: 'BALANCE' });
const holdKey = (workspaceId: string, runId: string) => ({ pk: partition(workspaceId), sk: `HOLD#${runId}` });
/** Twelve digits sort as numbers do. */
const entryKey = (workspaceId: string, number: number) => ({
  pk: partition(workspaceId),
  sk: `ENTRY#${String(number).padStart(12, '0')}`,
});

/** In cents; what calls under way cost is gone from it already. */
export async function balanceOf(deps: LedgerDeps, workspaceId: string): Promise<number> {
  await resolveHolds(deps, expiredOf(deps, workspaceId));
  return (await readBalance(deps, workspaceId)).cents;
}

/** Newest first. */
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

/** Adds credits, and answers the balance. Throws INVALID_INPUT unless `cents` is a whole number of at least 1. */
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
 * Charges the price of a call before it runs, once for each run. Throws INSUFFICIENT_CREDITS, and then nothing was
 * charged. What follows is {@link settle} or {@link refund}; without either it is given back some time after `expiresAt`,
 * unless the run's record says that it completed.
 */
export async function hold(deps: LedgerDeps, charge: Charge): Promise<void> {
  const { workspace, runId, cents, agentRef, expiresAt } = charge;
  const place = `${isoTime(expiresAt)}#${runId}`;
  const item: Item = {
    ...holdKey(workspace.id, runId),
    workspace_id: workspace.id,
    run_id: runId,
    state: 'held',
    cents,
    agent: agentRef,
    gsi1pk: `WS#${workspace.id}#HOLDS`,
    gsi1sk: place,
    gsi2pk: `HOLDS#${runId[0]}`,
    gsi2sk: place,
  };
  const entry = {
    type: 'charge',
    amountCents: -cents,
    description: `Call of ${agentRef}`,
    referenceId: runId,
  } as const;
  const take = () => book(deps, workspace.id, entry, { op: 'put', item, condition: absent() });
  let taken = await take();
  // What lost runs hold is there again; and a run that was charged before is not asked twice.
  if (taken.isShort && (await resolveHolds(deps, expiredOf(deps, workspace.id)))) taken = await take();
  if (!taken.isShort || (await deps.main.get(holdKey(workspace.id, runId)))) return;
  throw new PlatformError(
    'INSUFFICIENT_CREDITS',
    `A call of ${agentRef} costs ${cents} cents, and the workspace "${workspace.slug}" has ${taken.balance}.`,
    {
      hint: 'Credits are added by whoever runs the platform; GET /billing/transactions lists what they were spent on.',
    },
  );
}

/** The call completed: what was held is spent. Safe to repeat. */
export async function settle({ main, clock }: LedgerDeps, workspaceId: string, runId: string): Promise<void> {
  const { key, changes, condition } = closing(workspaceId, runId, 'settled', clock.now());
  await main.update(key, changes, condition);
}

/** The call failed: what was held is given back. Safe to repeat, and without effect for what was never held. */
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

/** Ends the payments of runs whose hosts died, of all workspaces: to be called from time to time. */
export async function sweepHolds(deps: LedgerDeps): Promise<void> {
  const before = { lessThan: isoTime(deps.clock.now()) };
  for (const digit of DIGITS) await resolveHolds(deps, { index: 'gsi2', pk: `HOLDS#${digit}`, sk: before });
}

const expiredOf = ({ clock }: LedgerDeps, workspaceId: string): Query => ({
  index: 'gsi1',
  pk: `WS#${workspaceId}#HOLDS`,
  sk: { lessThan: isoTime(clock.now()) },
});

/** What the record of the run says decides; false when there was nothing to do. */
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
 * Moves money: balance, entry and `alongside` together, in the order in which the entries are numbered; or nothing, when
 * there is not enough or the condition of `alongside` does not hold.
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
