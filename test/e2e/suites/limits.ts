import { describe, expect, test } from 'vitest';
import { type Answer, clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const CREDENTIALS = { api_key: 'a-key', provider: 'anthropic' };
const DAY_MS = 24 * 3600 * 1000;

/** Returns the rate-limit headers of an answer. */
export function leftOf({ headers }: Answer) {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) => {
    const value = headers.get(`x-ratelimit-${name}`);
    expect(value, name).toMatch(/^\d+$/);
    return Number(value);
  });
  return { limit: limit!, remaining: remaining!, reset: reset! };
}

export function expectWait(answer: Answer): number {
  const { suggested_wait_time: wait, is_retryable } = expectError(answer, 429, 'RATE_LIMITED');
  expect(is_retryable).toBe(true);
  expect(answer.headers.get('retry-after')).toBe(String(wait));
  return wait;
}

/** Limits of plans, and the headers that show them. */
export function limitsSuite(target: () => Target): void {
  async function prompter(slug: string, plan?: 'free' | 'pro', body: Record<string, unknown> = {}) {
    const user = await target().addUser(slug);
    if (plan) await target().setPlan(user.workspaceId, plan);
    const agent = { name: 'greeter', type: 'prompt', description: 'greets', prompt: 'Greet {{name}}.', ...body };
    await clientOf(target(), user.key).createAgent({ body: agent as never });
    const call = (input: Record<string, unknown> = { name: 'Ada' }, caller: TestUser = user) => {
      const json = { ...input, llm_credentials: CREDENTIALS };
      return request(target(), 'POST', `/${slug}/greeter/v1/run`, { key: caller.key, json });
    };
    return { user, call };
  }

  describe.concurrent('limits', () => {
    test('a pattern that backtracks ends its own call only', async () => {
      const input_schema = { properties: { name: { type: 'string', pattern: '^(a|a)*$' } } };
      const { call } = await prompter('lim-pattern', undefined, { input_schema });
      const hostile = call({ name: `${'a'.repeat(60)}!` });
      const others = await Promise.all(Array.from({ length: 5 }, () => request(target(), 'GET', '/health')));
      expect(others.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
      expect(expectError(await hostile, 400, 'INVALID_INPUT').message).toContain('could not be checked');
      expectOk(await call({ name: 'aaa' }));
    });

    test('every answer shows the remaining daily calls and their reset at midnight UTC', async () => {
      const { user, call } = await prompter('lim-head', 'free');
      const midnight = (Math.floor(Date.now() / DAY_MS) + 1) * (DAY_MS / 1000);
      const { key } = user;
      expect(leftOf(await request(target(), 'GET', '/org', { key }))).toEqual({
        limit: 1000,
        remaining: 1000,
        reset: midnight,
      });
      const called = await call();
      expectOk(called);
      expect(leftOf(called)).toEqual({ limit: 1000, remaining: 999, reset: midnight });
      const wrong = [
        await call({}),
        await request(target(), 'GET', '/agents/nothing', { key }),
        await request(target(), 'POST', '/agents', { key, json: { name: 7 } }),
        await request(target(), 'POST', '/nobody/nothing/v1/run', { key, json: {} }),
      ];
      expect(wrong.map(({ status }) => status)).toEqual([400, 404, 400, 404]);
      for (const answer of wrong) expect(leftOf(answer)).toMatchObject({ limit: 1000, remaining: 999 });
      const stranger = { key, headers: { 'x-workspace-id': '3f2504e0-4f89-41d3-9a0c-0305e82c3301' } };
      const others = [
        await request(target(), 'GET', '/org', stranger),
        await request(target(), 'GET', '/org'),
        await request(target(), 'GET', '/health'),
        await request(target(), 'PATCH', '/health'),
      ];
      expect(others.map(({ status }) => status)).toEqual([403, 401, 200, 405]);
      for (const answer of others) expect(leftOf(answer).reset - Date.now() / 1000).toBeLessThan(120);
      // With a key, public reads count for the workspace and not for the address.
      expect(leftOf(await request(target(), 'GET', '/public/agents', { key })).limit).toBe(1000);
      expect(leftOf(await request(target(), 'GET', '/public/agents', { key: 'sk_live_x' })).limit).not.toBe(1000);
    });

    test.each([
      ['GET', '/agents/x'],
      ['GET', '/api-keys'],
      ['GET', '/workspaces'],
      ['GET', '/workspaces/x/secrets'],
      ['GET', '/workspaces/x/runs'],
      ['POST', '/uploads'],
      ['GET', '/usage'],
      ['GET', '/billing/balance'],
      ['POST', '/nobody/nothing/v1/run'],
      ['GET', '/public/agents'],
      ['GET', '/public/agents/nobody/nothing/v1/download'],
    ])('%s %s counts who has no key', async (method, path) => {
      const before = leftOf(await request(target(), method, path));
      const after = leftOf(await request(target(), method, path));
      expect(after.limit).toBe(before.limit);
      if (after.reset === before.reset) expect(after.remaining).toBeLessThan(before.remaining);
    });

    test("exactly the plan's daily calls are answered", async () => {
      const user = await target().addUser('lim-day');
      await target().setPlan(user.workspaceId, 'free');
      await publishCode(clientOf(target(), user.key), 'echo', { 'main.py': 'print("{}")' });
      const call = (input: unknown = {}) =>
        request(target(), 'POST', '/lim-day/echo/v1/run', { key: user.key, json: input });
      let answers: Answer[] = [];
      for (let batch = 0; batch < 5; batch++) {
        answers = await Promise.all(Array.from({ length: 10 }, () => call()));
        for (const answer of answers) expect(answer.status).not.toBe(429);
      }
      expect(Math.min(...answers.map((answer) => leftOf(answer).remaining))).toBe(0);
      const refused = await call();
      const wait = expectWait(refused);
      const { limit, remaining, reset } = leftOf(refused);
      expect([limit, remaining]).toEqual([50, 0]);
      expect(Math.abs(reset - Date.now() / 1000 - wait)).toBeLessThan(60);
      expect(refused.body.error.message).toContain(new Date(reset * 1000).toISOString());
      // Prompt agents have a separate counter.
      expect(leftOf(await request(target(), 'GET', '/org', { key: user.key }))).toMatchObject({ remaining: 1000 });
    });

    test('no more calls run concurrently than the plan allows', async () => {
      const { user, call } = await prompter('lim-burst', 'free');
      const refused: Answer[] = [];
      const calls = Array.from({ length: 30 }, async () => {
        const answer = await call({ name: '[[llm {"waitFor": "the rest of the burst"}]]' });
        if (answer.status !== 200) refused.push(answer);
        // The admitted calls run until all others are refused.
        if (refused.length >= 20) target().llm.release('the rest of the burst');
        return answer.status;
      });
      expect((await Promise.all(calls)).filter((status) => status === 200)).toHaveLength(10);
      expect(refused.map(expectWait)).toEqual(Array(20).fill(1));
      expect(leftOf(await request(target(), 'GET', '/org', { key: user.key })).remaining).toBe(990);
      expectOk(await call());
    });

    test('a burst of one workspace does not limit another', async () => {
      const [burst, other] = [await prompter('lim-noisy', 'free'), await prompter('lim-quiet', 'free')];
      const slow = { name: '[[llm {"waitFor": "the quiet one"}]]' };
      const flood = Promise.all(Array.from({ length: 60 }, () => burst.call(slow)));
      expectOk(await other.call());
      target().llm.release('the quiet one');
      expect(new Set((await flood).map(({ status }) => status))).toEqual(new Set([200, 429]));
    });
  });
}
