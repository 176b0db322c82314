import { PlatformError } from '#core/base/errors.ts';
import { noPlaceError } from '#core/execution/fair-queue.ts';
import type { Clock } from '#core/ports/clock.ts';
import { absent, anyOf, lessThan, type Table } from '#core/ports/table.ts';

/**
 * Rate limiter for VM starts, at the rate that the stage sets. The calls of all functions reserve launch slots in one
 * queue, an item of the counters table: `MICROVMS / LAUNCHES#`, with `next`, the epoch milliseconds of the first free
 * slot.
 */
const ROW = { pk: 'MICROVMS', sk: 'LAUNCHES#' };

/**
 * Time in which the stage's number of launches per second may start. It is 5% longer than a second: at AWS's exact rate
 * a call that comes a moment early is refused, asks again and takes the slot of the next call. Unused slots of the last
 * second are given out at once, because AWS allows bursts of that size.
 */
const SECOND_MS = 1050;
/** Backoff between attempts to start a VM while AWS has no capacity. */
const BACKOFF_MS = { first: 250, max: 2_000 };
/** Retry delay for a caller whose VM did not start. */
export const WAIT_SECONDS = 5;

/** Errors of RunMicrovm if the Region has no capacity now, or the account has used up its quota. */
const REFUSED_FOR_NOW = [
  'InsufficientCapacityException',
  'ThrottlingException',
  'ServiceQuotaExceededException',
  'InternalServerException',
];

export interface LaunchProps {
  readonly counters: Table;
  readonly clock: Clock;
  readonly launchesPerSecond: number;
  /** Epoch milliseconds at which the call stops waiting. */
  readonly patience: number;
  readonly signal?: AbortSignal;
}

/**
 * Waits for its launch slot, then retries until AWS has capacity for a VM. Delays are random, so that simultaneous
 * calls do not retry simultaneously.
 *
 * Throws RATE_LIMITED at once if its slot or the next attempt would come after `patience`.
 */
export async function launchInTime<Answer>(props: LaunchProps, launch: () => Promise<Answer>): Promise<Answer> {
  const { clock, patience, signal } = props;
  signal?.throwIfAborted();
  const waitMs = (await placeInRow(props)) - clock.now();
  if (waitMs > 0) await clock.sleep(waitMs, signal);
  for (let longest = BACKOFF_MS.first; ; longest = Math.min(2 * longest, BACKOFF_MS.max)) {
    signal?.throwIfAborted();
    try {
      return await launch();
    } catch (error) {
      const { name } = error as Error;
      if (!REFUSED_FOR_NOW.includes(name)) throw error;
      const pause = longest * (0.5 + Math.random() / 2);
      if (clock.now() + pause > patience) {
        throw new PlatformError(
          'RATE_LIMITED',
          `AWS has no room for another sandbox at the moment (${name}). Nothing was run: call again in ${WAIT_SECONDS} s.`,
          { suggested_wait_time: WAIT_SECONDS },
        );
      }
      await clock.sleep(pause, signal);
    }
  }
}

/**
 * Reserves the next free launch slot: epoch milliseconds, possibly in the past. A cancelled call leaves its slot
 * unused.
 */
async function placeInRow({ counters, clock, launchesPerSecond, patience }: LaunchProps): Promise<number> {
  const everyMs = Math.ceil(SECOND_MS / launchesPerSecond);
  const now = clock.now();
  const oldest = now - SECOND_MS + everyMs;
  const isUnused = anyOf(absent('next'), lessThan('next', oldest));
  if ((await counters.update(ROW, { set: { next: oldest + everyMs } }, isUnused)).ok) return oldest;
  const taken = await counters.update(ROW, { add: { next: everyMs } }, lessThan('next', patience));
  if (taken.ok) return (taken.item.next as number) - everyMs;
  throw noPlaceError(patience - now);
}
