import { expect, test } from 'vitest';
import { parseConfig } from './config.ts';
import { planOf } from './plans.ts';

test('free and pro have the limits of the interface, and the default plan does not limit the operator', () => {
  const { plans, defaultPlan } = parseConfig({});
  expect(defaultPlan).toBe('enterprise');
  expect(plans.free).toMatchObject({ daily_calls: 1000, daily_sandbox_calls: 50, concurrent_calls: 10 });
  expect(plans.pro).toMatchObject({ daily_calls: 10_000, daily_sandbox_calls: 500, concurrent_calls: 50 });
  expect([plans.free.sandbox_timeout_seconds, plans.pro.sandbox_timeout_seconds]).toEqual([30, 300]);
});

test('dependencies of a version take 1, 2, 4 and 4 GB', () => {
  const { plans } = parseConfig({});
  expect(Object.values(plans).map(({ layer_bytes }) => layer_bytes / 1024 ** 3)).toEqual([1, 2, 4, 4]);
  expect(() => parseConfig({ PLATFORM_PLANS: '{"team":{"layer_bytes":4294967297}}' })).toThrow(/team\.layer_bytes: /);
});

test('in every plan, what a workspace keeps ends somewhere, unless the operator says otherwise', () => {
  const kept = ['agent_versions', 'agent_bytes', 'upload_bytes', 'storage_bytes', 'workspaces'] as const;
  for (const plan of Object.values(parseConfig({}).plans)) {
    for (const member of kept) expect(plan[member]).toBeTypeOf('number');
  }
  const { plans } = parseConfig({ PLATFORM_PLANS: '{"enterprise":{"storage_bytes":null}}' });
  expect(plans.enterprise.storage_bytes).toBeNull();
});

test('numbers of a plan are changed one by one', () => {
  const config = parseConfig({
    PLATFORM_PLANS: '{"free":{"daily_calls":7},"pro":{"concurrent_calls":200}}',
    PLATFORM_DEFAULT_PLAN: 'free',
  });
  expect(planOf({ config }, {})).toMatchObject({ name: 'free', daily_calls: 7, daily_sandbox_calls: 50 });
  expect(planOf({ config }, { plan: 'pro' })).toMatchObject({
    name: 'pro',
    concurrent_calls: 200,
    daily_calls: 10_000,
  });
});

test.each([
  ['{"free":{"daily_call":7}}', /PLATFORM_PLANS=.*free: .*"daily_call"/],
  ['{"gold":{}}', /"gold"/],
  ['{"free":{"daily_calls":-1}}', /free\.daily_calls: /],
  ['{"free":{"concurrent_calls":1001}}', /free\.concurrent_calls: .*1000/],
  ['{"free":{"timeout_seconds":301}}', /free\.timeout_seconds: .*300/],
  ['{free', /PLATFORM_PLANS="\{free": .*object/],
])('%s is refused by name', (text, message) => {
  expect(() => parseConfig({ PLATFORM_PLANS: text })).toThrow(message);
});
