import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import {
  absent,
  allOf,
  anyOf,
  type Changes,
  equals,
  exists,
  type Item,
  type Key,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { RunContinuesError } from './run-continues.ts';

/**
 * Which process works on a run until when. Runs table, one item for each run that has not ended and that any process may
 * take up:
 *
 * - `LEASE#<first digit of the run id> / <run id>`: workspace, holder, `until`, and how often it was taken over. gsi1 lists
 *   the leases of a digit by the time from which they are worth a look.
 *
 * A process renews its lease every {@link RENEW_MS}. A lease that has ended belongs to whoever takes it first. It only keeps
 * others away. What keeps a process from writing after it lost its lease is the journal, whose steps are written once.
 */
export const LEASE_MS = 30_000;
export const RENEW_MS = 10_000;
/** A run that is due for longer was asked for several times: its process should be there. */
const OVERDUE_MS = 3 * 60_000;
/** Leases are removed with their runs. The expiry only cleans up after a lost write. */
const KEPT_MS = 40 * 24 * 3600 * 1000;
const DIGITS = '0123456789abcdef';

const keyOf = (runId: string): Key => ({ pk: `LEASE#${runId[0]}`, sk: runId });
const duePartition = (digit: string): string => `DUE#${digit}`;

/**
 * Why a run waits for a process. While a process has it, the reason is stored for the case that the process dies:
 * `host_lost`.
 */
export type LeaseReason =
  | 'host_lost'
  | 'handover'
  | 'later'
  | 'retry'
  | 'look'
  /** It waits for people, time or events, until one of its calls has waited for long enough. */
  | 'timeout'
  /** It waited, and something was decided. */
  | 'decision'
  /** It waited, and waits for a place in a queue to continue. */
  | 'turn';

export interface Lease {
  readonly runId: string;
  readonly workspaceId: string;
  /** Unique for each time that a process takes the run. */
  readonly holder: string;
  /** Number of times that a process has taken the run, from 1. */
  readonly attempt: number;
  /** Epoch milliseconds. */
  readonly until: number;
  readonly reason: LeaseReason;
  /** Epoch milliseconds at which the last process stopped working on it, as far as is known. */
  readonly leftAt: number;
  /** Total time in which no process worked on the run. */
  readonly idleMs: number;
  /** The last turn that was finished before the run was taken, and how often it was taken since. */
  readonly turn: number;
  readonly takenInTurn: number;
  /** When a run that waited for its time was first tried to begin, in epoch milliseconds. */
  readonly triedSince?: number;
  /**
   * Number of decisions about calls of the run (`approvals/store.ts`) when a process took it. A process leaves the run
   * waiting only if there were none since.
   */
  readonly decided: number;
}

type LeaseDeps = Pick<Deps, 'runs' | 'clock' | 'ids'>;

/** Builds the first lease of a run that begins now, in this process. */
export function firstLease(
  { clock, ids }: Pick<Deps, 'clock' | 'ids'>,
  { workspaceId, runId }: Pick<Lease, 'workspaceId' | 'runId'>,
): Lease {
  const now = clock.now();
  return {
    ...{ runId, workspaceId, holder: ids.uuid(), attempt: 1, until: now + LEASE_MS, reason: 'host_lost', leftAt: now },
    ...{ idleMs: 0, turn: 0, takenInTurn: 1, decided: 0 },
  };
}

/** Builds the lease of a run that waits for its time (`dueAt`, in epoch milliseconds). */
export const laterLease = (
  deps: Pick<Deps, 'clock' | 'ids'>,
  run: Pick<Lease, 'workspaceId' | 'runId'>,
  dueAt: number,
): Lease => ({ ...firstLease(deps, run), until: dueAt, reason: 'later', leftAt: dueAt, takenInTurn: 0 });

/** Returns the write of the lease of a run that waits, for the transaction that records the run. */
export const putLeaseOperation = (lease: Lease): TransactOperation => ({
  op: 'put',
  item: itemOf(lease, lease.until),
  condition: absent(),
});

/**
 * Returns the write by which a run waits for its next try at `dueAt` (epoch milliseconds), for its transaction. With
 * `isHeld`, this process has the lease, and the write fails if the run was taken.
 */
export function retryLeaseOperation(
  { clock }: Pick<Deps, 'clock'>,
  lease: Lease,
  {
    dueAt,
    isHeld,
    reason = 'retry',
  }: { readonly dueAt: number; readonly isHeld: boolean; readonly reason?: 'retry' | 'later' | 'turn' },
): TransactOperation {
  const { triedSince: _, ...kept } = lease;
  const given: Lease = { ...kept, until: dueAt, reason, leftAt: clock.now(), takenInTurn: 0 };
  return { op: 'put', item: itemOf(given, dueAt), ...(isHeld && { condition: equals('holder', lease.holder) }) };
}

/**
 * Returns the write that lets a run begin or continue that waits for a place in a queue. It fails if a process has taken the
 * run.
 */
export function beginNowOperation({ clock }: Pick<Deps, 'clock'>, runId: string): TransactOperation {
  const now = clock.now();
  return {
    op: 'update',
    key: keyOf(runId),
    changes: { set: { until: now, gsi1sk: isoTime(now) } },
    condition: anyOf(equals('reason', 'later'), equals('reason', 'turn')),
  };
}

/**
 * Returns the write by which a run waits for decisions until `dueAt` (epoch milliseconds), for the transaction that records
 * it. It fails if the run was taken, or if something was decided since this process took it.
 */
export function waitLeaseOperation({ clock }: Pick<Deps, 'clock'>, lease: Lease, dueAt: number): TransactOperation {
  const given: Lease = { ...lease, reason: 'timeout', until: dueAt, leftAt: clock.now(), takenInTurn: 0 };
  const isUndecided =
    lease.decided === 0 ? anyOf(absent('decided'), equals('decided', 0)) : equals('decided', lease.decided);
  return { op: 'put', item: itemOf(given, dueAt), condition: allOf(equals('holder', lease.holder), isUndecided) };
}

/**
 * Returns the write by which a run learns of a decision, for the transaction that records the decision: it counts it, and
 * makes the lease of a run that waits due now. It fails if the lease has changed since it was read.
 */
export function decisionLeaseOperation({ clock }: Pick<Deps, 'clock'>, lease: Lease): TransactOperation {
  const now = clock.now();
  const due = { until: now, reason: 'decision', gsi1sk: isoTime(now) };
  return {
    op: 'update',
    key: keyOf(lease.runId),
    changes: { add: { decided: 1 }, ...(lease.reason === 'timeout' && { set: due }) },
    condition: allOf(equals('holder', lease.holder), equals('reason', lease.reason)),
  };
}

/**
 * Returns the write that makes the lease of a run that waits due now, for the transaction that records why. A process that
 * has the run learns of it by the record. It fails if the lease has changed since it was read.
 */
export function wakeLeaseOperation({ clock }: Pick<Deps, 'clock'>, { runId, reason }: Lease): TransactOperation {
  const now = clock.now();
  const key = keyOf(runId);
  const changes = reason === 'timeout' || reason === 'turn' ? { set: { until: now, gsi1sk: isoTime(now) } } : {};
  return { op: 'update', key, changes, condition: equals('reason', reason) };
}

/** Not deleted: functions that begin or cancel runs may not delete items of this table. */
const endedAt = (now: number): Changes => ({ set: { ttl: epochSeconds(now) }, remove: ['gsi1pk', 'gsi1sk'] });

/** Returns the write that ends the lease of a run that begins, for its transaction. It fails if the run was taken. */
export const endLeaseOperation = (
  { clock }: Pick<Deps, 'clock'>,
  { runId, holder }: Pick<Lease, 'runId' | 'holder'>,
): TransactOperation => ({
  op: 'update',
  key: keyOf(runId),
  changes: endedAt(clock.now()),
  condition: equals('holder', holder),
});

/** Ends the lease of a run that never begins. Safe to repeat. */
export async function endLease({ runs, clock }: Pick<Deps, 'runs' | 'clock'>, runId: string): Promise<void> {
  await runs.update(keyOf(runId), endedAt(clock.now()), exists());
}

/** Returns the write that keeps the lease of a run that begins, for its transaction. It fails if the run was taken. */
export function keepLeaseOperation({ clock }: Pick<Deps, 'clock'>, lease: Lease): TransactOperation {
  const { runId, holder, attempt, idleMs: idle_ms } = lease;
  const now = clock.now();
  return {
    op: 'update',
    key: keyOf(runId),
    changes: { set: { attempt, idle_ms, until: now + LEASE_MS, left_at: now }, remove: ['tried_since'] },
    condition: equals('holder', holder),
  };
}

/**
 * Takes a run that has waited for its time or its next try. Returns `undefined` if another process was faster, or if it is
 * too early.
 */
export async function takeWaiting(
  deps: LeaseDeps,
  lease: Lease,
  { isFree = false }: { readonly isFree?: boolean } = {},
): Promise<Lease | undefined> {
  const now = deps.clock.now();
  if (!isFree && lease.until > now) return undefined;
  const { triedSince = now, takenInTurn, attempt, idleMs, turn, decided } = lease;
  const kept = { attempt, idleMs, turn, triedSince, decided };
  const taken: Lease = { ...firstLease(deps, lease), ...kept, takenInTurn: takenInTurn + 1 };
  const condition = allOf(equals('holder', lease.holder), equals('until', lease.until));
  return (await deps.runs.put(itemOf(taken, now), condition)).ok ? taken : undefined;
}

/** Writes the lease of a run that begins, or that waits for its time (`dueAt`, in epoch milliseconds). */
export async function putLease({ runs, clock }: LeaseDeps, lease: Lease, dueAt = clock.now()): Promise<void> {
  await runs.put(itemOf(lease, dueAt), absent());
}

export async function findLease({ runs }: Pick<Deps, 'runs'>, runId: string): Promise<Lease | undefined> {
  const item = await runs.get(keyOf(runId));
  return item && leaseFrom(item);
}

/** Extends the lease. Returns false if another process has it, or if the run has ended. */
export async function renewLease({ runs, clock }: LeaseDeps, lease: Lease): Promise<boolean> {
  const now = clock.now();
  const set = { until: now + LEASE_MS, left_at: now };
  return (await runs.update(keyOf(lease.runId), { set }, equals('holder', lease.holder))).ok;
}

/**
 * Takes a run whose lease has ended; `isFree` also takes one that has not, if its process is known to be dead. Returns
 * the lease with the reason why the run waited; `undefined` if another process was faster.
 */
export async function takeLease(
  { runs, clock, ids }: LeaseDeps,
  lease: Lease,
  { turn, isFree = false }: { readonly turn: number; readonly isFree?: boolean },
): Promise<Lease | undefined> {
  const now = clock.now();
  if (!isFree && lease.until > now) return undefined;
  // The program worked meanwhile.
  const isLook = lease.reason === 'look';
  const taken: Lease = {
    ...lease,
    holder: ids.uuid(),
    attempt: lease.attempt + (isLook ? 0 : 1),
    until: now + LEASE_MS,
    leftAt: now,
    idleMs: lease.idleMs + (isLook ? 0 : Math.max(0, now - lease.leftAt)),
    turn,
    takenInTurn: turn > lease.turn ? 1 : lease.takenInTurn + 1,
  };
  const condition = allOf(equals('holder', lease.holder), equals('until', lease.until));
  return (await runs.put(itemOf({ ...taken, reason: 'host_lost' }, now), condition)).ok ? taken : undefined;
}

/** Gives a run back, for any process to take from `dueAt` (epoch milliseconds) on. Returns false if it was lost before. */
export async function giveBackLease(
  { runs, clock }: LeaseDeps,
  lease: Lease,
  { reason, dueAt = clock.now() }: { readonly reason: LeaseReason; readonly dueAt?: number },
): Promise<boolean> {
  const given: Lease = { ...lease, reason, until: dueAt, leftAt: clock.now() };
  return (await runs.put(itemOf(given, dueAt), equals('holder', lease.holder))).ok;
}

/** Lets another process look at a program now. Returns false if no look is due later. */
export async function lookNow(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  { runId, holder }: Lease,
): Promise<boolean> {
  const now = clock.now();
  const set = { until: now, gsi1sk: isoTime(now) };
  return (await runs.update(keyOf(runId), { set }, allOf(equals('holder', holder), equals('reason', 'look')))).ok;
}

/** Removes the lease of a run that has ended. Safe to repeat. */
export async function dropLease({ runs }: Pick<Deps, 'runs'>, runId: string): Promise<void> {
  await runs.delete(keyOf(runId));
}

/**
 * Yields the runs that no process works on and whose time has come; with `all`, also those of processes whose leases have
 * not ended, whatever the clock says.
 */
export async function* dueLeases(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  { all = false }: { readonly all?: boolean } = {},
): AsyncGenerator<Lease> {
  const now = clock.now();
  for (const digit of DIGITS) {
    const due = { index: 'gsi1', pk: duePartition(digit), limit: 1000 } as const;
    const query = all ? due : { ...due, sk: { lessThan: isoTime(now + 1) } };
    for await (const item of queryAll(runs, query)) {
      const lease = leaseFrom(item);
      if ((all && lease.reason === 'host_lost') || lease.until <= now) yield lease;
    }
  }
}

/** Whether something is wrong with a run: its time has come, or its time to wait is over, and no process takes it up. */
export const isOverdue = ({ until }: Pick<Lease, 'until'>, now: number): boolean => now - until > OVERDUE_MS;

/**
 * Renews a lease in the background until it is stopped. `lost` is aborted once another process has the run, or once no
 * renewal has succeeded for as long as the lease lasts.
 */
export function keepLease(
  deps: LeaseDeps & Pick<Deps, 'log'>,
  lease: Lease,
): { readonly lost: AbortSignal; stop(): void } {
  const { clock, log } = deps;
  const lost = new AbortController();
  let renewedAt = clock.now();
  let cancel = (): void => {};
  let isStopped = false;
  const renew = async (): Promise<void> => {
    const at = clock.now();
    const isRenewed = await renewLease(deps, lease).catch((error: unknown) => {
      log.warn('lease of a run not renewed', { run_id: lease.runId, error: String(error) });
      return undefined;
    });
    if (isRenewed) renewedAt = at;
    if (isStopped) return;
    if (isRenewed === false || clock.now() - renewedAt >= LEASE_MS)
      return lost.abort(new RunContinuesError(lease.runId, 'lost'));
    wait();
  };
  const wait = (): void => {
    cancel = clock.after(RENEW_MS, () => void renew());
  };
  wait();
  return {
    lost: lost.signal,
    stop() {
      isStopped = true;
      cancel();
    },
  };
}

const itemOf = (lease: Lease, dueAt: number): Item => ({
  ...keyOf(lease.runId),
  workspace_id: lease.workspaceId,
  holder: lease.holder,
  attempt: lease.attempt,
  until: lease.until,
  reason: lease.reason,
  left_at: lease.leftAt,
  idle_ms: lease.idleMs,
  turn: lease.turn,
  taken_in_turn: lease.takenInTurn,
  tried_since: lease.triedSince,
  decided: lease.decided === 0 ? undefined : lease.decided,
  ttl: epochSeconds(dueAt + KEPT_MS),
  gsi1pk: duePartition(lease.runId[0]!),
  gsi1sk: isoTime(dueAt),
});

const leaseFrom = (item: Item): Lease => ({
  runId: item.sk,
  workspaceId: item.workspace_id as string,
  holder: item.holder as string,
  attempt: item.attempt as number,
  until: item.until as number,
  reason: item.reason as LeaseReason,
  leftAt: item.left_at as number,
  idleMs: item.idle_ms as number,
  turn: item.turn as number,
  takenInTurn: item.taken_in_turn as number,
  triedSince: item.tried_since as number | undefined,
  decided: (item.decided as number | undefined) ?? 0,
});
