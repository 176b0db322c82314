import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';

/** `/usage` and `/author-usage` count every call. */
export function usageSuite(target: () => Target): void {
  describe('usage', () => {
    let author: TestUser;
    let caller: TestUser;
    const FAILING = 'x [[llm {"status":400}]]';

    const get = async (path: string, user = caller) =>
      expectOk(await request(target(), 'GET', path, { key: user.key }));
    const call = (agent: string, name: string, tenant?: string, user = caller) =>
      request(target(), 'POST', `/usage-author/${agent}/v1/run`, {
        key: user.key,
        json: { name },
        headers: tenant === undefined ? {} : { 'x-platform-tenant': tenant },
      });

    beforeAll(async () => {
      needsModel(target());
      author = await target().addUser('usage-author');
      caller = await target().addUser('usage-caller');
      for (const user of [author, caller]) {
        const json = { name: 'ANTHROPIC_API_KEY', value: `sk-usage-${user.slug}` };
        expectOk(await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json }));
      }
      for (const name of ['greet', 'thank']) {
        await clientOf(target(), author.key).createAgent({
          body: {
            name,
            type: 'prompt',
            description: name,
            prompt: `${name} {{name}}`,
            supported_providers: ['anthropic'],
            is_public: true,
          },
        });
      }
      // Concurrent calls of other users change the same items.
      await Promise.all([
        ...Array.from({ length: 9 }, () => call('greet', 'a caller of a tenant', 'eu')),
        ...Array.from({ length: 4 }, () => call('thank', 'a caller of a tenant', 'us')),
        ...Array.from({ length: 6 }, () => call('greet', 'a caller')),
        ...Array.from({ length: 3 }, () => call('thank', FAILING, 'us')),
        ...Array.from({ length: 2 }, () => call('greet', 'the author', undefined, author)),
      ]);
      // Calls refused before a run are not counted.
      expectError(await call('greet', 'x', 'not a tenant!'), 400, 'INVALID_INPUT');
    });

    test('is summed over all calls', async () => {
      const usage = await get('/usage');
      expect(usage).toMatchObject({ total_calls: 22, total_errors: 3, credits_cents: 0 });
      expect(usage.calls_remaining).toBeGreaterThan(0);
      expect(usage.input_tokens).toBeGreaterThan(0);
      expect(usage.period_start).toMatch(/T00:00:00\.000Z$/);
      expect(usage.period_end).toMatch(ISO_TIME);
      expect(await get('/usage?tenant_id=us&days=2')).toMatchObject({ total_calls: 7, total_errors: 3 });
      expect(await get('/usage', author)).toMatchObject({ total_calls: 2, total_errors: 0 });
    });

    test('is grouped by day and hour', async () => {
      const sum = (points: { calls: number }[]) => points.reduce((all, { calls }) => all + calls, 0);
      const days = await get('/usage/timeseries?days=7');
      expect(days.points).toHaveLength(7);
      expect(sum(days.points)).toBe(22);
      const hours = await get('/usage/timeseries?days=2&granularity=hour&tenant_id=eu');
      expect(hours.points.length).toBeGreaterThan(24);
      expect(sum(hours.points)).toBe(9);
    });

    test('is grouped by agent and tenant', async () => {
      const { by_agent } = await get('/usage/breakdown');
      expect(by_agent).toMatchObject([
        { org_slug: 'usage-author', agent_name: 'greet', calls: 15, errors: 0 },
        { org_slug: 'usage-author', agent_name: 'thank', calls: 7, errors: 3 },
      ]);
      expect(await get('/usage/tenants')).toMatchObject({
        tenants: [
          { tenant_id: 'eu', calls: 9, errors: 0 },
          { tenant_id: 'us', calls: 7, errors: 3 },
        ],
        total: 2,
      });
    });

    test('is listed call by call, in pages', async () => {
      const { logs, total } = await get('/usage/logs?limit=20');
      expect([logs.length, total]).toEqual([20, 22]);
      const rest = await get('/usage/logs?limit=20&offset=20');
      expect(new Set([...logs, ...rest.logs].map(({ run_id }) => run_id)).size).toBe(22);
      const failed = await get('/usage/logs?status=failed&tenant_id=us');
      expect(failed.total).toBe(3);
      expect(failed.logs[0]).toMatchObject({
        agent: 'usage-author/thank',
        version: 'v1',
        endpoint: 'run',
        tenant_id: 'us',
      });
      expect(failed.logs[0].http_status).toBeGreaterThanOrEqual(400);
    });

    test('tells how runs ended and how long they took', async () => {
      const metrics = await get(`/workspaces/${caller.workspaceId}/metrics/dashboard?days=2`);
      expect(metrics.overview).toMatchObject({ total_runs: 22, completed: 19, failed: 3, success_rate: 86.36 });
      expect(metrics.overview.p95_latency_ms).toBeGreaterThanOrEqual(metrics.overview.p50_latency_ms);
      expect(metrics.agents).toMatchObject([
        { agent_name: 'greet', org_slug: 'usage-author', latest_version: null, total_runs: 15, top_error: null },
        { agent_name: 'thank', total_runs: 7, trigger_sources: { api: 7 } },
      ]);
      expect(metrics.agents[1].top_error).toMatch(/^[A-Z_]+$/);
      const hours = metrics.hourly_series.filter(({ total_runs }: { total_runs: number }) => total_runs > 0);
      expect(hours.at(-1).p50_latency_ms).toBeGreaterThan(0);
      const own = await get(`/workspaces/${author.workspaceId}/metrics/dashboard?agent_name=greet`, author);
      expect(own.agents).toMatchObject([{ agent_name: 'greet', latest_version: 'v1', total_runs: 2 }]);
      const url = `/workspaces/${caller.workspaceId}/metrics/dashboard`;
      expectError(await request(target(), 'GET', url, { key: author.key }), 403, 'FORBIDDEN');
    });

    test('includes sandbox time', async () => {
      expect(await get('/usage/compute')).toMatchObject({
        total_executions: 0,
        total_compute_seconds: 0,
        by_agent: [],
      });
    });

    test('shows authors the calls of others, without tenants and texts', async () => {
      expect(await get('/author-usage', author)).toMatchObject({ total_calls: 22, total_errors: 3 });
      expect((await get('/author-usage/timeseries?days=3', author)).points).toHaveLength(3);
      expect((await get('/author-usage/breakdown', author)).by_agent).toMatchObject([
        { agent_name: 'greet', calls: 15 },
        { agent_name: 'thank', calls: 7, errors: 3 },
      ]);
      const logs = await get('/author-usage/logs?agent_name=thank', author);
      expect([logs.logs.length, logs.total]).toEqual([7, 7]);
      expect(JSON.stringify(logs)).not.toMatch(/tenant|caller|"us"/);
      expect(await get('/author-usage')).toMatchObject({ total_calls: 0 });
    });

    test('tells authors at once what calls cost, and others once there are enough from days before', async () => {
      const estimate = async (agent: string, user?: TestUser) => {
        const path = `/public/agents/usage-author/${agent}/v1/cost-estimate`;
        return expectOk(await request(target(), 'GET', path, user && { key: user.key }));
      };
      const shown = await estimate('greet', author);
      expect(shown).toMatchObject({
        agent: 'usage-author/greet@v1',
        type: 'prompt',
        execution_engine: 'direct_llm',
        supported_providers: ['anthropic'],
        estimate: { sample_size: 17, success_rate: 1, period_days: 30 },
        metadata: { request_id: expect.stringMatching(/^req_/) },
      });
      const { estimate: cost } = shown;
      expect(cost.avg_input_tokens).toBeGreaterThan(0);
      expect(cost.provider_breakdown.map(({ runs }: { runs: number }) => runs)).toEqual(
        cost.unpriced_runs > 0 ? [] : [17],
      );
      expect((await estimate('thank', author)).estimate).toMatchObject({ sample_size: 7, success_rate: 0.5714 });
      expect((await estimate('greet', caller)).estimate).toEqual({ sample_size: 0 });
      expect((await estimate('greet')).estimate).toEqual({ sample_size: 0 });
    });

    test.each([
      ['/usage?days=0', 'query.days'],
      ['/usage?days=366', 'query.days'],
      ['/usage/timeseries?granularity=week', 'query.granularity'],
      ['/usage/logs?limit=201', 'query.limit'],
      ['/usage/logs?offset=10001', 'query.offset'],
      ['/author-usage/logs?status=done', 'query.status'],
    ])('%s is refused', async (path, field) => {
      expectError(await request(target(), 'GET', path, { key: caller.key }), 400, 'INVALID_INPUT', field);
    });
  });
}
