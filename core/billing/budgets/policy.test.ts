import { describe, expect, test } from 'vitest';
import { isoTime } from '#core/ports/clock.ts';
import {
  type BudgetPolicy,
  dueThresholds,
  forecast,
  thresholdsOf,
  usdText,
  type WindowKind,
  windowAt,
  withDone,
  withLimits,
} from './policy.ts';

const USD = 1_000_000;
const DAY_MS = 24 * 3_600_000;

const policy = (changes: Partial<BudgetPolicy> = {}): BudgetPolicy => ({
  id: '3f2504e0-4f89-41d3-9a0c-0305e82c3301',
  scopeId: null,
  agent: null,
  window: 'daily',
  softLimitCents: 5_000,
  hardLimitCents: 10_000,
  action: 'alert_only',
  webhookUrl: null,
  createdAt: 0,
  updatedAt: 0,
  done: { windowStart: 0, names: [] },
  ...changes,
});

describe('windows are UTC', () => {
  test.each<[WindowKind, string, string, string]>([
    ['daily', '2035-06-01T00:00:00.000Z', '2035-06-01', '2035-06-02'],
    ['daily', '2035-06-01T23:59:59.999Z', '2035-06-01', '2035-06-02'],
    ['daily', '2036-02-29T12:00:00.000Z', '2036-02-29', '2036-03-01'],
    // 2035-06-04 is a Monday.
    ['weekly', '2035-06-03T23:59:59.999Z', '2035-05-28', '2035-06-04'],
    ['weekly', '2035-06-04T00:00:00.000Z', '2035-06-04', '2035-06-11'],
    // ISO week 1 of 2026 begins in 2025.
    ['weekly', '2026-01-01T08:00:00.000Z', '2025-12-29', '2026-01-05'],
    ['monthly', '2035-12-31T23:59:59.999Z', '2035-12-01', '2036-01-01'],
    ['monthly', '2036-02-29T12:00:00.000Z', '2036-02-01', '2036-03-01'],
  ])('%s at %s', (kind, now, start, end) => {
    const window = windowAt(kind, Date.parse(now));
    expect([isoTime(window.start), isoTime(window.end)]).toEqual([`${start}T00:00:00.000Z`, `${end}T00:00:00.000Z`]);
  });

  test('and follow each other without a gap, through leap days and years', () => {
    for (const kind of ['daily', 'weekly', 'monthly'] as const) {
      let window = windowAt(kind, Date.parse('2031-12-15T00:00:00Z'));
      for (let n = 0; n < 800; n++) {
        const next = windowAt(kind, window.end);
        expect(next.start).toBe(window.end);
        expect(windowAt(kind, next.end - 1)).toEqual(next);
        window = next;
      }
    }
  });
});

describe('thresholds', () => {
  const names = (spent: number, of = policy()) => dueThresholds(of, DAY_MS, spent).map(({ name }) => name);

  test('are 50, 80 and 100% of each limit, exactly', () => {
    expect(thresholdsOf(policy()).map(({ name, amountMicro }) => [name, amountMicro / USD])).toEqual([
      ['soft_limit#50', 25],
      ['soft_limit#80', 40],
      ['soft_limit#100', 50],
      ['hard_limit#50', 50],
      ['hard_limit#80', 80],
      ['hard_limit#100', 100],
    ]);
    expect(names(25 * USD - 1)).toEqual([]);
    expect(names(25 * USD)).toEqual(['soft_limit#50']);
    expect(names(100 * USD)).toHaveLength(6);
    // Includes the largest and the smallest limit in whole cents.
    for (const hardLimitCents of [1, 3, 1_000_000_000]) {
      for (const { amountMicro } of thresholdsOf(policy({ softLimitCents: null, hardLimitCents }))) {
        expect(Number.isSafeInteger(amountMicro)).toBe(true);
      }
    }
  });

  test('are due once a window, and again in the next one', () => {
    const told = withDone(policy(), DAY_MS, 'soft_limit#50');
    expect(names(30 * USD, told)).toEqual([]);
    expect(dueThresholds(told, 2 * DAY_MS, 30 * USD).map(({ name }) => name)).toEqual(['soft_limit#50']);
    const later = withDone(told, 2 * DAY_MS, 'soft_limit#50');
    // A process whose clock is behind sends no alerts for a past window.
    expect(names(100 * USD, later)).toEqual([]);
    expect(withDone(later, DAY_MS, 'hard_limit#50')).toEqual(later);
  });

  test('alert again after a change of limits only if the spend is below them', () => {
    const all = [
      'soft_limit#50',
      'soft_limit#80',
      'soft_limit#100',
      'hard_limit#50',
      'hard_limit#80',
      'hard_limit#100',
    ];
    const told = all.reduce((each, name) => withDone(each, DAY_MS, name), policy());
    const raised = withLimits(told, { softLimitCents: 5_000, hardLimitCents: 15_000 }, DAY_MS, 100 * USD);
    expect(raised.done.names).toEqual(all.slice(0, 4));
    expect(names(120 * USD, raised)).toEqual(['hard_limit#80']);
    const without = withLimits(told, { softLimitCents: 5_000, hardLimitCents: null }, DAY_MS, 100 * USD);
    expect(without.done.names).toEqual(all.slice(0, 3));
  });
});

describe('a forecast', () => {
  const [start, end] = [10 * DAY_MS, 11 * DAY_MS];

  test('goes on at the rate of the window', () => {
    const { microPerDay, spentMicro, breachAt } = forecast(policy(), { start, end }, 60 * USD, start + DAY_MS / 2);
    expect([microPerDay, spentMicro, breachAt]).toEqual([120 * USD, 120 * USD, start + (DAY_MS / 6) * 5]);
  });

  test('has no breach after the window, past the limit, or without spend', () => {
    const half = start + DAY_MS / 2;
    expect(forecast(policy(), { start, end }, 49 * USD, half).breachAt).toBeNull();
    expect(forecast(policy(), { start, end }, 101 * USD, half).breachAt).toBeNull();
    expect(forecast(policy(), { start, end }, 0, half)).toEqual({ microPerDay: 0, spentMicro: 0, breachAt: null });
  });

  test('takes the first hour as a whole one', () => {
    expect(forecast(policy(), { start, end }, USD, start).microPerDay).toBe(24 * USD);
  });
});

test('text of money is rounded down to cents', () => {
  expect([40 * USD, 39_999_999, 0, 1, 10_000_000 * USD].map(usdText)).toEqual([
    '40.00',
    '39.99',
    '0.00',
    '0.00',
    '10000000.00',
  ]);
});
