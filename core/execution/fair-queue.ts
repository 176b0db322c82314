import { PlatformError } from '#core/base/errors.ts';

/**
 * Order in which sandboxes are given out, on every host that runs at most `max` sandboxes at once.
 *
 * - Runs are queued fairly by owner. Together they hold at most three quarters of the slots, and at least one.
 * - Installations have a queue of their own. Together they hold at most half of the remaining slots, and at least one,
 * so
 *   that sub-calls find the other half.
 * - Sub-calls bypass the queue and may use any free slot. They go first, because a run that holds a slot may be waiting
 * for
 *   one. Installations go before runs.
 * - The next slot goes to the owner that holds the fewest slots of the kind; among equals, first come, first served.
 * - Work waits for at most half of the time until its deadline, so that it still has time to run.
 */
const maxForRuns = (max: number): number => Math.max(1, Math.floor((max * 3) / 4));
const maxForInstalls = (max: number): number => Math.max(1, Math.floor((max - maxForRuns(max)) / 2));

/** Work that holds a slot or waits for one. */
export interface Work {
  /** Owner for fair queueing; absent for work that bypasses the queue. */
  readonly owner?: string;
  /** Whether the work is an installation. @default false, a run */
  readonly isInstall?: boolean;
}

/**
 * Returns those of `waiting` that may take a free slot now, the next one first. The others wait until work of their
 * kind
 * ends.
 *
 * @param waiting in order of arrival
 * @param open work that holds a slot
 */
export function nextInQueue<W extends Work>(waiting: readonly W[], open: Iterable<Work>, max: number): W[] {
  const working = [...open];
  return [
    ...waiting.filter(({ owner }) => owner === undefined),
    ...ofKind(waiting, working, { isInstall: true, max: maxForInstalls(max) }),
    ...ofKind(waiting, working, { isInstall: false, max: maxForRuns(max) }),
  ];
}

function ofKind<W extends Work>(
  waiting: readonly W[],
  open: readonly Work[],
  kind: { readonly isInstall: boolean; readonly max: number },
): W[] {
  const isOfKind = ({ owner, isInstall = false }: Work) => owner !== undefined && isInstall === kind.isInstall;
  const holding = open.filter(isOfKind);
  const held = new Map<string, number>();
  for (const { owner } of holding) held.set(owner!, (held.get(owner!) ?? 0) + 1);
  // Slots that the owner will hold when the work gets one: each of its earlier waiters takes one more.
  const ranked = waiting.filter(isOfKind).map((work) => {
    const rank = held.get(work.owner!) ?? 0;
    held.set(work.owner!, rank + 1);
    return { work, rank };
  });
  ranked.sort((a, b) => a.rank - b.rank);
  return ranked.slice(0, Math.max(0, kind.max - holding.length)).map(({ work }) => work);
}

/** Returns the time (epoch milliseconds) until which work with this deadline waits in the queue. */
export const queueDeadline = (now: number, deadline: number): number => now + Math.max(0, deadline - now) / 2;

/** Error for work that got no slot in time. Suggests a retry after `waitMs`. */
export function noPlaceError(waitMs: number): PlatformError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new PlatformError(
    'RATE_LIMITED',
    `No sandbox became available in time: call again in about ${seconds} s, or with a later deadline.`,
    { suggested_wait_time: seconds },
  );
}
