import { describe, expect, test, vi } from 'vitest';
import { streamCall } from '#test/helpers/events.ts';
import { clientOf, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import { leftOf } from './limits.ts';

const CREDENTIALS = { api_key: 'a-key', provider: 'anthropic' };

/** Paid agents, and paying for them with credits. */
export function creditsSuite(target: () => Target): void {
  /** Creates an author with an agent at 25 cents a call, and a user with this number of cents. */
  async function market(author: string, buyer: string, cents: number) {
    const [seller, user] = await Promise.all([target().addUser(author), target().addUser(buyer)]);
    await clientOf(target(), seller.key).createAgent({
      body: {
        name: 'oracle',
        type: 'prompt',
        description: 'knows',
        prompt: 'Answer {{question}}.',
        is_public: true,
        pricing_mode: 'per_call',
        price_per_call_cents: 25,
      },
    });
    await target().setPlan(user.workspaceId, 'free');
    if (cents > 0) await target().grantCredits(buyer, cents);
    const call = (question = 'why', { key }: TestUser = user) => {
      const json = { question, llm_credentials: CREDENTIALS };
      return request(target(), 'POST', `/${author}/oracle/v1/run`, { key, json });
    };
    const get = async (path: string) => expectOk(await request(target(), 'GET', path, { key: user.key }));
    return { seller, user, call, get };
  }

  describe.concurrent('credits', () => {
    test('the operator gives them, and plans, over the API', async () => {
      const { operatorKey } = target();
      const user = await target().addUser('cr-given');
      const operate = (method: string, path: string, json?: object, key = operatorKey) =>
        request(target(), method, `/operator/workspaces/${path}`, { key, json });
      expectOk(await operate('PUT', 'cr-given/plan', { plan: 'team' }));
      const grant = { id: 'invoice-1', amount_cents: 750, note: 'Invoice 1' };
      expect((await operate('POST', 'cr-given/credits', grant)).status).toBe(201);
      expect((await operate('POST', `${user.workspaceId}/credits`, grant)).status).toBe(200);
      const shown = expectOk(await operate('GET', 'cr-given'));
      expect(shown).toMatchObject({ id: user.workspaceId, plan: 'team', balance_cents: 750 });
      const [transaction, ...others] = expectOk(
        await request(target(), 'GET', '/billing/transactions', { key: user.key }),
      );
      expect(others).toEqual([]);
      expect(transaction).toMatchObject({ amount_cents: 750, description: 'Invoice 1', reference_id: 'invoice-1' });
      expectError(await operate('POST', 'cr-given/credits', { ...grant, amount_cents: 1 }), 409, 'CONFLICT');
      expectError(await operate('GET', 'cr-given', undefined, user.key), 401, 'UNAUTHORIZED');
    });

    test('a completed call is charged, a failed one is not', async () => {
      const { seller, user, call, get } = await market('cr-author', 'cr-buyer', 60);
      const answer = await call();
      expectOk(answer);
      // Paid calls have a separate daily counter.
      expect(leftOf(answer)).toMatchObject({ limit: 100_000, remaining: 99_999 });
      expectError(await call('[[llm {"status": 500}]]'), 502, 'LLM_ERROR');
      expectError(await call(''), 400, 'MISSING_INPUT_FIELDS');
      expect(await get('/billing/balance')).toEqual({ balance_cents: 35, debt_cents: 0, currency: 'usd' });
      const transactions = await get('/billing/transactions');
      expect(transactions.map((each: Record<string, unknown>) => [each.type, each.amount_cents])).toEqual([
        ['refund', 25],
        ['charge', -25],
        ['charge', -25],
        ['top_up', 60],
      ]);
      expect(transactions.at(-2)).toMatchObject({
        description: 'Call of cr-author/oracle@v1',
        reference_id: answer.headers.get('x-run-id'),
        balance_after_cents: 35,
      });
      expect(await get('/billing/history?limit=1&offset=3')).toEqual(transactions.slice(3));
      expect(await get('/billing/credits')).toMatchObject({ balance_cents: 35, recent_transactions: transactions });

      const run = await get(`/workspaces/${user.workspaceId}/runs/${answer.headers.get('x-run-id')}`);
      expect(run).toMatchObject({ status: 'completed' });
      expect(await get('/usage')).toMatchObject({ total_calls: 2, credits_cents: 25 });
      // Only a workspace's own credits are shown, and an author's own calls are free.
      const own = await request(target(), 'GET', '/billing/credits', { key: seller.key });
      expect(expectOk(own)).toEqual({
        balance_cents: 0,
        debt_cents: 0,
        currency: 'usd',
        recent_transactions: [],
      });
      expectOk(await call('why', seller));
    });

    test('a caller who ends a call after its first output pays for it', async () => {
      const { user, get } = await market('cr-shown', 'cr-reader', 200);
      const path = '/cr-shown/oracle/v1/run';
      const begin = async (turn: object, headers: Record<string, string> = {}) => {
        const json = { question: `[[llm ${JSON.stringify(turn)}]]`, llm_credentials: CREDENTIALS };
        const { records, headers: answered } = await streamCall(target(), path, { key: user.key, json, headers });
        return { records, runId: answered.get('x-run-id')! };
      };
      const cancel = (runId: string) =>
        request(target(), 'POST', `/workspaces/${user.workspaceId}/runs/${runId}/cancel`, { key: user.key });
      const balance = async () => (await get('/billing/balance')).balance_cents;
      const endOf = async (runId: string) => get(`/workspaces/${user.workspaceId}/runs/${runId}`);
      // The first frames of the model's answer have text, then the stream hangs.
      const shows = { text: 'All that there is to know.', hangAfter: 6 };

      const read = await begin(shows);
      for await (const { data } of read.records) if (data.type === 'text_delta') expectOk(await cancel(read.runId));
      expect(await endOf(read.runId)).toMatchObject({ status: 'cancelled' });
      await vi.waitFor(async () => expect(await balance()).toBe(175), { timeout: 10_000 });

      const late = await begin(shows, { 'X-Platform-Deadline-Ms': String(Date.now() + 3000) });
      await Array.fromAsync(late.records);
      expect(await endOf(late.runId)).toMatchObject({ status: 'timeout' });
      await vi.waitFor(async () => expect(await balance()).toBe(150), { timeout: 10_000 });

      // A call that has shown nothing is free, and so is one that fails by itself.
      const silent = await begin({ text: 'no', hangAfter: 0 });
      expectOk(await cancel(silent.runId));
      await Array.fromAsync(silent.records);
      expect(await endOf(silent.runId)).toMatchObject({ status: 'cancelled' });
      const broken = await begin({ text: 'All that there is to know.', streamError: true });
      await Array.fromAsync(broken.records);
      expect(await endOf(broken.runId)).toMatchObject({ status: 'failed' });
      await vi.waitFor(async () => expect(await balance()).toBe(150), { timeout: 10_000 });
      const kinds = (await get('/billing/transactions')).map(({ type }: { type: string }) => type);
      expect(kinds).toEqual(['refund', 'charge', 'refund', 'charge', 'charge', 'charge', 'top_up']);
    });

    test('a call with too few credits is refused with its price', async () => {
      const { call, get } = await market('cr-dear', 'cr-poor', 24);
      expectError(await call(), 402, 'INSUFFICIENT_CREDITS', /costs 25 cents.* has 24\./);
      expect(await get('/billing/balance')).toMatchObject({ balance_cents: 24 });
    });

    test('of ten concurrent calls, only those that the credits cover run', async () => {
      const { call, get } = await market('cr-rush', 'cr-few', 4 * 25);
      const slow = '[[llm {"delayMs": 500}]]';
      const answers = await Promise.all(Array.from({ length: 10 }, () => call(slow)));
      expect(answers.map(({ status }) => status).sort()).toEqual([...Array(4).fill(200), ...Array(6).fill(402)]);
      expect(await get('/billing/balance')).toMatchObject({ balance_cents: 0 });
      const left = await get('/billing/transactions');
      expect(left).toHaveLength(5);
    });
  });
}
