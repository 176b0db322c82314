import { describe, expect, onTestFinished, test } from 'vitest';
import { retryDeliveries, watchBudgets } from '#core/api/sweeps.ts';
import type { NewRun, RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { crashing, ProcessDied } from '#test/helpers/crashing.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import type { MemoryDeps } from '#test/helpers/memory-deps.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import { serviceWorld } from '#test/helpers/services.ts';
import { addUser } from '#test/helpers/users.ts';
import { type BudgetPlace, takeBudgetPlace } from './admission.ts';
import { findAlerts } from './alerts.ts';
import { noteBudgets } from './note.ts';
import { BudgetStore } from './store.ts';
import { releaseSummed } from './under-way.ts';
import { afterRun } from './watch.ts';

const DAY_MS = 24 * 3_600_000;
const PRICE = 0.01;

/** A Friday. */
async function world(now = '2035-06-15T12:00:00Z') {
  const clock = new ManualClock(Date.parse(now));
  const own = await serviceWorld({ computeUsdPerSecond: PRICE }, clock);
  const receiver = await startReceiver();
  onTestFinished(() => receiver.close());
  const path = `/workspaces/${own.owner.workspaceId}/budgets`;
  const hook = `${receiver.url}/hook`;
  const budget = (body: object, key?: string) =>
    own.send('POST', path, { scope_type: 'workspace', window: 'daily', webhook_url: hook, ...body }, key);
  return {
    ...own,
    clock,
    receiver,
    path,
    budget,
    create: async (body: object) => (await budget(body)).budget,
    alerts: async () =>
      (await own.send('GET', `/workspaces/${own.owner.workspaceId}/budget-alerts`)).alerts as {
        threshold_kind: string;
        threshold_pct: number;
        current_spend_usd: string;
        delivery: string;
      }[],
    told: () =>
      receiver.at('/hook').map(({ body: { threshold_kind, threshold_pct } }) => `${threshold_kind} ${threshold_pct}`),
    get: async (id: string) => (await own.send('GET', `${path}/${id}`)).budget,
  };
}
type World = Awaited<ReturnType<typeof world>>;

/** Records an ended run, as a call does. */
async function spend(
  { deps, owner: { workspaceId } }: { deps: MemoryDeps; owner: { workspaceId: string } },
  { usd, ms, cents = 0, unpriced = false }: { usd?: number; ms?: number; cents?: number; unpriced?: boolean },
  changes: Partial<NewRun> = {},
): Promise<void> {
  const now = deps.clock.now();
  const run: NewRun = {
    id: deps.ids.uuid(),
    agentId: deps.ids.uuid(),
    agentWorkspaceId: workspaceId,
    agentOrg: 'acme',
    agentName: 'bot',
    agentVersion: 'v1',
    engine: ms === undefined ? 'direct_llm' : 'code_runtime',
    endpoint: 'run',
    triggerSource: 'api',
    startedAt: now,
    deadline: now + 1000,
    input: {},
    ...changes,
  };
  const model = { provider: 'anthropic', model: 'made-up' } as const;
  const result: RunResult = {
    status: 'completed',
    input: {},
    output: {},
    stdout: '',
    stderr: '',
    trace: [],
    executionMs: ms ?? 10,
    exitCode: null,
    errorCode: null,
    errorMessage: null,
    creditsCents: cents,
    costs: [...(usd === undefined ? [] : [{ ...model, costUsd: usd }]), ...(unpriced ? [{ ...model }] : [])],
  };
  const runs = new RunStore(deps, workspaceId);
  await runs.start(run);
  await runs.finish(run, result);
}

const workspaceOf = ({ owner }: World) => ({ id: owner.workspaceId, slug: 'acme', budgets: true }) as never;
const begin = (own: World, { name = 'bot', deps = own.deps, priceCents = 0, runId = crypto.randomUUID() } = {}) =>
  takeBudgetPlace(deps, workspaceOf(own), {
    runId,
    agent: { orgSlug: 'acme', name },
    priceCents,
    deadline: own.clock.now() + 60_000,
  });
/** A run that begins and ends at once. */
const admit = async (own: World, name = 'bot', deps = own.deps): Promise<void> =>
  (await begin(own, { name, deps })).release();

describe('the endpoints', () => {
  test('show a budget with its spend by kind', async () => {
    const own = await world();
    const created = await own.budget({ soft_limit_usd: 10, hard_limit_usd: 20 });
    expect(created.status).toBe(201);
    await spend(own, { usd: 2.5, cents: 100 });
    await spend(own, { ms: 250_000 });
    await spend(own, { usd: 0.5, unpriced: true });
    await own.clock.advance(1000);
    expect(await own.get(created.budget.id)).toEqual({
      id: created.budget.id,
      workspace_id: own.owner.workspaceId,
      scope_type: 'workspace',
      scope_id: own.owner.workspaceId,
      agent: null,
      window: 'daily',
      soft_limit_usd: 10,
      hard_limit_usd: 20,
      action_on_hard_limit: 'alert_only',
      webhook_url: `${own.receiver.url}/hook`,
      window_start: '2035-06-15T00:00:00.000Z',
      window_end: '2035-06-16T00:00:00.000Z',
      current_spend_usd: 6.5,
      spend: { models_usd: 3, credits_usd: 1, compute_usd: 2.5 },
      unpriced_runs: 1,
      soft_limit_pct: 65,
      hard_limit_pct: 32.5,
      thresholds: ['soft', 'hard']
        .flatMap((kind, i) =>
          [50, 80, 100].map((threshold_pct) => ({
            threshold_kind: `${kind}_limit`,
            threshold_pct,
            amount_usd: ((i + 1) * threshold_pct) / 10,
            alerted: false,
          })),
        )
        .sort((a, b) => a.amount_usd - b.amount_usd),
      breach_status: 'none',
      burn_rate_usd_per_day: expect.closeTo(13, 3),
      projected_spend_usd: expect.closeTo(13, 3),
      projected_breach_at: null,
      created_at: '2035-06-15T12:00:00.000Z',
      updated_at: '2035-06-15T12:00:00.000Z',
    });
    const { budgets } = await own.send('GET', own.path);
    expect(budgets).toEqual([await own.get(created.budget.id)]);
    // Members may read budgets, but not change them.
    expect((await own.send('GET', own.path, undefined, own.member.key)).budgets).toEqual(budgets);
    for (const [method, path] of [
      ['POST', own.path],
      ['PATCH', `${own.path}/${created.budget.id}`],
      ['DELETE', `${own.path}/${created.budget.id}`],
    ] as const) {
      const body = method === 'POST' ? { scope_type: 'workspace', window: 'weekly', hard_limit_usd: 1 } : {};
      expect((await own.send(method, path, body, own.member.key)).error.code).toBe('FORBIDDEN');
    }
  });

  test('each scope and window has one budget, even with concurrent requests', async () => {
    const own = await world();
    const made = await Promise.all(Array.from({ length: 5 }, () => own.budget({ hard_limit_usd: 5 })));
    expect(made.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409]);
    const { id: scope_id } = await own.publish();
    const { id: later } = await own.publish();
    expect((await own.budget({ scope_type: 'agent', scope_id, hard_limit_usd: 5 })).status).toBe(201);
    // Another version of the same agent.
    const same = await own.budget({ scope_type: 'agent', scope_id: later, hard_limit_usd: 5 });
    expect(same.error).toMatchObject({ code: 'CONFLICT', message: expect.stringContaining('acme/bot') });
    expect((await own.budget({ window: 'weekly', hard_limit_usd: 5 })).status).toBe(201);
  });

  test.each<[string, object, string]>([
    ['no limit', {}, 'needs soft_limit_usd, hard_limit_usd, or both'],
    [
      'a soft limit that is not below the hard one',
      { soft_limit_usd: 5, hard_limit_usd: 5 },
      'less than hard_limit_usd',
    ],
    ['a negative limit', { hard_limit_usd: -1 }, 'body.hard_limit_usd: must be from 0.01'],
    ['nothing as a limit', { hard_limit_usd: 0 }, 'must be from 0.01'],
    ['a number without bounds', { hard_limit_usd: 1e308 }, 'must be from 0.01 to 10,000,000 US dollars'],
    ['parts of a cent', { hard_limit_usd: 1.005 }, 'whole number of cents'],
    ['text', { hard_limit_usd: '5' }, 'body.hard_limit_usd'],
    [
      'an action without its limit',
      { soft_limit_usd: 5, action_on_hard_limit: 'block_new_runs' },
      'needs a hard_limit_usd',
    ],
    ['another action', { hard_limit_usd: 5, action_on_hard_limit: 'explode' }, 'body.action_on_hard_limit'],
    ['another window', { hard_limit_usd: 5, window: 'hourly' }, 'body.window'],
    ['an agent without an id', { hard_limit_usd: 5, scope_type: 'agent' }, 'body.scope_id'],
    [
      'an id of another workspace',
      { hard_limit_usd: 5, scope_id: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' },
      'body.scope_id',
    ],
    ['a private address', { hard_limit_usd: 5, webhook_url: 'https://169.254.169.254/x' }, 'body.webhook_url: 169.254'],
    ['plain http', { hard_limit_usd: 5, webhook_url: 'http://hooks.example.com/x' }, 'https://'],
    ['a password', { hard_limit_usd: 5, webhook_url: 'https://me:hunter2@hooks.example.com/' }, 'password'],
  ])('refuse %s', async (_, body, problem) => {
    const own = await world();
    const { status, error } = await own.budget(body);
    expect([status, error.code]).toEqual([400, 'INVALID_INPUT']);
    expect(error.message).toContain(problem);
    expect(error.message).not.toContain('hunter2');
    expect((await own.send('GET', own.path)).budgets).toEqual([]);
  });

  test('reject NaN and numbers that JSON cannot represent', async () => {
    const own = await world();
    const { body } = new Response('{"scope_type":"workspace","window":"daily","hard_limit_usd":NaN}');
    expect((await own.send('POST', own.path, body)).status).toBe(400);
  });

  test('keep workspaces apart', async () => {
    const own = await world();
    const stranger = await addUser(own.deps, 'stranger');
    const { id } = await own.create({ hard_limit_usd: 5 });
    const theirs = `/workspaces/${stranger.workspaceId}/budgets`;
    for (const [method, path] of [
      ['GET', `${theirs}/${id}`],
      ['PATCH', `${theirs}/${id}`],
      ['DELETE', `${theirs}/${id}`],
    ] as const) {
      expect((await own.send(method, path, method === 'PATCH' ? {} : undefined, stranger.key)).error.code).toBe(
        'NOT_FOUND',
      );
    }
    expect((await own.send('GET', own.path, undefined, stranger.key)).error.code).toBe('FORBIDDEN');
    const { id: scope_id } = await own.publish({ name: 'private' });
    const body = { scope_type: 'agent', scope_id, window: 'daily', hard_limit_usd: 5 };
    expect((await own.send('POST', theirs, body, stranger.key)).error.code).toBe('NOT_FOUND');
    expect((await own.get(id)).hard_limit_usd).toBe(5);
  });

  test('change limits, action and address only', async () => {
    const own = await world();
    const { id } = await own.create({ soft_limit_usd: 5, hard_limit_usd: 10 });
    const patch = (body: object) => own.send('PATCH', `${own.path}/${id}`, body);
    expect((await patch({ window: 'weekly' })).error).toMatchObject({ code: 'INVALID_INPUT' });
    expect((await patch({ scope_type: 'agent' })).error).toMatchObject({ code: 'INVALID_INPUT' });
    expect((await patch({ soft_limit_usd: 10 })).error.message).toContain('less than hard_limit_usd');
    expect((await patch({ soft_limit_usd: null, hard_limit_usd: null })).error.message).toContain('or both');
    expect((await patch({ webhook_url: 'https://10.0.0.1/' })).error.code).toBe('INVALID_INPUT');
    const { budget } = await patch({ soft_limit_usd: null, action_on_hard_limit: 'block_new_runs', webhook_url: '' });
    expect(budget).toMatchObject({
      soft_limit_usd: null,
      hard_limit_usd: 10,
      action_on_hard_limit: 'block_new_runs',
      webhook_url: null,
    });
    expect((await patch({ hard_limit_usd: null, soft_limit_usd: 1 })).error.message).toContain(
      'needs a hard_limit_usd',
    );
    expect(await own.send('DELETE', `${own.path}/${id}`)).toEqual({ status: 200, deleted: true, budget_id: id });
    expect((await own.send('DELETE', `${own.path}/${id}`)).status).toBe(404);
  });
});

describe('admission', () => {
  test('is refused from the hard limit on until the window ends', async () => {
    const own = await world();
    const { id } = await own.create({ hard_limit_usd: 5, action_on_hard_limit: 'block_new_runs' });
    await spend(own, { usd: 4.99 });
    await admit(own);
    await spend(own, { usd: 0.01 });
    await own.clock.advance(1000);
    const refused = await admit(own).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'BUDGET_EXCEEDED' });
    expect((refused as Error).message).toBe(
      `The daily budget ${id} of this workspace blocks new runs: $5.00 of its hard limit of $5.00 is spent. Its window ends at 2035-06-16T00:00:00.000Z.`,
    );
    // A changed limit takes effect at once in the process that changes it.
    await own.send('PATCH', `${own.path}/${id}`, { hard_limit_usd: 6 });
    await admit(own);
    await own.send('PATCH', `${own.path}/${id}`, { hard_limit_usd: 5 });
    await expect(admit(own)).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' });
    await own.clock.advance(DAY_MS / 2);
    await admit(own);
  });

  test('counts an agent by itself, and weeks and months over their days', async () => {
    const own = await world('2035-06-15T23:00:00Z');
    const { id: scope_id } = await own.publish();
    const block = { action_on_hard_limit: 'block_new_runs' };
    await own.create({ ...block, scope_type: 'agent', scope_id, window: 'weekly', hard_limit_usd: 5 });
    await own.create({ ...block, window: 'monthly', hard_limit_usd: 9 });
    await spend(own, { usd: 4 }, { agentName: 'other' });
    await own.clock.advance(DAY_MS);
    await spend(own, { usd: 3 });
    await own.clock.advance(DAY_MS);
    // Sunday.
    await spend(own, { usd: 1.99 });
    await admit(own);
    await spend(own, { usd: 0.01 });
    await own.clock.advance(1000);
    await expect(admit(own)).rejects.toThrow('The weekly budget');
    await expect(admit(own)).rejects.toThrow('of acme/bot in this workspace');
    // Together they spent exactly the month's limit.
    await expect(admit(own, 'other')).rejects.toThrow('The monthly budget');
    await own.clock.advance(2 * 3_600_000);
    // A new week.
    await expect(admit(own)).rejects.toThrow('The monthly budget');
    await own.clock.advance(16 * DAY_MS);
    await admit(own);
  });

  describe('runs in flight', () => {
    const LIMITS = { window: 'daily', hard_limit_usd: 5, action_on_hard_limit: 'block_new_runs' } as const;
    const admitted = async (begun: readonly Promise<BudgetPlace>[]) => {
      const results = await Promise.allSettled(begun);
      return results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    };

    test('count with their prices: one of 24 concurrent calls of $5 begins', async () => {
      const own = await world();
      await own.create(LIMITS);
      const calls = () => Array.from({ length: 24 }, () => begin(own, { priceCents: 500 }));
      const [first, ...others] = await admitted(calls());
      expect([first !== undefined, others.length]).toEqual([true, 0]);
      await expect(begin(own)).rejects.toThrow('and runs in progress may cost the rest');
      // The run did not begin.
      await first!.release();
      await first!.release();
      expect(await admitted(calls())).toHaveLength(1);
    });

    test('count with what they cost from their end until their usage is summed', async () => {
      const own = await world();
      await own.create({ ...LIMITS, hard_limit_usd: 8 });
      const runId = crypto.randomUUID();
      const place = await begin(own, { priceCents: 100, runId });
      await place.end(7_500_000);
      await place.end(7_500_000);
      // Neither a late release of its host nor time takes its cost away.
      await place.release();
      await own.clock.advance(3_600_000);
      expect(await admitted([begin(own, { priceCents: 100 })])).toHaveLength(1);
      await expect(begin(own)).rejects.toThrow('and runs in progress may cost the rest');
      const ids = [runId, crypto.randomUUID()];
      await releaseSummed(own.deps, own.owner.workspaceId, ids);
      await releaseSummed(own.deps, own.owner.workspaceId, ids);
      expect(await admitted([begin(own, { priceCents: 100 })])).toHaveLength(1);
    });

    test('count in every process from the moment on at which their usage is summed', async () => {
      const own = await world();
      await own.create(LIMITS);
      const counter = new OperationCounter();
      // Another process has read the spend before.
      const other = { ...own, deps: { ...own.deps, runs: counter.count(own.deps.runs, 'runs') } };
      const first = await begin(other, { priceCents: 1 });
      await first.release();
      const runId = crypto.randomUUID();
      const place = await begin(own, { priceCents: 100, runId });
      await place.end(5_000_000);
      await spend(own, { usd: 5 });
      await own.deps.endedRuns?.settle();
      await own.clock.advance(1);
      await releaseSummed(own.deps, own.owner.workspaceId, [runId]);
      counter.operations.length = 0;
      await expect(begin(other)).rejects.toThrow('The daily budget');
      expect(counter.operations.length).toBeGreaterThan(0);
    });

    test('do not keep a run waiting for a process whose clock is ahead', async () => {
      const own = await world();
      await own.create(LIMITS);
      const ahead = { ...own.deps, clock: new ManualClock(own.clock.now() + 60_000) };
      const runId = crypto.randomUUID();
      await (await begin(own, { priceCents: 100, runId })).end(1);
      await releaseSummed(ahead, own.owner.workspaceId, [runId]);
      expect(await admitted([begin(own, { priceCents: 100 })])).toHaveLength(1);
    });

    test('count no longer once a run without costs has ended', async () => {
      const own = await world();
      await own.create(LIMITS);
      const place = await begin(own, { priceCents: 500 });
      await place.end(0);
      expect(await admitted([begin(own, { priceCents: 500 })])).toHaveLength(1);
    });

    test('count with the mean cost of their agent', async () => {
      const own = await world();
      await own.create(LIMITS);
      await spend(own, { usd: 1 });
      await spend(own, { usd: 2 });
      await own.clock.advance(1000);
      // The spend is $3, and each run is expected to cost $1.50.
      expect(await admitted(Array.from({ length: 10 }, () => begin(own)))).toHaveLength(2);
      // Another agent's runs have cost nothing yet, but the budget is used up.
      await expect(begin(own, { name: 'other' })).rejects.toThrow('The daily budget');
    });

    test('count for the budgets of their agent alone', async () => {
      const own = await world();
      const { id: scope_id } = await own.publish();
      await own.create({ ...LIMITS, scope_type: 'agent', scope_id });
      expect(await admitted(Array.from({ length: 5 }, () => begin(own, { priceCents: 300 })))).toHaveLength(2);
      expect(await admitted([begin(own, { name: 'other', priceCents: 900 })])).toHaveLength(1);
    });

    test('count once, also if their request is sent twice', async () => {
      const own = await world();
      await own.create(LIMITS);
      const twice = { priceCents: 300, runId: crypto.randomUUID() };
      expect(await admitted([begin(own, twice), begin(own, twice)])).toHaveLength(2);
      expect(await admitted([begin(own, { priceCents: 300 }), begin(own, { priceCents: 300 })])).toHaveLength(1);
    });

    test('count no longer when their time is over, if their host died', async () => {
      const own = await world();
      await own.create(LIMITS);
      await begin(own, { priceCents: 500 });
      await own.clock.advance(60_000);
      await expect(begin(own)).rejects.toThrow('The daily budget');
      await own.clock.advance(60_000);
      expect(await admitted(Array.from({ length: 3 }, () => begin(own, { priceCents: 500 })))).toHaveLength(1);
    });
  });

  test('reads nothing for a workspace without budgets, and sums at most once a second for others', async () => {
    const own = await world();
    const counter = new OperationCounter();
    const counted = {
      ...own.deps,
      main: counter.count(own.deps.main, 'main'),
      runs: counter.count(own.deps.runs, 'runs'),
    };
    const run = { runId: 'x', agent: { orgSlug: 'acme', name: 'bot' }, priceCents: 500, deadline: 0 };
    await takeBudgetPlace(counted, { id: own.owner.workspaceId } as never, run);
    expect(counter.operations).toEqual([]);
    await own.create({ window: 'monthly', hard_limit_usd: 5, action_on_hard_limit: 'block_new_runs' });
    for (let n = 0; n < 3; n++) await Promise.all(Array.from({ length: 50 }, () => admit(own, 'bot', counted)));
    const first = counter.operations.map(({ table, method }) => `${table}.${method}`).sort();
    // Reads the policies, then runs and services of past days and of today.
    expect(first).toEqual(['main.get', ...Array(4).fill('runs.query')]);
    await own.clock.advance(1000);
    await admit(own, 'bot', counted);
    expect(counter.operations).toHaveLength(first.length + 3);
  });

  test('sees a run that began before midnight and ended after it', async () => {
    const own = await world('2035-06-16T00:10:00Z');
    await own.create({ window: 'monthly', hard_limit_usd: 5, action_on_hard_limit: 'block_new_runs' });
    await admit(own);
    await spend(own, { usd: 5 }, { startedAt: Date.parse('2035-06-15T23:59:00Z') });
    await own.clock.advance(1000);
    await expect(admit(own)).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' });
  });

  test('knows a budget by every way into the workspace, until the last one is deleted', async () => {
    const own = await world();
    const agent = {
      name: 'greeter',
      type: 'prompt',
      description: 'greets',
      prompt: 'Greet.',
      supported_providers: ['anthropic'],
    };
    await own.send('POST', '/agents', agent);
    const call = async (key?: string) => (await own.send('POST', '/acme/greeter/v1/run', {}, key)).error?.code;
    const one = await own.create({ hard_limit_usd: 0.01, action_on_hard_limit: 'block_new_runs' });
    const two = await own.create({ window: 'weekly', hard_limit_usd: 0.01, action_on_hard_limit: 'block_new_runs' });
    await spend(own, { usd: 1 });
    await own.clock.advance(1000);
    await own.send('PUT', `/workspaces/${own.owner.workspaceId}/secrets`, {
      name: 'ANTHROPIC_API_KEY',
      value: 'sk-made-up',
    });
    expect([await call(), await call(own.member.key)]).toEqual(['BUDGET_EXCEEDED', 'BUDGET_EXCEEDED']);
    await own.send('DELETE', `${own.path}/${one.id}`);
    expect(await call()).toBe('BUDGET_EXCEEDED');
    await own.send('DELETE', `${own.path}/${two.id}`);
    const { budgets } = (await own.deps.main.get({ pk: `WS#${own.owner.workspaceId}`, sk: 'META' }))!;
    expect(budgets).toBe(false);
  });

  test('concurrent creation and deletion of budgets leaves the correct note', async () => {
    const own = await world();
    for (let round = 0; round < 10; round++) {
      const { id } = await own.create({ hard_limit_usd: 1 });
      await Promise.all([
        own.send('DELETE', `${own.path}/${id}`),
        own.budget({ window: 'weekly', hard_limit_usd: 1 }),
        own.budget({ window: 'monthly', hard_limit_usd: 1 }),
      ]);
      const noted = async () => (await own.deps.main.get({ pk: `WS#${own.owner.workspaceId}`, sk: 'META' }))!.budgets;
      expect(await noted()).toBe(true);
      const { budgets } = await own.send('GET', own.path);
      await Promise.all(budgets.map((each: { id: string }) => own.send('DELETE', `${own.path}/${each.id}`)));
      expect(await noted()).toBe(false);
    }
  });
});

