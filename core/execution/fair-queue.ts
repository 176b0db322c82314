import { PlatformError } from '#core/base/errors.ts';

/**
 * Who gets the next sandbox: the rule of every host that runs at most `max` sandboxes at once.
 *
 * - Runs take turns. Together they hold at most three quarters of the places, and at least one.
 * - Installations take turns of their own. Together they hold at most half of the rest, and at least one, so that
 *   sub-calls find the other half.
 * - Sub-calls take no turn and may use any free place. They go first: a run that holds a place may be waiting for one.
 *   Installations go before runs.
 * - The next turn goes to the owner that holds the fewest places of the kind; among equals, to the first that asked.
 * - Work waits for at most half of the time until its deadline, so that it still has time to run.
 */
const maxForRuns = (max: number): number => Math.max(1, Math.floor((max * 3) / 4));
const maxForInstalls = (max: number): number => Math.max(1, Math.floor((max - maxForRuns(max)) / 2));

/** Work that holds a place or waits for one. */
export interface Work {
  /** Whose turn it is; absent for work that takes no turn. */
  readonly owner?: string;
  /** @default false: a run */
  readonly isInstall?: boolean;
}

/**
 * Those of `waiting` that may take a free place now, the next one first. The others wait until one of their kind ends.
 *
 * @param waiting in order of arrival
 * @param open what holds a place
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
  // The places that the owner will hold when its turn comes: each of its earlier waiters takes one more.
  const ranked = waiting.filter(isOfKind).map((work) => {
    const rank = held.get(work.owner!) ?? 0;
    held.set(work.owner!, rank + 1);
    return { work, rank };
  });
  ranked.sort((a, b) => a.rank - b.rank);
  return ranked.slice(0, Math.max(0, kind.max - holding.length)).map(({ work }) => work);
}

/** Epoch milliseconds until which work with this deadline waits for its turn. */
export const queueDeadline = (now: number, deadline: number): number => now + Math.max(0, deadline - now) / 2;

/** For work that found no place in time. A retry is suggested after `waitMs`. */
export function noPlaceError(waitMs: number): PlatformError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new PlatformError(
    'RATE_LIMITED',
    `No sandbox is ready, and this call cannot wait any longer: call again in about ${seconds} s, or with more time.`,
    { suggested_wait_time: seconds },
  );
}
