import { expect, test } from 'vitest';
import { bucketOf, channelIn, errorRate, isOnCanary, isWatched, type Sticking, type StoredCanary } from './channel.ts';

const AGENT = { workspaceId: 'w', name: 'bot' };
const canaryOf = (percent: number, more: Partial<StoredCanary> = {}): StoredCanary => ({
  ...{ version: 2, percent, max_error_rate: 0.1, min_calls: 20 },
  ...more,
});
const isOn = (percent: number, sticking: Sticking, more: Partial<StoredCanary> = {}, id = 7) =>
  isOnCanary(AGENT, { id, canary: canaryOf(percent, more) }, sticking);
const tenants = Array.from({ length: 5_000 }, (_, i) => ({ tenant: `tenant-${i}` }));

test('the buckets of values are spread evenly', () => {
  const counts = new Array<number>(20).fill(0);
  for (const { tenant } of tenants) counts[Math.floor(bucketOf(['w', 'bot', 1, 2], tenant) / 500)]!++;
  // 250 are expected in each, with a standard deviation of 15.4.
  expect(Math.min(...counts)).toBeGreaterThan(250 - 6 * 15.4);
  expect(Math.max(...counts)).toBeLessThan(250 + 6 * 15.4);
});

test.each([0.5, 1, 10, 33.33, 50, 90])('%d percent of the values are on the canary', (percent) => {
  const share = tenants.filter((tenant) => isOn(percent, tenant)).length / tenants.length;
  const deviation = Math.sqrt((percent / 100) * (1 - percent / 100) * (1 / tenants.length));
  expect(Math.abs(share - percent / 100)).toBeLessThan(6 * deviation);
});

test('a value keeps its side, and a larger percentage only adds values', () => {
  let before: readonly Sticking[] = [];
  for (const percent of [0, 0.01, 1, 5, 5.5, 20, 50, 99.99, 100]) {
    const on = tenants.filter((tenant) => isOn(percent, tenant));
    expect(tenants.filter((tenant) => isOn(percent, tenant))).toEqual(on);
    expect(new Set(on)).toEqual(new Set([...before, ...on]));
    before = on;
  }
  expect(before).toHaveLength(tenants.length);
});

test('none is on a canary of 0 percent, and all are on one of 100, also without a value', () => {
  for (const sticking of [{}, { key: 'k' }, { tenant: 't', session: 's', key: 'k' }]) {
    expect(isOn(0, sticking)).toBe(false);
    expect(isOn(100, sticking)).toBe(true);
  }
});

test('a call sticks by its tenant, else its session, else its key, unless the canary says by what', () => {
  const sides = (sticking: readonly Sticking[], more: Partial<StoredCanary> = {}) =>
    sticking.map((each) => isOn(50, each, more));
  const values = Array.from({ length: 50 }, (_, i) => String(i));
  const byTenant = sides(values.map((tenant) => ({ tenant })));
  expect(sides(values.map((tenant) => ({ tenant, session: `s${tenant}`, key: 'k' })))).toEqual(byTenant);
  const bySession = sides(values.map((session) => ({ session })));
  expect(sides(values.map((session) => ({ session, key: 'k' })))).toEqual(bySession);
  expect(
    sides(
      values.map((session) => ({ session, tenant: 't', key: 'k' })),
      { key: 'session' },
    ),
  ).toEqual(bySession);
  expect(
    new Set(
      sides(
        values.map((tenant) => ({ tenant, key: 'k' })),
        { key: 'key' },
      ),
    ).size,
  ).toBe(1);
  // A tenant and a session of the same name are two callers.
  expect(bySession).not.toEqual(byTenant);
});

test('without a value to stick by, each call is drawn anew', () => {
  const share = (sticking: Sticking, more: Partial<StoredCanary> = {}) =>
    Array.from({ length: 400 }, () => isOn(50, sticking, more)).filter(Boolean).length / 400;
  for (const found of [share({}), share({ tenant: 't' }, { key: 'session' })])
    expect(Math.abs(found - 0.5)).toBeLessThan(0.2);
});

test('another canary, and a new channel of the same name, choose other callers', () => {
  const on = (more: Partial<StoredCanary>, id?: number) =>
    tenants.filter((tenant) => isOn(50, tenant, more, id)).length;
  const both = (more: Partial<StoredCanary>, id?: number) =>
    tenants.filter((tenant) => isOn(50, tenant) && isOn(50, tenant, more, id)).length;
  expect(both({ version: 3 }) / on({ version: 3 })).toBeLessThan(0.6);
  expect(both({}, 8) / on({}, 8)).toBeLessThan(0.6);
  expect(both({ max_error_rate: 1, min_calls: 3 })).toBe(on({}));
});

test('channels are found by their own names alone', () => {
  expect(channelIn({}, 'constructor')).toBeUndefined();
});

test('a canary is watched while it gets calls that it may lose, and until its end was told', () => {
  const watched = (canary?: StoredCanary) =>
    isWatched({
      id: 1,
      version: 1,
      before: [],
      revision: 1,
      created_at: '',
      updated_at: '',
      ...(canary && { canary }),
    });
  const end = { at: '', calls: 20, failed: 20, is_told: false };
  expect(watched()).toBe(false);
  expect(watched(canaryOf(0))).toBe(false);
  expect(watched(canaryOf(1))).toBe(true);
  expect(watched(canaryOf(1, { max_error_rate: 1 }))).toBe(false);
  expect(watched(canaryOf(0, { taken_back: end }))).toBe(true);
  expect(watched(canaryOf(0, { taken_back: { ...end, is_told: true } }))).toBe(false);
});

test('an error rate without calls is 0', () => {
  expect(errorRate({ calls: 0, failed: 0 })).toBe(0);
});