describe('alerts', () => {
  const look = (own: World, deps: MemoryDeps = own.deps) => afterRun(deps, own.owner.workspaceId);

  test('tell of each threshold once a window, signed, and are kept', async () => {
    const own = await world();
    await own.send('POST', `/workspaces/${own.owner.workspaceId}/signing-secret`);
    const { id } = await own.create({ soft_limit_usd: 40, hard_limit_usd: 100 });
    const told: unknown[] = [];
    for (let n = 0; n < 11; n++) {
      await spend(own, { usd: 10 });
      await look(own);
      await own.clock.advance(1000);
      const count = (await own.alerts()).length;
      await expect.poll(() => own.told().length).toBe(count);
      told.push(own.told().slice((told.flat() as unknown[]).length));
    }
    expect(told).toEqual([
      [],
      ['soft_limit 50'],
      [],
      // 80% and 100% of the soft limit, 32 and 40, are both reached at 40.
      ['soft_limit 80', 'soft_limit 100'],
      ['hard_limit 50'],
      [],
      [],
      ['hard_limit 80'],
      [],
      ['hard_limit 100'],
      [],
    ]);
    const { body, headers } = own.receiver.at('/hook')[1]!;
    expect(body).toEqual({
      event: 'budget.threshold',
      severity: 'info',
      message: 'The daily spend of this workspace, $40.00, has reached 80% of its soft limit of $40.00.',
      policy_id: id,
      threshold_kind: 'soft_limit',
      threshold_pct: 80,
      current_spend_usd: '40.00',
      limit_usd: '40.00',
      burn_rate_usd_per_day: '79.99',
      scope_type: 'workspace',
      window: 'daily',
      workspace_id: own.owner.workspaceId,
    });
    expect(headers['webhook-signature']).toMatch(/^v1,/);
    await expect
      .poll(async () =>
        (await own.alerts()).map(({ threshold_kind: kind, threshold_pct: pct, delivery }) => [kind, pct, delivery]),
      )
      .toEqual([
        ['hard_limit', 100, 'sent'],
        ['hard_limit', 80, 'sent'],
        ['hard_limit', 50, 'sent'],
        expect.anything(),
        expect.anything(),
        ['soft_limit', 50, 'sent'],
      ]);
    const page = `/workspaces/${own.owner.workspaceId}/budget-alerts?limit=2&offset=1`;
    expect((await own.send('GET', page, undefined, own.member.key)).alerts).toEqual((await own.alerts()).slice(1, 3));
    // The next day.
    await own.clock.advance(DAY_MS);
    await spend(own, { usd: 20 });
    await look(own);
    expect(await own.alerts()).toHaveLength(7);
  });

  test('are written once, even if several processes check at the same time', async () => {
    const own = await world();
    await own.create({ soft_limit_usd: 1, hard_limit_usd: 2 });
    await spend(own, { usd: 5 });
    const processes = Array.from({ length: 8 }, () => ({
      ...own.deps,
      main: crashing(own.deps.main, { callsLeft: 1e9, isAfter: false }),
    }));
    await Promise.all([...processes.map((deps) => look(own, deps)), ...processes.map((deps) => watchBudgets(deps))]);
    expect(await own.alerts()).toHaveLength(6);
    await expect.poll(() => own.told().length).toBe(6);
    expect(new Set(own.told()).size).toBe(6);
  });

  test('survive a process that dies at any of its calls', async () => {
    for (const isAfter of [false, true]) {
      for (let calls = 1; calls < 40; calls++) {
        const own = await world();
        await own.create({ soft_limit_usd: 1, hard_limit_usd: 2 });
        await spend(own, { usd: 1.5 });
        const fuse = { callsLeft: calls, isAfter };
        const dying = { ...own.deps, main: crashing(own.deps.main, fuse), runs: crashing(own.deps.runs, fuse) };
        const end = await findAlerts(dying, own.owner.workspaceId).catch((error: unknown) => error);
        await watchBudgets(own.deps);
        await own.clock.advance(31_000);
        await retryDeliveries(own.deps);
        expect((await own.alerts()).map(({ delivery }) => delivery)).toEqual(Array(4).fill('sent'));
        expect(own.told().sort()).toEqual(['hard_limit 50', 'soft_limit 100', 'soft_limit 50', 'soft_limit 80']);
        if (!(end instanceof ProcessDied)) break;
      }
    }
  });

  test('of runs that end during a check are found by another check', async () => {
    const own = await world();
    await own.create({ hard_limit_usd: 1 });
    await spend(own, { usd: 0.6 });
    const counter = new OperationCounter();
    const deps = { ...own.deps, main: counter.count(own.deps.main, 'main') };
    const first = afterRun(deps, own.owner.workspaceId);
    await Promise.all(
      [1, 2, 3, 4].map(() => spend(own, { usd: 0.1 }).then(() => afterRun(deps, own.owner.workspaceId))),
    );
    await first;
    expect((await own.alerts()).map(({ threshold_pct }) => threshold_pct).sort()).toEqual([100, 50, 80]);
  });

  test('without an address are stored, and those to a failing one are marked', async () => {
    const own = await world();
    await own.create({ soft_limit_usd: 2, hard_limit_usd: 100, webhook_url: null });
    await own.create({
      window: 'weekly',
      soft_limit_usd: 2,
      hard_limit_usd: 100,
      webhook_url: `${own.receiver.url}/404`,
    });
    await spend(own, { usd: 1 });
    await look(own);
    for (let n = 0; n < 3; n++) {
      await own.clock.advance(400_000);
      await retryDeliveries(own.deps);
    }
    const { alerts } = await own.send('GET', `/workspaces/${own.owner.workspaceId}/budget-alerts`);
    expect(
      alerts
        .map(({ window, delivery, delivery_problem }: Record<string, unknown>) => [window, delivery, delivery_problem])
        .sort(),
    ).toEqual([
      ['daily', 'none', null],
      ['weekly', 'failed', 'it answered 404'],
    ]);
  });

  test('follow a change of limits, and say that a sum is incomplete', async () => {
    const own = await world();
    const { id } = await own.create({ hard_limit_usd: 100 });
    await spend(own, { usd: 6, unpriced: true });
    await look(own);
    expect(await own.alerts()).toEqual([]);
    await own.send('PATCH', `${own.path}/${id}`, { hard_limit_usd: 10 });
    await watchBudgets(own.deps);
    const [alert] = await own.alerts();
    expect(alert).toMatchObject({
      threshold_pct: 50,
      message: expect.stringContaining('Runs with unknown model prices, whose cost is not included: 1.'),
    });
    // A threshold that is still reached sends no second alert; one that is reached again does.
    await own.send('PATCH', `${own.path}/${id}`, { hard_limit_usd: 11 });
    await watchBudgets(own.deps);
    expect(await own.alerts()).toHaveLength(1);
    await own.send('PATCH', `${own.path}/${id}`, { hard_limit_usd: 100 });
    await own.send('PATCH', `${own.path}/${id}`, { hard_limit_usd: 12 });
    await watchBudgets(own.deps);
    expect(await own.alerts()).toHaveLength(2);
  });
});

