import { expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { AddressLimits, clientOf } from './address.ts';

test('an address has a number of requests a minute', async () => {
  const deps = memoryDeps({ addressRequestsPerMinute: 3 });
  const limits = new AddressLimits(deps);
  const count = (address = '203.0.113.7') =>
    limits.count(address).then(
      ({ remaining }) => remaining,
      (error) => error.code,
    );
  expect([await count(), await count(), await count(), await count()]).toEqual([2, 1, 0, 'RATE_LIMITED']);
  expect(await count('203.0.113.8')).toBe(2);
  expect(await limits.left('203.0.113.8')).toMatchObject({ limit: 3, remaining: 2 });
  // Another process continues the same count.
  await expect(new AddressLimits(deps).count('203.0.113.7')).rejects.toMatchObject({
    code: 'RATE_LIMITED',
    extra: { suggested_wait_time: 60 },
    rateLimit: { limit: 3, remaining: 0 },
  });
  await deps.clock.advance(60_000);
  expect(await count()).toBe(2);
});

test('concurrent requests do not exceed the limit', async () => {
  const limits = new AddressLimits(memoryDeps({ addressRequestsPerMinute: 50 }));
  const answers = await Promise.allSettled(Array.from({ length: 200 }, () => limits.count('2001:db8::1')));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(50);
});

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:0DB8:0001:0002::9', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['not an address', 'not an address'],
])('%s is the client %s', (address, client) => {
  expect(clientOf(address)).toBe(client);
});
