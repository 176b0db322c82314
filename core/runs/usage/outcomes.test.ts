import { expect, test } from 'vitest';

import type { Item } from '#core/ports/table.ts';
import { encodeItem, itemBytes } from '#core/ports/table-rules.ts';
import { durationPercentile, joined, outcomeDetails, readOutcomes, runsIn } from './outcomes.ts';

const START = Date.parse('2035-06-14T12:00:00Z');
const HOUR_MS = 3600_000;

/** Builds the roll-up item of these runs of a quarter of a day. */
function itemOf(runs: readonly (readonly [startedAt: number, durationMs: number])[]): Item {
  const item: Record<string, number> = {};
  for (const [startedAt, durationMs] of runs) {
    const run = { startedAt, triggerSource: 'schedule' };
    const details = outcomeDetails(run, { errorCode: null }, startedAt + durationMs);
    for (const [name, amount] of Object.entries(details)) item[name] = (item[name] ?? 0) + amount;
  }
  return { pk: 'WS#acme#USAGE', sk: '2035-06-14#acme/echo#0c', ...item };
}

test('each run is in its hour, whichever quarters are read together', () => {
  const items = [itemOf([[START, 100]]), { ...itemOf([[START, 800]]), sk: '2035-06-14#acme/echo#3a' }];
  const { durations, runMs } = readOutcomes(items);
  expect([...durations].map(([hour, bins]) => [hour, runsIn(bins)])).toEqual([
    [12, 1],
    [0, 1],
  ]);
  expect(runMs).toBe(900);
  expect(runsIn(joined(durations.values()))).toBe(2);
});

test.each([0, 0.4, 1, 7, 999, 1000, 59_999, 900_000])('a duration of %d ms is told within 19 %%', (durationMs) => {
  const { durations } = readOutcomes([itemOf([[START, durationMs]])]);
  const found = durationPercentile(durations.get(12)!, 0.95);
  if (durationMs < 1) expect(found).toBe(0);
  else
    expect(Math.abs(Math.log2(found / durationMs))).toBeLessThanOrEqual(Math.max(0.25, Math.log2(1 + 1 / durationMs)));
});

test('the clock of a host that was set back makes no negative duration', () => {
  expect(readOutcomes([itemOf([[START, -5000]])])).toMatchObject({ runMs: 0 });
});

test('errors and triggers are counted; older items have neither', () => {
  const run = { startedAt: START, triggerSource: 'api' };
  const failed = outcomeDetails(run, { errorCode: 'LLM_ERROR' }, START + 1);
  const old: Item = { pk: 'x', sk: '2035-06-14#acme/echo#0', runs: 3, tenant_id: 'e:x', h07_calls: 3 };
  const found = readOutcomes([{ pk: 'x', sk: '2035-06-14#acme/echo#0c', ...failed }, old]);
  expect(found.errors).toEqual(new Map([['LLM_ERROR', 1]]));
  expect(found.sources).toEqual(new Map([['api', 1]]));
});

test('six busy hours whose durations differ by a factor of ten take less than a third of a kilobyte', () => {
  const durations = Array.from({ length: 200 }, (_, index) => 1200 * 10 ** (index / 199));
  const runs = Array.from({ length: 6 }, (_, hour) => durations.map((each) => [START + hour * HOUR_MS, each] as const));
  const bytes = (item: Item) => itemBytes(encodeItem(item));
  expect(bytes(itemOf(runs.flat())) - bytes(itemOf([]))).toBeLessThan(330);
});