describe('services', () => {
  test('count by the minute, and are paused once a window', async () => {
    const own = await world();
    const { id: agent_id } = await own.publish();
    const { service } = await own.deploy({ agent_id, name: 'bot' });
    const { id: other_id } = await own.publish({ name: 'other' });
    const { service: other } = await own.deploy({ agent_id: other_id, name: 'other' });
    const stateOf = async (id: string) => (await own.service('GET', id)).service;
    const { id } = await own.create({
      scope_type: 'agent',
      scope_id: agent_id,
      hard_limit_usd: 3,
      action_on_hard_limit: 'pause_service',
    });
    // Five minutes at a cent a second.
    for (let n = 0; n < 5; n++) {
      await own.clock.advance(60_000);
      await own.sweep();
      await watchBudgets(own.deps);
    }
    expect(await own.get(id)).toMatchObject({ breach_status: 'hard_limit', agent: 'acme/bot' });
    expect(await stateOf(service.id)).toMatchObject({
      current_state: 'paused',
      desired_state: 'stopped',
      auto_paused_at: expect.any(String),
      last_error: `Paused: the daily spend of acme/bot in this workspace has reached the hard limit of its budget ${id}, $3.00.`,
    });
    expect((await stateOf(service.id)).events[0]).toMatchObject({ event_type: 'budget_hard_limit_paused' });
    expect(own.host.orders).toContain('pause');
    expect((await stateOf(other.id)).desired_state).toBe('running');
    // An owner may restart the service: it is not paused a second time in this window.
    await own.service('POST', `${service.id}/restart`);
    await watchBudgets(own.deps);
    expect(await stateOf(service.id)).toMatchObject({ desired_state: 'running', auto_paused_at: null });
  });
});

test('concurrent notes by two processes end with the correct value', async () => {
  const own = await world();
  const store = new BudgetStore(own.deps, own.owner.workspaceId);
  await own.create({ hard_limit_usd: 1 });
  await Promise.all([noteBudgets(own.deps, own.owner.workspaceId), store.change(() => ({ policies: [] }))]);
  await noteBudgets(own.deps, own.owner.workspaceId);
  expect((await own.deps.main.get({ pk: `WS#${own.owner.workspaceId}`, sk: 'META' }))!.budgets).toBe(false);
});
