import { describe, expect, test } from 'vitest';
import { request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectOk } from './expect.ts';
import { expectWait, leftOf } from './limits.ts';

describe('without a key', () => {
  test('requests are limited per address and minute, and X-Forwarded-For does not change the address', async () => {
    const target = await startLocalTarget({ PLATFORM_ADDRESS_LIMIT: '20', PLATFORM_SANDBOX_PRESTART: '0' });
    try {
      const knock = (i: number) =>
        request(target, 'GET', '/org', { key: 'wrong', headers: { 'x-forwarded-for': `203.0.113.${i}` } });
      const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => knock(i)));
      // The minute may end during the test.
      const passed = answers.filter(({ status }) => status === 401).length;
      expect([20, 40]).toContain(passed);
      const refused = answers.filter(({ status }) => status === 429);
      expect(refused).toHaveLength(100 - passed);
      for (const answer of refused) {
        expect(expectWait(answer)).toBeLessThanOrEqual(60);
        expect(leftOf(answer)).toMatchObject({ limit: 20, remaining: 0 });
      }
      // Requests with a key and health checks are not limited.
      expectOk(await request(target, 'GET', '/org', { key: target.key }));
      expectOk(await request(target, 'GET', '/public/agents', { key: target.key }));
      expectOk(await request(target, 'GET', '/health'));
    } finally {
      await target.close();
    }
  });

  test('behind a trusted proxy the address is the last one in X-Forwarded-For', async () => {
    const target = await startLocalTarget({
      PLATFORM_ADDRESS_LIMIT: '3',
      PLATFORM_TRUST_PROXY: 'true',
      PLATFORM_SANDBOX_PRESTART: '0',
    });
    try {
      const knock = (address: string) =>
        request(target, 'GET', '/org', { headers: { 'x-forwarded-for': `${Math.random()}, ${address}` } });
      const remaining = [];
      for (const address of ['203.0.113.1', '203.0.113.1', '203.0.113.2']) {
        remaining.push(leftOf(await knock(address)).remaining);
      }
      expect(remaining).toEqual([2, 1, 2]);
    } finally {
      await target.close();
    }
  });
});
