import { PlatformError } from '#core/base/errors.ts';

/**
 * Who gets the next sandbox: the rule of every host that runs at most `max` sandboxes at once.
 *
 * - Runs take turns. Together they hold at most three quarters of the places, and at least one. The rest is kept for
 *   sub-calls and installations, which take no turn and may use any free place.
 * - Work without a turn goes first: a run that holds a place may be waiting for it.
 * - The next turn goes to the owner that holds the fewest places; among equals, to the first that asked.
 * - A run waits for at most half of the time until its deadline, so that it still has time to run.
 */
const maxForTurns = (max: number): number => Math.max(1, Math.floor((max * 3) / 4));

/** Work that holds a place or waits for one. */
export interface Work {
  /** Whose turn it is; absent for work that takes no turn. */
  readonly owner?: string;
}

/**
 * Those of `waiting` that may take a free place now, the next one first. The others wait until a run ends.
 *
 * @param waiting in order of arrival
 * @param open what holds a place
 */
export function inTurn<W extends Work>(waiting: readonly W[], open: Iterable<Work>, max: number): W[] {
  const held = new Map<string, number>();
  let room = maxForTurns(max);
  for (const { owner } of open) {
    if (owner === undefined) continue;
    held.set(owner, (held.get(owner) ?? 0) + 1);
    room--;
  }
  // The places that the owner will hold when its turn comes: each of its earlier waiters takes one more.
  const ranked = waiting.map((work) => {
    if (work.owner === undefined) return { work, rank: -1 };
    const rank = held.get(work.owner) ?? 0;
    held.set(work.owner, rank + 1);
    return { work, rank };
  });
  ranked.sort((a, b) => a.rank - b.rank);
  return ranked.filter(({ rank }) => rank < 0 || room-- > 0).map(({ work }) => work);
}

/** Epoch milliseconds until which work with this deadline waits for its turn. */
export const patienceUntil = (now: number, deadline: number): number => now + Math.max(0, deadline - now) / 2;

/** For work that found no place in time. A retry is suggested after `waitMs`. */
export function noPlaceError(waitMs: number): PlatformError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new PlatformError(
    'RATE_LIMITED',
    `No sandbox is ready, and this call cannot wait any longer: call again in about ${seconds} s, or with more time.`,
    { suggested_wait_time: seconds },
  );
}
