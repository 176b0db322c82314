import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

/** Alerts are sent asynchronously, and other processes of the target read a budget within a second. */
const WAIT = { timeout: 90_000, interval: 300 };

/** Budgets of workspaces and agents. The target must allow alerts to 127.0.0.1. */
export function budgetsSuite(target: () => Target): void {
  describe('budgets', { timeout: 120_000 }, () => {
    let user: TestUser;
    let receiver: Receiver;
    const send = (method: string, path: string, json?: unknown, key = user.key) =>
      request(target(), method, path, { key, json });
    const api = (method: string, path: string, json?: unknown) =>
      send(method, `/workspaces/${user.workspaceId}${path}`, json);
    const call = (agent: string) =>
      send('POST', `/${agent}/v1/run`, { llm_credentials: { api_key: 'a-key', provider: 'anthropic' } });

    beforeAll(async () => {
      needsModel(target());
      receiver = await startReceiver();
      const seller = await target().addUser('bg-author');
      const oracle = { name: 'oracle', type: 'prompt', description: 'knows', prompt: 'Answer.' } as const;
      await clientOf(target(), seller.key).createAgent({
        body: { ...oracle, is_public: true, pricing_mode: 'per_call', price_per_call_cents: 100 },
      });
      user = await target().addUser('bg-buyer');
      await target().grantCredits('bg-buyer', 2000);
      await clientOf(target(), user.key).createAgent({
        body: { ...oracle, name: 'own', supported_providers: ['anthropic'] },
      });
    });
    afterAll(() => receiver?.close());

    test('of a workspace block calls, replays and schedules at the hard limit, and tell of it', async () => {
      expectOk(await api('POST', '/signing-secret'));
      const { budget } = expectOk(
        await api('POST', '/budgets', {
          scope_type: 'workspace',
          window: 'monthly',
          hard_limit_usd: 3,
          action_on_hard_limit: 'block_new_runs',
          webhook_url: `${receiver.url}/budget`,
        }),
        201,
      );
      let runId = '';
      // More calls may be admitted, because the cached spending can be a second old.
      await vi.waitFor(async () => {
        const answer = await call('bg-author/oracle');
        runId = answer.status === 200 ? answer.headers.get('x-run-id')! : runId;
        const { message } = expectError(answer, 429, 'BUDGET_EXCEEDED', 'hard limit of $3.00');
        expect(message).toContain(budget.id);
        expect(message).toContain(budget.window_end);
        expect(answer.body.error.is_retryable).toBe(false);
      }, WAIT);
      // The shown spending may be a second older than the spending by which calls are refused.
      await vi.waitFor(async () => {
        const spent = expectOk(await api('GET', `/budgets/${budget.id}`)).budget;
        expect(spent).toMatchObject({ breach_status: 'hard_limit', agent: null });
        expect(spent.spend.credits_usd).toBeGreaterThanOrEqual(2.9);
        expect(spent.current_spend_usd).toBeGreaterThanOrEqual(3);
      }, WAIT);

      expectError(await api('POST', `/runs/${runId}/replay`), 429, 'BUDGET_EXCEEDED');
      const { schedule } = expectOk(await api('POST', '/schedules', { agent: 'bg-buyer/own', webhook: true }), 201);
      expectOk(
        await send('PUT', `/workspaces/${user.workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'a-key' }),
      );
      const triggered = expectOk(await api('POST', `/schedules/${schedule.id}/trigger`, {}));
      expect(triggered).toMatchObject({ status: 'error', error: expect.stringContaining('blocks new runs') });

      await vi.waitFor(async () => {
        // On AWS usage is summed after the end of a run, so the next minute finds what it has reached.
        await target().passMinute?.();
        expect(receiver.at('/budget')).toHaveLength(3);
      }, WAIT);
      expect(
        receiver
          .at('/budget')
          .map(({ body }) => body.threshold_pct)
          .sort(),
      ).toEqual([100, 50, 80]);
      for (const { body, headers } of receiver.at('/budget')) {
        expect(body).toMatchObject({ event: 'budget.threshold', policy_id: budget.id, limit_usd: '3.00' });
        expect(body.current_spend_usd).toMatch(/^\d+\.\d\d$/);
        expect(headers['webhook-signature']).toMatch(/^v1,/);
      }
      await vi.waitFor(async () => {
        const { alerts } = expectOk(await api('GET', '/budget-alerts'));
        expect(alerts.map(({ delivery }: { delivery: string }) => delivery)).toEqual(['sent', 'sent', 'sent']);
      }, WAIT);

      expectOk(await api('PATCH', `/budgets/${budget.id}`, { hard_limit_usd: 1000 }));
      await vi.waitFor(async () => expectOk(await call('bg-buyer/own')), WAIT);
      expectOk(await api('DELETE', `/budgets/${budget.id}`));
    });

    test('of an agent block that agent alone', async () => {
      const agents = expectOk(await send('GET', '/agents'));
      const { id: scope_id } = agents.find(({ name }: { name: string }) => name === 'own');
      const { budget } = expectOk(
        await api('POST', '/budgets', {
          scope_type: 'agent',
          scope_id,
          window: 'daily',
          hard_limit_usd: 0.01,
          action_on_hard_limit: 'block_new_runs',
        }),
        201,
      );
      expect(budget).toMatchObject({ agent: 'bg-buyer/own', scope_type: 'agent' });
      expectOk(await call('bg-buyer/own'));
      expectOk(await call('bg-author/oracle'));
      const { spend } = expectOk(await api('GET', `/budgets/${budget.id}`)).budget;
      expect(spend.credits_usd).toBe(0);
      expectOk(await api('DELETE', `/budgets/${budget.id}`));
    });
  });
}
