import { expect, test } from 'vitest';
import { publish } from '#core/agents/publish.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { NewRun, RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addMember, addUser, type TestUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { estimateHandlers } from './handlers.ts';
import { estimateRoutes } from './routes.ts';

const DAY_MS = 24 * 3600 * 1000;

/** Creates the author `ann` with the public agent `echo`, and `bob`. */
async function setUp({ isPublic = true } = {}) {
  const deps = memoryDeps();
  const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
  const workspace = { id: ann.workspaceId, slug: 'ann', name: 'ann', type: 'personal', createdAt: isoTime(0) } as const;
  const definition = {
    name: 'echo',
    type: 'prompt',
    execution_engine: 'direct_llm',
    supported_providers: ['any'],
    is_public: isPublic,
  } as unknown as AgentDefinition;
  const version = await publish(withoutListeners(deps), workspace, definition, { runnable: true });
  const counter = new OperationCounter();
  const app = (() => {
    const counted = { ...deps, runs: counter.count(deps.runs) };
    return createWebApp(counted, estimateRoutes, estimateHandlers(counted));
  })();

  const ask = async (user?: TestUser, { headers = {}, path = 'ann/echo/v1' } = {}) => {
    const response = await app(
      new Request(`http://localhost/public/agents/${path}/cost-estimate`, {
        headers: { ...(user && { authorization: `Bearer ${user.key}` }), ...headers },
      }),
    );
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const estimate = async (user?: TestUser) => (await ask(user)).body.estimate;

  /** Records a run of `user` that took a second. */
  const run = async (
    user: TestUser,
    costs: RunResult['costs'],
    changes: Partial<RunResult> = {},
    more: Partial<NewRun> = {},
  ) => {
    const runs = new RunStore(deps, user.workspaceId);
    const started: NewRun = {
      id: crypto.randomUUID(),
      agentId: version.id,
      agentWorkspaceId: ann.workspaceId,
      agentOrg: 'ann',
      agentName: 'echo',
      agentVersion: 'v1',
      engine: 'direct_llm',
      endpoint: 'run',
      triggerSource: 'api',
      startedAt: deps.clock.now() - 1000,
      deadline: deps.clock.now() + 1000,
      input: 'what bob asked',
      ...more,
    };
    await runs.start(started);
    const isPriced = costs?.every(({ costUsd }) => costUsd !== undefined);
    await runs.finish(started, {
      status: 'completed',
      input: 'what bob asked',
      output: 'what bob got',
      stdout: '',
      stderr: '',
      trace: [],
      executionMs: 1000,
      exitCode: null,
      errorCode: null,
      errorMessage: null,
      creditsCents: 0,
      inputTokens: 100,
      outputTokens: 10,
      costs,
      costUsd: isPriced ? costs?.reduce((sum, { costUsd }) => sum + costUsd!, 0) : undefined,
      llmProvider: costs?.at(-1)?.provider,
      llmModel: costs?.at(-1)?.model,
      ...changes,
    });
  };
  return { deps, ann, bob, ask, estimate, run, counter };
}

const opus = (costUsd: number) => [{ provider: 'anthropic', model: 'claude-opus-5', costUsd }] as const;

test('averages and percentiles, by provider and model', async () => {
  const { ann, run, estimate } = await setUp();
  for (let cents = 1; cents <= 10; cents++) await run(ann, opus(cents / 100));
  await run(ann, [...opus(0.04), { provider: 'openai', model: 'gpt-6', costUsd: 0.06 }]);
  await run(ann, [{ provider: 'openai', model: 'unheard-of' }], { status: 'failed', errorCode: 'LLM_ERROR' });
  await run(ann, undefined, { inputTokens: undefined, outputTokens: undefined });
  const near = (usd: number) => expect.closeTo(usd, 2);
  expect(await estimate(ann)).toEqual({
    sample_size: 13,
    period_days: 30,
    avg_cost_usd: 0.059090909,
    p50_cost_usd: near(0.06),
    p95_cost_usd: near(0.1),
    avg_input_tokens: 92,
    avg_output_tokens: 9,
    avg_duration_ms: 1000,
    success_rate: 0.9231,
    unpriced_runs: 1,
    providers: [
      { provider: 'anthropic', runs: 10, avg_cost_usd: 0.055, p50_cost_usd: near(0.05), p95_cost_usd: near(0.1) },
      { provider: 'openai', runs: 1, avg_cost_usd: 0.1, p50_cost_usd: near(0.1), p95_cost_usd: near(0.1) },
    ],
    provider_breakdown: [
      { provider: 'anthropic', model: 'claude-opus-5', runs: 11, total_cost_usd: 0.59, avg_cost_usd: 0.053636364 },
      { provider: 'openai', model: 'gpt-6', runs: 1, total_cost_usd: 0.06, avg_cost_usd: 0.06 },
    ],
    prices_of: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
  });
});

test('there are no amounts without runs that a model answered', async () => {
  const { ann, run, ask, estimate } = await setUp();
  expect((await ask(ann)).body).toEqual({
    agent: 'ann/echo@v1',
    type: 'prompt',
    execution_engine: 'direct_llm',
    supported_providers: ['any'],
    estimate: { sample_size: 0 },
    metadata: { request_id: expect.stringMatching(/^req_/) },
  });
  await run(ann, undefined);
  const shown = (await estimate(ann)) as object;
  expect(shown).toMatchObject({ sample_size: 1, providers: [], provider_breakdown: [] });
  expect(Object.keys(shown).filter((name) => name.endsWith('_cost_usd'))).toEqual([]);
});

test("others see whole days only, with 20 runs at least; the agent's workspace sees all", async () => {
  const { deps, ann, bob, run, estimate } = await setUp();
  const carl = await addUser(deps, 'carl');
  await addMember(deps, carl, ann.workspaceId);
  for (let count = 1; count <= 19; count++) await run(count % 2 === 0 ? ann : bob, opus(0.01));
  for (const user of [ann, carl]) expect(await estimate(user)).toMatchObject({ sample_size: 19 });
  for (const user of [bob, undefined]) expect(await estimate(user)).toEqual({ sample_size: 0 });
  await deps.clock.advance(DAY_MS);
  expect(await estimate(bob)).toEqual({ sample_size: 0 });
  // One run yesterday and one today.
  await run(bob, opus(0.01), {}, { startedAt: deps.clock.now() - DAY_MS });
  await run(bob, opus(5));
  for (const user of [bob, undefined]) {
    expect(await estimate(user)).toMatchObject({ sample_size: 20, avg_cost_usd: 0.01 });
  }
  expect(await estimate(carl)).toMatchObject({ sample_size: 21 });
  expect(JSON.stringify(await estimate())).not.toMatch(/bob/);
  await deps.clock.advance(29 * DAY_MS);
  expect(await estimate(bob)).toMatchObject({ sample_size: 21 });
  expect(await estimate(ann)).toMatchObject({ sample_size: 1 });
  await deps.clock.advance(DAY_MS);
  expect(await estimate(ann)).toEqual({ sample_size: 0 });
  expect(await estimate(bob)).toEqual({ sample_size: 0 });
});

test('a private agent is hidden from others; a wrong key is rejected', async () => {
  const { ann, bob, ask } = await setUp({ isPublic: false });
  expect((await ask(ann)).status).toBe(200);
  for (const user of [bob, undefined]) {
    expect(await ask(user)).toMatchObject({ status: 404, body: { error: { code: 'NOT_FOUND' } } });
  }
  expect((await ask(ann, { path: 'ann/echo/v2' })).status).toBe(404);
  expect((await ask(ann, { path: 'ann/echo/latest' })).body).toMatchObject({ agent: 'ann/echo@v1' });
  const wrong = { headers: { authorization: 'Bearer sk_live_wrong' } };
  expect(await ask(undefined, wrong)).toMatchObject({ status: 401, body: { error: { code: 'UNAUTHORIZED' } } });
  const elsewhere = { headers: { 'x-workspace-id': ann.workspaceId } };
  expect(await ask(bob, elsewhere)).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN' } } });
});

test('reads only the roll-ups of its agent, however much the workspace runs', async () => {
  const { ann, bob, run, estimate, counter } = await setUp();
  for (const agentName of ['other', 'echo2', 'echo']) await run(bob, opus(1), {}, { agentName });
  expect(await estimate(ann)).toMatchObject({ sample_size: 1 });
  // 30 days, each with one query for own runs and one for those of other workspaces.
  expect(counter.operations.map(({ method }) => method)).toEqual(Array(60).fill('query'));
  expect(counter.items).toBe(60);
});
