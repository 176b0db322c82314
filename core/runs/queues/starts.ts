import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, allOf, anyOf, type Condition, equals, lessThan } from '#core/ports/table.ts';

/**
 * How many runs may begin in each window of time (`docs/interface/queues.md`). Runs table:
 *
 * - `WS#<workspace id>#RATE#<id of the rule and its key> / STATE`: the last window in which a run may begin that was let or
 *   waits, and the number of such runs in it. Earlier windows are full or over.
 */
export interface Rate {
  readonly workspaceId: string;
  readonly rateId: string;
  readonly count: number;
  readonly seconds: number;
}

/** When a run may begin. */
export interface Start {
  /** Number of the window since 1970. */
  readonly window: number;
  /** Epoch milliseconds: now, or the beginning of a later window. */
  readonly at: number;
}

export const windowAt = ({ seconds }: Pick<Rate, 'seconds'>, now: number): number => Math.floor(now / 1000 / seconds);

/**
 * Lets a run begin now, or in the next window that is not full. Returns `undefined` if that is a later window, and begins
 * after `by` (epoch milliseconds), and then counts nothing. A start that was let and is not used stays counted.
 */
export async function takeStart(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  rate: Rate,
  by: number,
): Promise<Start | undefined> {
  const { workspaceId, rateId, count, seconds } = rate;
  const key = { pk: `WS#${workspaceId}#RATE#${rateId}`, sk: 'STATE' };
  return await retryOnConflict<Start | 'late'>(clock, `the rate ${rateId}`, async () => {
    const now = clock.now();
    const current = windowAt(rate, now);
    const last = await runs.get(key);
    const [lastWindow, used] = [(last?.window as number | undefined) ?? -1, (last?.used as number | undefined) ?? 0];
    const isFull = used >= count;
    const window = lastWindow < current ? current : isFull ? lastWindow + 1 : lastWindow;
    const at = Math.max(now, window * seconds * 1000);
    if (window > current && at > by) return 'late';
    const condition: Condition =
      last === undefined
        ? anyOf(absent(), lessThan('ttl', epochSeconds(now) + 1))
        : allOf(equals('window', lastWindow), equals('used', used));
    const next = { ...key, window, used: window === lastWindow ? used + 1 : 1 };
    const ttl = (window + 1) * seconds + 3600;
    return (await runs.put({ ...next, ttl }, condition)).ok ? { window, at } : undefined;
  }).then((start) => (start === 'late' ? undefined : start));
}

/** Returns when the next run may begin, in epoch milliseconds. */
export async function nextStart({ runs, clock }: Pick<Deps, 'runs' | 'clock'>, rate: Rate): Promise<number> {
  const { workspaceId, rateId, count, seconds } = rate;
  const last = await runs.get({ pk: `WS#${workspaceId}#RATE#${rateId}`, sk: 'STATE' });
  const window =
    ((last?.window as number | undefined) ?? -1) + (((last?.used as number | undefined) ?? 0) >= count ? 1 : 0);
  return Math.max(clock.now(), window * seconds * 1000);
}
