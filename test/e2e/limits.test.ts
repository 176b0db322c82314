import { describe, expect, onTestFinished, test } from 'vitest';
import { clientOf, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { expectError, expectOk } from './expect.ts';
import { expectWait, leftOf } from './suites/limits.ts';

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

  test.for([false, true])(
    'a run counts for itself, whatever it sends as X-Forwarded-For (behind a proxy: %s)',
    async (isBehindProxy, { skip }) => {
      const target = await startLocalTarget({
        PLATFORM_ADDRESS_LIMIT: '5',
        PLATFORM_TRUST_PROXY: String(isBehindProxy),
        PLATFORM_SANDBOX_PRESTART: '0',
      });
      onTestFinished(() => target.close());
      const { kind } = await target.deps.sandbox.status();
      if (kind === 'none') skip('this machine has no sandbox');
      const { hostname, port } = new URL(target.deps.gatewayUrl);
      const knock = (forwardedFor: string) =>
        `GET /org HTTP/1.1\\r\\nHost: x\\r\\nX-Forwarded-For: ${forwardedFor}\\r\\nConnection: close\\r\\n\\r\\n`;
      await publishCode(
        clientOf(target),
        'knocker',
        {
          'main.sh': `statuses=
for i in 1 2 3 4 5 6; do
  exec 3<>/dev/tcp/${hostname}/${port}
  printf '${knock('203.0.113.7')}' >&3
  read -r _ status _ <&3
  statuses="$statuses $status"
done
echo "{\\"statuses\\": \\"$statuses\\"}"
`,
        },
        { runtime: { command: 'bash main.sh' } },
      );
      const run = () => request(target, 'POST', '/acme/knocker/v1/run', { key: target.key, json: {} });
      const first = await run();
      expect(first.body).toMatchObject({ data: { statuses: ' 401 401 401 401 401 429' } });
      expect((await run()).body).toEqual({ ...first.body, metadata: expect.anything() });
      const outside = await request(target, 'GET', '/org', { headers: { 'x-forwarded-for': '203.0.113.7' } });
      expect(leftOf(outside)).toMatchObject({ limit: 5, remaining: 4 });
    },
  );
});

test('refused calls use up the time of their workspace for checks, and of no other', async () => {
  const target = await startLocalTarget({
    PLATFORM_SANDBOX_PRESTART: '0',
    // The limit allows 100 ms at once, enough for ten refused calls.
    PLATFORM_PLANS: '{"free": {"validation_ms_per_minute": 600}}',
    PLATFORM_DEFAULT_PLAN: 'free',
  });
  try {
    // Publishing takes some of the author's time.
    const author = await target.addUser('author');
    const [user, other] = [await target.addUser('refused'), await target.addUser('unrefused')];
    const agent = {
      name: 'greeter',
      type: 'prompt',
      description: 'greets',
      prompt: 'Greet {{name}}.',
      is_public: true,
    };
    await clientOf(target, author.key).createAgent({ body: agent as never });
    const call = (key: string, name?: string) =>
      request(target, 'POST', '/author/greeter/v1/run', {
        key,
        json: { ...(name && { name }), llm_credentials: { api_key: 'a-key', provider: 'anthropic' } },
      });
    const answers = await Promise.all(Array.from({ length: 100 }, () => call(user.key)));
    expect(answers.filter(({ status }) => status === 400).length).toBeGreaterThan(5);
    const refused = await call(user.key, 'Ada');
    expect(expectWait(refused)).toBeLessThanOrEqual(60);
    expect(expectError(refused, 429, 'RATE_LIMITED').message).toContain('600 ms per minute (plan "free")');
    expectOk(await request(target, 'GET', '/org', { key: user.key }));
    expectOk(await call(other.key, 'Ada'));
  } finally {
    await target.close();
  }
});
