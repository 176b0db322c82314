import type { ErrorCode } from '#core/base/errors.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { NewRun, RunResult } from '../run.ts';
import { binOf, percentile } from './bins.ts';

/**
 * Triggers, outcomes and durations of runs as numbers that a roll-up can add up. A roll-up covers six hours, a quarter
 * of a
 * day. Names are short: DynamoDB bills each write per started kilobyte of its item.
 *
 * - `t<hour of the quarter><bin>` number of runs by duration in milliseconds, from start to end, including waiting;
 * - `run_ms` the sum of these durations;
 * - `e:<code>` number of runs by the error that ended them, `g:<source>` by trigger.
 */
export const QUARTERS = 'abcd';
const HOURS = 6;
/**
 * Few bins, so that an hour of an agent takes about fifty bytes: a percentile is at most 19 % (2^(1/4)) away from a
 * run.
 */
const BINS_PER_OCTAVE = 2;

/** `endedAt` in epoch milliseconds. */
export function outcomeDetails(
  { startedAt, triggerSource }: Pick<NewRun, 'startedAt' | 'triggerSource'>,
  { errorCode }: Pick<RunResult, 'errorCode'>,
  endedAt: number,
): Record<string, number> {
  const duration = Math.max(0, endedAt - startedAt);
  const hour = Number(isoTime(startedAt).slice(11, 13));
  return {
    run_ms: duration,
    [`t${hour % HOURS}${binOf(duration, BINS_PER_OCTAVE)}`]: 1,
    [`g:${triggerSource}`]: 1,
    ...(errorCode !== null && { [`e:${errorCode}`]: 1 }),
  };
}

/** Bin -> number of runs. */
export type Durations = ReadonlyMap<number, number>;

export interface Outcomes {
  /** Hour of the day -> durations of the runs that started in it. */
  readonly durations: ReadonlyMap<number, Durations>;
  /** Sum of all durations, in milliseconds. */
  readonly runMs: number;
  readonly errors: ReadonlyMap<ErrorCode, number>;
  readonly sources: ReadonlyMap<string, number>;
}

/** Item of a roll-up; items written by older releases lack these numbers. */
type RollupItem = { readonly sk: string; readonly [attribute: string]: unknown };

/** Reads the sums of {@link outcomeDetails} from these items. */
export function readOutcomes(items: Iterable<RollupItem>): Outcomes {
  const durations = new Map<number, Map<number, number>>();
  const errors = new Map<ErrorCode, number>();
  const sources = new Map<string, number>();
  let runMs = 0;
  for (const item of items) {
    const first = Math.max(0, QUARTERS.indexOf(item.sk.at(-1)!)) * HOURS;
    for (const [name, value] of Object.entries(item)) {
      if (typeof value !== 'number') continue;
      if (/^t\d\d/.test(name)) {
        const hour = first + Number(name[1]);
        const ofHour = durations.get(hour) ?? new Map<number, number>();
        durations.set(hour, addTo(ofHour, Number(name.slice(2)), value));
      } else if (name.startsWith('e:')) addTo(errors, name.slice(2) as ErrorCode, value);
      else if (name.startsWith('g:')) addTo(sources, name.slice(2), value);
      else if (name === 'run_ms') runMs += value;
    }
  }
  return { durations, runMs, errors, sources };
}

export const runsIn = (durations: Durations): number => durations.values().reduce((sum, count) => sum + count, 0);

export function joined(all: Iterable<Durations>): Durations {
  const sums = new Map<number, number>();
  for (const each of all) for (const [bin, count] of each) addTo(sums, bin, count);
  return sums;
}

/** Returns a duration percentile, with `share` from 0 to 1, in whole milliseconds. */
export const durationPercentile = (durations: Durations, share: number): number =>
  Math.round(percentile(durations, share, BINS_PER_OCTAVE));

function addTo<Key>(sums: Map<Key, number>, key: Key, amount: number): Map<Key, number> {
  return sums.set(key, (sums.get(key) ?? 0) + amount);
}
