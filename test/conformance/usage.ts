import { beforeAll, describe, expect, test } from 'vitest';
import type * as z from 'zod';
import { parseConfig } from '#core/base/config.ts';
import { httpStatusOf } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { usageHandlers } from '#core/billing/usage/handlers.ts';
import type { Rollup } from '#core/billing/usage/rollups.ts';
import { usageRoutes } from '#core/billing/usage/routes.ts';
import { UsageStore } from '#core/billing/usage/store.ts';
import { sumOf } from '#core/billing/usage/sums.ts';
import { isoTime, SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Item, Table } from '#core/ports/table.ts';
import { encodeItem, itemBytes } from '#core/ports/table-rules.ts';
import type { ModelCost, NewRun, Run, RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { costPercentile, readCosts } from '#core/runs/usage/costs.ts';

const HOUR_MS = 3600 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** A time far enough ahead that no host's clock expires anything. */
const NOW = Date.parse('2035-06-15T12:30:00Z');
const RETENTION_DAYS = 30;

type Operation = (typeof usageRoutes)[number]['operationId'];
// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
type Body = any;

/** The rules of `core/billing/usage`, on the tables of a host: every number is recomputed from the runs. */
export function usageSuite(
  makeTables: (clock: Deps['clock']) => Promise<Pick<Deps, 'main' | 'runs' | 'counters' | 'blobs' | 'endedRuns'>>,
) {
  let deps: Pick<Deps, 'main' | 'runs' | 'counters' | 'blobs' | 'endedRuns' | 'clock' | 'config'>;
  let acme: Workspace;
  let rival: Workspace;

  beforeAll(async () => {
    const clock = Object.assign(new SystemClock(), { now: () => NOW });
    const config = parseConfig({ PLATFORM_RUN_RETENTION_DAYS: String(RETENTION_DAYS), PLATFORM_DEFAULT_PLAN: 'free' });
    deps = { ...(await makeTables(clock)), clock, config };
  });

  const newWorkspaces = () => {
    const workspace = (slug: string): Workspace => ({
      id: crypto.randomUUID(),
      slug,
      name: slug,
      type: 'team',
      createdAt: isoTime(NOW),
    });
    acme = workspace('acme');
    rival = workspace('rival');
  };

  /** Calls the operation as the pipeline does, with the route's defaults and only the route's fields in the answer. */
  async function ask(operationId: Operation, query: Record<string, string> = {}, workspace = acme): Promise<Body> {
    const row = usageRoutes.find((route) => route.operationId === operationId)!;
    const handle = usageHandlers(deps)[operationId] as (incoming: unknown) => Promise<{ body: unknown }>;
    const { body } = await handle({ caller: { workspace }, query: row.request.query.parse(query) });
    return (row.response[200] as z.ZodType).parse(body);
  }

  const newRun = (changes: Partial<NewRun> = {}): NewRun => ({
    id: crypto.randomUUID(),
    agentId: crypto.randomUUID(),
    agentWorkspaceId: acme.id,
    agentOrg: 'acme',
    agentName: 'echo',
    agentVersion: 'v1',
    engine: 'direct_llm',
    endpoint: 'run',
    triggerSource: 'api',
    startedAt: NOW - 1000,
    deadline: NOW + 1000,
    input: { secret: 'what the caller sent' },
    ...changes,
  });
  const result = (changes: Partial<RunResult> = {}): RunResult => ({
    status: 'completed',
    input: null,
    output: 'what the caller got',
    stdout: '',
    stderr: '',
    trace: [],
    executionMs: 40,
    exitCode: null,
    errorCode: null,
    errorMessage: null,
    creditsCents: 0,
    ...changes,
  });
  const run = async (workspace: Workspace, started: NewRun, ended = result()) => {
    const runs = new RunStore(deps, workspace.id);
    await runs.start(started);
    await runs.finish(started, ended);
    return (await runs.find(started.id))!;
  };

  describe('concurrent runs of every kind', () => {
    const DAYS = 10;
    let own: Run[];
    let others: Run[];
    const unpriced: string[] = [];
    const isCall = (each: Run) => each.parentRunId === null;
    const sum = (runs: Run[], of: (each: Run) => number | null) => runs.reduce((all, each) => all + (of(each) ?? 0), 0);
    const countErrors = (runs: Run[]) => runs.filter(({ status }) => status !== 'completed').length;

    const modelCost = (costUsd: number) => ({
      costUsd,
      costs: [{ provider: 'anthropic' as const, model: 'claude-haiku-4-5', costUsd }],
    });
    const models = (runs: Run[]) => ({
      input_tokens: sum(runs, ({ inputTokens }) => inputTokens),
      output_tokens: sum(runs, ({ outputTokens }) => outputTokens),
      models_usd: sum(runs, ({ costUsd }) => costUsd),
    });

    beforeAll(async () => {
      newWorkspaces();
      const random = <T>(...choices: T[]): T => choices[Math.floor(Math.random() * choices.length)]!;
      const randomResult = () => {
        const tokens = {
          inputTokens: Math.floor(Math.random() * 900),
          outputTokens: random(0, 7),
          ...random({}, { cacheReadTokens: 60 }, { cacheReadTokens: 7, cacheWriteTokens: 5 }),
          ...random<Pick<RunResult, 'costs' | 'costUsd'>>({}, modelCost(0.25), modelCost(0.5), {
            costs: [{ provider: 'ollama' as const, model: 'm' }],
          }),
        };
        const executionMs = random(0, 12, 1234);
        const creditsCents = random(0, 0, 25);
        return random(
          result({ executionMs, creditsCents, ...tokens }),
          result({ executionMs, ...tokens }),
          result({ status: 'failed', errorCode: 'SANDBOX_ERROR', errorMessage: 'x', executionMs }),
          result({ status: 'timeout', errorCode: 'TIMEOUT', errorMessage: 'x', executionMs: null }),
          result({ status: 'cancelled', errorCode: 'RUN_CANCELLED', errorMessage: 'x' }),
        );
      };
      const randomRun = (workspace: Workspace) => {
        const parentRunId = random(undefined, undefined, crypto.randomUUID());
        const id = crypto.randomUUID();
        const ended = randomResult();
        if (ended.costs?.some(({ costUsd }) => costUsd === undefined)) unpriced.push(id);
        return run(
          workspace,
          newRun({
            id,
            startedAt: NOW - Math.floor(Math.random() * DAYS * DAY_MS * 0.9),
            agentName: random('echo', 'report', 'plan'),
            engine: random('direct_llm', 'code_runtime', 'managed_loop'),
            tenantId: random(undefined, 'eu', 'us', 'us:west'),
            triggerSource: random('api', 'schedule'),
            parentRunId,
            rootRunId: parentRunId,
          }),
          ended,
        );
      };
      own = await Promise.all(Array.from({ length: 120 }, () => randomRun(acme)));
      others = await Promise.all(Array.from({ length: 80 }, () => randomRun(rival)));
    });

    test.each([undefined, 'eu', 'us', 'us:west', 'nobody'])('sums for tenant %s', async (tenant) => {
      const runs = own.filter(({ tenantId }) => tenant === undefined || tenantId === tenant);
      const calls = runs.filter(isCall);
      const query = { days: String(DAYS), ...(tenant !== undefined && { tenant_id: tenant }) };
      expect(await ask('getUsage', query)).toEqual({
        total_calls: calls.length,
        total_errors: countErrors(calls),
        credits_cents: sum(runs, ({ creditsCents }) => creditsCents),
        calls_remaining: 1000,
        ...models(runs),
        unpriced_runs: unpriced.filter((id) => runs.some((each) => each.id === id)).length,
        cache_read_tokens: sum(runs, ({ cacheReadTokens }) => cacheReadTokens),
        cache_write_tokens: sum(runs, ({ cacheWriteTokens }) => cacheWriteTokens),
        period_start: '2035-06-06T00:00:00.000Z',
        period_end: '2035-06-15T12:30:00.000Z',
      });
    });

    test.each(['day', 'hour'])('points by %s: none is missing, and they add up to the sums', async (granularity) => {
      const { points } = await ask('getUsageTimeseries', { days: String(DAYS), granularity });
      expect(points).toHaveLength(granularity === 'day' ? DAYS : (DAYS - 1) * 24 + 13);
      for (const { date, ...counted } of points) {
        const runs = own.filter(({ startedAt }) =>
          startedAt.startsWith(date.slice(0, granularity === 'day' ? 10 : 13)),
        );
        expect({ date, ...counted }).toEqual({
          date,
          calls: runs.filter(isCall).length,
          errors: countErrors(runs.filter(isCall)),
          credits_cents: sum(runs, ({ creditsCents }) => creditsCents),
          ...(granularity === 'day' && models(runs)),
        });
      }
    });

    test('by agent', async () => {
      const { by_agent } = await ask('getUsageBreakdown', { days: String(DAYS) });
      expect(by_agent).toHaveLength(3);
      for (const agent of by_agent) {
        const runs = own.filter(({ agentName }) => agentName === agent.agent_name);
        const calls = runs.filter(isCall);
        expect(agent).toEqual({
          agent_id: expect.toBeOneOf(runs.map(({ agentId }) => agentId)),
          org_slug: 'acme',
          agent_name: agent.agent_name,
          calls: calls.length,
          errors: countErrors(calls),
          avg_duration_ms: Math.round(sum(calls, ({ durationMs }) => durationMs) / Math.max(1, calls.length)),
          credits_cents: sum(runs, ({ creditsCents }) => creditsCents),
          ...models(runs),
        });
      }
    });

    test('authors see neither tokens nor cost of other workspaces', async () => {
      const { points } = await ask('getAuthorUsageTimeseries', { days: String(DAYS) });
      const { by_agent } = await ask('getAuthorUsageBreakdown', { days: String(DAYS) });
      expect(by_agent.length).toBeGreaterThan(0);
      for (const each of [...points, ...by_agent]) {
        expect(Object.keys(each).filter((member) => member in models([]))).toEqual([]);
      }
    });

    /** Checks a percentile against the exact value from the runs; it may differ by half a bin. */
    const expectPercentile = (found: number | null, runs: Run[], share: number) => {
      const durations = runs.map(({ durationMs }) => durationMs!).sort((a, b) => a - b);
      const exact = durations[Math.max(1, Math.ceil(share * durations.length)) - 1]!;
      expect(found! / exact).toBeGreaterThan(2 ** -0.251);
      expect(found! / exact).toBeLessThan(2 ** 0.251);
    };
    const endsOf = (runs: Run[]) => {
      const count = (wanted: string) => runs.filter(({ status }) => status === wanted).length;
      return {
        total_runs: runs.length,
        completed: count('completed'),
        failed: count('failed'),
        timeout: count('timeout'),
        cancelled: count('cancelled'),
      };
    };

    test.each([undefined, 'plan'])('metrics of all runs, sub-calls included, of the agent %s', async (name) => {
      const runs = own.filter(({ agentName }) => name === undefined || agentName === name);
      const { main } = deps;
      for (const [agent, current] of [
        ['plan', 3],
        ['echo', 0],
      ] as const) {
        await main.put({ pk: `WS#${acme.id}#AGENT#${agent}`, sk: 'HEAD', assigned: 4, current });
      }
      const metrics = await ask('getWorkspaceMetrics', { days: String(DAYS), ...(name && { agent_name: name }) });
      expect(metrics).toMatchObject({
        overview: {
          ...endsOf(runs),
          avg_latency_ms: Math.round(sum(runs, ({ durationMs }) => durationMs) / runs.length),
          runs_per_day: runs.length / DAYS,
        },
        period: { days: DAYS, start: '2035-06-06T00:00:00.000Z', end: '2035-06-15T12:30:00.000Z' },
        total_agents: name === undefined ? 3 : 1,
      });
      const { overview, agents, daily_series: daily, hourly_series: hourly } = metrics;
      expect(overview.success_rate).toBeCloseTo((100 * endsOf(runs).completed) / runs.length, 1);
      expect(overview.error_rate).toBeCloseTo((100 * (overview.failed + overview.timeout)) / runs.length, 1);
      expectPercentile(overview.p50_latency_ms, runs, 0.5);
      expectPercentile(overview.p95_latency_ms, runs, 0.95);
      for (const agent of agents) {
        const ofAgent = runs.filter(({ agentName }) => agentName === agent.agent_name);
        expect(agent).toMatchObject({ ...endsOf(ofAgent), org_slug: 'acme' });
        expect(agent.latest_version).toBe(agent.agent_name === 'plan' ? 'v3' : null);
        expectPercentile(agent.p95_latency_ms, ofAgent, 0.95);
        for (const source of ['api', 'schedule']) {
          const began = ofAgent.filter(({ triggerSource }) => triggerSource === source).length;
          expect(agent.trigger_sources[source] ?? 0).toBe(began);
        }
        const codes = ofAgent.flatMap(({ errorCode }) => errorCode ?? []);
        const most = Math.max(0, ...codes.map((code) => codes.filter((each) => each === code).length));
        expect(codes.filter((code) => code === agent.top_error)).toHaveLength(most);
      }
      expect(daily).toHaveLength(DAYS);
      expect(hourly).toHaveLength(6 * 24 + 13);
      for (const series of [daily, hourly]) {
        for (const { date, p50_latency_ms: p50, ...counted } of series) {
          const begun = runs.filter(({ startedAt }) => startedAt.startsWith(date.slice(0, 13)));
          expect(counted).toMatchObject(series === daily ? endsOf(begun) : { total_runs: begun.length });
          if (begun.length === 0) expect(p50).toBeNull();
          else expectPercentile(p50, begun, 0.5);
        }
      }
    });

    test('by tenant, most calls first, in pages', async () => {
      const all = await ask('listUsageTenants', { days: String(DAYS) });
      expect(all.total).toBe(3);
      for (const tenant of all.tenants) {
        const calls = own.filter((each) => isCall(each) && each.tenantId === tenant.tenant_id);
        expect(tenant).toMatchObject({ calls: calls.length, errors: countErrors(calls) });
        expect(calls.map(({ startedAt }) => startedAt)).toContain(tenant.last_call_at);
      }
      const counts = all.tenants.map(({ calls }: { calls: number }) => calls);
      expect(counts).toEqual(counts.toSorted((a: number, b: number) => b - a));
      const second = await ask('listUsageTenants', { days: String(DAYS), limit: '1', offset: '1' });
      expect(second).toEqual({ tenants: [all.tenants[1]], total: 3 });
    });

    test('compute includes sub-calls', async () => {
      const runs = own.filter(({ engine }) => engine !== 'direct_llm');
      const compute = await ask('getComputeUsage', { days: String(DAYS) });
      expect(compute).toMatchObject({ total_executions: runs.length, executions_remaining: 50 });
      expect(compute.total_compute_seconds).toBeCloseTo(sum(runs, ({ executionMs }) => executionMs) / 1000, 9);
      for (const agent of compute.by_agent) {
        const ofAgent = runs.filter(({ agentName }) => agentName === agent.agent_name);
        expect(agent.executions).toBe(ofAgent.length);
        expect(agent.compute_seconds).toBeCloseTo(sum(ofAgent, ({ executionMs }) => executionMs) / 1000, 9);
      }
    });

    test('other workspaces pay for their runs of an agent, and its author sees each of them as a call', async () => {
      const days = { days: String(DAYS) };
      const sums = {
        total_calls: others.length,
        total_errors: countErrors(others),
        credits_cents: sum(others, ({ creditsCents }) => creditsCents),
      };
      expect(await ask('getAuthorUsage', days)).toMatchObject(sums);
      expect(await ask('getAuthorUsage', days, rival)).toMatchObject({ total_calls: 0 });
      const { points } = await ask('getAuthorUsageTimeseries', days);
      expect(points.reduce((all: number, { calls }: Body) => all + calls, 0)).toBe(others.length);
      const { by_agent } = await ask('getAuthorUsageBreakdown', days);
      expect(by_agent.reduce((all: number, { errors }: Body) => all + errors, 0)).toBe(sums.total_errors);
      expect(await ask('getUsage', days, rival)).toMatchObject({ total_calls: others.filter(isCall).length });
    });

    /** Returns all pages with a page size of seven. */
    async function pages(operation: 'listUsageLogs' | 'listAuthorUsageLogs', filter: Record<string, string> = {}) {
      const logs: Body[] = [];
      for (let offset = 0; ; offset += 7) {
        const page = await ask(operation, { days: String(DAYS), limit: '7', offset: String(offset), ...filter });
        logs.push(...page.logs);
        expect(page.logs).toHaveLength(Math.min(7, Math.max(0, page.total - offset)));
        if (logs.length >= page.total) return logs;
      }
    }
    const newestFirst = (runs: Run[]) =>
      runs.toSorted((a, b) => (`${a.startedAt}#${a.id}` < `${b.startedAt}#${b.id}` ? 1 : -1)).map(({ id }) => id);

    test.each([
      [{}, () => true],
      [{ status: 'completed' }, ({ status }: Run) => status === 'completed'],
      [
        { status: 'timeout', agent_name: 'plan' },
        (each: Run) => each.status === 'timeout' && each.agentName === 'plan',
      ],
      [{ tenant_id: 'us' }, ({ tenantId }: Run) => tenantId === 'us'],
      [
        { tenant_id: 'eu', status: 'failed', agent_name: 'echo' },
        (each: Run) => each.tenantId === 'eu' && each.status === 'failed' && each.agentName === 'echo',
      ],
      [{ agent_name: 'unknown' }, () => false],
    ])('logs with %o: every run once, newest first', async (filter, holds) => {
      const logs = await pages('listUsageLogs', filter as unknown as Record<string, string>);
      expect(logs.map(({ run_id }) => run_id)).toEqual(newestFirst(own.filter(holds)));
    });

    test('a log entry has the values of its run', async () => {
      const byId = new Map(own.map((each) => [each.id, each]));
      for (const entry of await pages('listUsageLogs')) {
        const run = byId.get(entry.run_id)!;
        expect(entry).toEqual({
          request_id: `req_${run.id.replaceAll('-', '')}`,
          run_id: run.id,
          agent: `acme/${run.agentName}`,
          version: 'v1',
          endpoint: 'run',
          status: run.status,
          http_status: httpStatusOf(run.errorCode),
          duration_ms: run.durationMs,
          tenant_id: run.tenantId,
          created_at: run.startedAt,
        });
      }
    });

    test("an author's logs: every run of other workspaces, without their names, inputs and outputs", async () => {
      const logs = await pages('listAuthorUsageLogs');
      expect(logs.map(({ run_id }) => run_id)).toEqual(newestFirst(others));
      expect(Object.keys(logs[0]).sort()).toEqual(
        [
          'agent',
          'created_at',
          'duration_ms',
          'endpoint',
          'http_status',
          'request_id',
          'run_id',
          'status',
          'version',
        ].sort(),
      );
      expect(JSON.stringify(logs)).not.toMatch(/what the caller|us:west/);
      const failed = await pages('listAuthorUsageLogs', { status: 'failed' });
      expect(failed.map(({ run_id }) => run_id)).toEqual(
        newestFirst(others.filter(({ status }) => status === 'failed')),
      );
    });
  });

  describe('costs of models', () => {
    const MODELS = [
      ['anthropic', 'claude-opus-5'],
      ['anthropic', 'claude-opus-5-20260101'],
      ['openai', 'gpt-6'],
      ['ollama', 'a-name-that-callers-choose'],
    ] as const;
    const NAMES = ['claude-opus-5', 'claude-opus-5', 'gpt-6', 'other'];
    const PERIOD = { start: NOW, end: NOW, days: ['2035-06-14', '2035-06-15'] };
    const micro = (costs: readonly ModelCost[]) =>
      costs.reduce((all, { costUsd = 0 }) => all + Math.round(costUsd * 1e6), 0);
    const whole = (costs: readonly ModelCost[]) =>
      costs.some(({ costUsd }) => costUsd === undefined)
        ? undefined
        : costs.reduce((all, cost) => all + cost.costUsd!, 0);
    const own: RunResult[] = [];
    const others: RunResult[] = [];

    beforeAll(async () => {
      newWorkspaces();
      const random = <T>(...choices: T[]): T => choices[Math.floor(Math.random() * choices.length)]!;
      const randomCosts = (): ModelCost[] => {
        const costs = MODELS.map(([provider, model]) => ({
          provider,
          model,
          costUsd:
            provider === 'ollama' ? 0 : random(undefined, 0, Math.random() / 1e4, Math.random(), Math.random() * 900),
        }));
        return costs.filter(() => Math.random() < 0.4);
      };
      const randomRun = async (workspace: Workspace, ended: RunResult[]) => {
        const costs = randomCosts();
        const isError = Math.random() < 0.2;
        const end = result({
          ...(isError && { status: 'failed', errorCode: 'LLM_ERROR', errorMessage: 'x' }),
          ...(random(true, true, costs.length > 0) && {
            costs,
            costUsd: whole(costs),
            llmProvider: costs.at(-1)?.provider,
            llmModel: costs.at(-1)?.model,
          }),
        });
        ended.push(end);
        const startedAt = NOW - random(1000, DAY_MS);
        await run(workspace, newRun({ startedAt, tenantId: random(undefined, 'eu') }), end);
      };
      await Promise.all(Array.from({ length: 60 }, () => randomRun(acme, own)));
      await Promise.all(Array.from({ length: 60 }, () => randomRun(rival, others)));
    });

    const detailsOf = (rollups: readonly Rollup[]) => readCosts(rollups.map(({ totals }) => totals));
    const costsOf = (ended: readonly RunResult[]) => ended.map(({ costs = [] }) => costs);

    test('every roll-up has what is known of them, and how many runs have a part that is not', async () => {
      const ofAuthor = await new UsageStore(deps, acme.id).authorRollups(PERIOD);
      const ofOwn = await new UsageStore(deps, acme.id).rollups(PERIOD);
      const ofRival = await new UsageStore(deps, rival.id).rollups(PERIOD);
      for (const [rollups, ended] of [
        [ofOwn, own],
        [ofAuthor, others],
        [ofRival, others],
      ] as const) {
        expect(sumOf(rollups, 'model_microusd')).toBe(micro(costsOf(ended).flat()));
        expect(sumOf(rollups, 'unpriced_runs')).toBe(
          costsOf(ended).filter((costs) => costs.some(({ costUsd }) => costUsd === undefined)).length,
        );
      }
      const parts = await Promise.all([acme, rival].map(({ id }) => new UsageStore(deps, id).rollups(PERIOD, 'eu')));
      for (const part of parts)
        expect(sumOf(part, 'model_microusd')).toBeLessThan(micro(costsOf([...own, ...others]).flat()));
      // The callers' own sums have no details.
      expect(detailsOf(ofRival)).toEqual([]);
      expect(detailsOf(parts.flat())).toEqual([]);
    });

    test('those of one agent are read by their keys', async () => {
      const store = new UsageStore(deps, acme.id);
      const ofAgent = await store.ofAgent('acme/echo', PERIOD.days);
      expect(sumOf(ofAgent, 'runs')).toBe(own.length + others.length);
      expect(new Set(ofAgent)).toEqual(
        new Set([...(await store.rollups(PERIOD)), ...(await store.authorRollups(PERIOD))]),
      );
      const today = await store.ofAgent('acme/echo', PERIOD.days.slice(1));
      expect(sumOf(today, 'runs')).toBe(
        sumOf(
          ofAgent.filter(({ day }) => day === PERIOD.days[1]),
          'runs',
        ),
      );
      expect(await store.ofAgent('acme/other', PERIOD.days)).toEqual([]);
    });

    test("the author's have them by model, and by the provider that a run ended with", async () => {
      const store = new UsageStore(deps, acme.id);
      for (const [rollups, ended] of [
        [await store.rollups(PERIOD), own],
        [await store.authorRollups(PERIOD), others],
      ] as const) {
        const details = detailsOf(rollups);
        for (const provider of ['anthropic', 'openai', 'ollama'] as const) {
          const read = details.find((each) => each.provider === provider);
          const finished = ended.filter(
            ({ llmProvider, costs, costUsd }) => llmProvider === provider && costs?.length && costUsd !== undefined,
          );
          const amounts = finished.map(({ costs = [] }) => micro(costs)).sort((a, b) => a - b);
          expect(read?.runs ?? 0).toBe(finished.length);
          expect(read?.microUsd ?? 0).toBe(amounts.reduce((all, amount) => all + amount, 0));
          for (const share of [0.5, 0.95]) {
            if (amounts.length === 0) continue;
            const exact = amounts[Math.ceil(share * amounts.length) - 1]!;
            const found = costPercentile(read!.bins, share);
            expect(found).toBeGreaterThanOrEqual(exact / 2 ** (1 / 8) - 1e-9);
            expect(found).toBeLessThanOrEqual(exact * 2 ** (1 / 8) + 1e-9);
          }
          for (const name of new Set(NAMES.filter((_, index) => MODELS[index]![0] === provider))) {
            const isOf = (cost: ModelCost) =>
              cost.costUsd !== undefined && NAMES[MODELS.findIndex(([, model]) => model === cost.model)] === name;
            const asked = costsOf(ended).filter((costs) => costs.some(isOf));
            expect(read?.models.find(({ model }) => model === name) ?? { model: name, runs: 0, microUsd: 0 }).toEqual({
              model: name,
              runs: asked.length,
              microUsd: micro(asked.flat().filter(isOf)),
            });
          }
        }
      }
    });
  });

  test('the sums of a busy day of an agent with two models stay below a kilobyte each', async () => {
    newWorkspaces();
    const hours = Array.from({ length: 24 }, (_, hour) => hour);
    for (const hour of hours) {
      for (const model of ['claude-opus-5', 'claude-haiku-4-5']) {
        const costUsd = 0.001 * 10 ** (hour / 23);
        const ended = result({
          ...(hour % 2 === 0 && { status: 'failed', errorCode: 'LLM_ERROR', errorMessage: 'x' }),
          creditsCents: 1234,
          inputTokens: 123_456_789,
          outputTokens: 12_345_678,
          cacheReadTokens: 12_345_678,
          cacheWriteTokens: 12_345_678,
          llmProvider: 'anthropic',
          llmModel: model,
          costs: [{ provider: 'anthropic', model, costUsd }],
          costUsd,
        });
        // The first digit of the id selects the shard, so all runs share one.
        const id = `0${crypto.randomUUID().slice(1)}`;
        const startedAt = Date.parse('2035-06-14T00:10:00Z') + hour * HOUR_MS;
        await run(
          acme,
          newRun({ id, startedAt, agentName: 'a-name-of-a-common-length', engine: 'managed_loop' }),
          ended,
        );
      }
    }
    const days = ['2035-06-14'];
    const rollups = await new UsageStore(deps, acme.id).rollups({ start: NOW, end: NOW, days });
    expect(rollups).toHaveLength(4);
    for (const { totals } of rollups)
      expect(itemBytes(encodeItem(totals as unknown as Item))).toBeLessThanOrEqual(1024);
  });

  test('a run that two hosts finish counts once', async () => {
    newWorkspaces();
    const started = newRun();
    const runs = new RunStore(deps, acme.id);
    await runs.start(started);
    expect(await ask('listUsageLogs')).toEqual({ logs: [], total: 0 });
    const ends = await Promise.all([
      runs.finish(started, result()),
      runs.finish(started, result({ status: 'failed', errorCode: 'INTERNAL_ERROR', errorMessage: 'x' })),
    ]);
    expect(ends.toSorted()).toEqual([false, true]);
    expect(await ask('getUsage')).toMatchObject({ total_calls: 1 });
    expect((await ask('listUsageLogs')).total).toBe(1);
  });

  test('an installation is not a call', async () => {
    newWorkspaces();
    await run(acme, newRun({ triggerSource: 'install', engine: 'code_runtime' }));
    await run(acme, newRun());
    expect(await ask('getUsage')).toMatchObject({ total_calls: 1 });
    expect(await ask('getComputeUsage')).toMatchObject({ total_executions: 0 });
    const { logs, total } = await ask('listUsageLogs');
    expect([logs.length, total]).toEqual([1, 1]);
  });

  test('usage covers a year; logs cover the retention of runs', async () => {
    newWorkspaces();
    const ages = [0, 29, 40, 364, 365];
    for (const age of ages) await run(acme, newRun({ startedAt: NOW - age * DAY_MS }));
    expect(await ask('getUsage', { days: '365' })).toMatchObject({ total_calls: 4 });
    expect((await ask('getUsageTimeseries', { days: '365' })).points).toHaveLength(365);
    expect(await ask('getUsage', { days: '1' })).toMatchObject({ total_calls: 1 });
    const { logs, total } = await ask('listUsageLogs', { days: '365' });
    expect([logs.length, total]).toEqual([2, 2]);
  });

  test('a tenant with calls in two months is listed once', async () => {
    newWorkspaces();
    const at = (date: string) => Date.parse(date);
    for (const startedAt of ['2035-05-31T23:59:59Z', '2035-06-01T00:00:00Z', '2035-06-14T10:00:00Z']) {
      await run(acme, newRun({ startedAt: at(startedAt), tenantId: 'eu' }));
    }
    const eu = { tenant_id: 'eu', errors: 0, last_call_at: '2035-06-14T10:00:00.000Z' };
    expect(await ask('listUsageTenants', { days: '30' })).toEqual({ tenants: [{ ...eu, calls: 3 }], total: 1 });
    expect(await ask('listUsageTenants', { days: '15' })).toEqual({ tenants: [{ ...eu, calls: 2 }], total: 1 });
    expect(await ask('listUsageTenants', { days: '1' })).toEqual({ tenants: [], total: 0 });
  });

  test('the end of a run is one write, whatever it adds to usage', async () => {
    newWorkspaces();
    const written: string[] = [];
    const runs: Table = new Proxy(deps.runs, {
      get: (table, name) =>
        ['put', 'update', 'transact', 'delete'].includes(String(name))
          ? (...args: unknown[]) => {
              written.push(String(name));
              return (table[name as 'get'] as (...args: unknown[]) => unknown).apply(table, args);
            }
          : table[name as 'get'].bind(table),
    });
    const store = new RunStore({ ...deps, runs }, acme.id);
    const failed = result({ status: 'failed', errorCode: 'LLM_ERROR', errorMessage: 'x' });
    for (const [changes, ended] of [
      [{}, result()],
      [{ tenantId: 'eu' }, result()],
      [{ tenantId: 'eu', agentWorkspaceId: rival.id }, failed],
    ] as const) {
      const started = newRun(changes);
      await store.start(started);
      written.length = 0;
      await store.finish(started, ended);
      expect(written).toEqual(['update']);
    }
    expect(await ask('getUsage')).toMatchObject({ total_calls: 3 });
  });
}
