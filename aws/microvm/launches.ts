import { PlatformError } from '#core/base/errors.ts';
import { noPlaceError } from '#core/execution/fair-queue.ts';
import type { Clock } from '#core/ports/clock.ts';
import { absent, anyOf, lessThan, type Table } from '#core/ports/table.ts';

/**
 * Starts of VMs, at the rate that the stage sets. The calls of all functions take their places in one row, which is one
 * item of the counters table: `MICROVMS / LAUNCHES#`, with `next`, the epoch milliseconds of the first place that is free.
 */
const ROW = { pk: 'MICROVMS', sk: 'LAUNCHES#' };

/**
 * In this time as many VMs start as the stage allows in a second. It is a twentieth longer than a second: at AWS's very rate a call
 * that comes a moment early is refused. It then asks again and takes the turn of the next call. Unused places of the last second
 * are given out at once, because AWS allows as many starts at once.
 */
const SECOND_MS = 1050;
/** Backoff between two attempts to start a VM while AWS has no room. */
const BACKOFF_MS = { first: 250, max: 2_000 };
/** After which a caller whose VM did not start is told to call again. */
export const WAIT_SECONDS = 5;

/** Errors of RunMicrovm when the Region has no room now, or the account has used its quota. */
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
  /** Epoch milliseconds after which the call does not wait. */
  readonly patience: number;
  readonly signal?: AbortSignal;
}

/**
 * Waits for its place in the row, then asks for a VM until AWS has room for one. Pauses are random, so that calls of one
 * moment do not ask again in one moment.
 *
 * Throws RATE_LIMITED, and at once, when its place or the next attempt would come after `patience`.
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

/** Takes the next free place: epoch milliseconds, which may have passed. A call that is cancelled leaves its place unused. */
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
