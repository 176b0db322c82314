import { expect, onTestFinished, test } from 'vitest';
import { type Admission, admit } from '#core/accounts/limits/admission.ts';
import { emptyResult, endedWith, type NewRun, type RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { type MemoryDeps, memoryDeps } from './helpers/memory-deps.ts';
import { newPromptCaller } from './helpers/round-trips.ts';
import { startScriptedLlm } from './helpers/scripted-llm/server.ts';
import { UnitCounter } from './helpers/unit-counter.ts';

const HOUR_MS = 3600_000;
const CALLS_A_SECOND = 500;
/** Half of DynamoDB's write limit per item. */
const UNITS_A_SECOND = 500;

function counted(deps: MemoryDeps) {
  const units = new UnitCounter();
  const tables = {
    main: units.count(deps.main, 'main'),
    runs: units.count(deps.runs, 'runs'),
    counters: units.count(deps.counters, 'counters'),
  };
  return { deps: { ...deps, ...tables }, units };
}

/** Returns the item with the most writes, and its units per second. */
function hottest({ byItem }: UnitCounter, calls: number): { item: string; rate: number } {
  const [item, written] = [...byItem].reduce((most, each) => (each[1] > most[1] ? each : most));
  return { item, rate: (written / calls) * CALLS_A_SECOND };
}

test('no item is written too often by 500 calls a second of one workspace', async () => {
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const { deps, units } = counted(memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1`, defaultPlan: 'enterprise' }));
  const call = await newPromptCaller(deps);
  units.byItem.clear();
  const calls = 100;
  for (let i = 0; i < calls; i++) await call();
  const { item, rate } = hottest(units, calls);
  expect(rate, item).toBeLessThanOrEqual(UNITS_A_SECOND);
});

test('neither with as many calls under way as a plan allows, nor at the end of a quarter of a day', async () => {
  const bare = memoryDeps({ defaultPlan: 'enterprise' });
  const { deps, units } = counted(bare);
  const workspace = { id: crypto.randomUUID(), slug: 'busy', name: 'busy', type: 'team', createdAt: '' } as const;
  const runs = new RunStore(deps, workspace.id);
  const begin = async () => {
    const id = crypto.randomUUID();
    const startedAt = deps.clock.now();
    const deadline = startedAt + 60_000;
    const request = { workspace, kind: 'llm', isPaid: false, isCounted: true, runId: id, deadline } as const;
    const admission = await admit(deps, request);
    const run = { ...RUN, id, agentWorkspaceId: workspace.id, startedAt, deadline };
    await runs.start(run, { hasLease: true });
    return { run, admission };
  };
  const end = async ({ run, admission }: { run: NewRun; admission: Admission }, result: RunResult) => {
    expect(await runs.finish(run, result)).toBe(true);
    await admission.release();
  };
  await bare.clock.advance(24 * HOUR_MS - (deps.clock.now() % (24 * HOUR_MS)));
  for (let hour = 0; hour < 6; hour++) {
    if (hour > 0) await bare.clock.advance(HOUR_MS);
    for (let i = 0; i < 24; i++) await end(await begin(), i % 4 === 0 ? FAILED : COMPLETED);
  }
  const underWay = await Promise.all(Array.from({ length: 190 }, begin));
  units.byItem.clear();
  const calls = 400;
  for (let i = 0; i < calls; i++) {
    underWay.push(await begin());
    await end(underWay.shift()!, COMPLETED);
  }
  const { item, rate } = hottest(units, calls);
  expect(rate, item).toBeLessThanOrEqual(UNITS_A_SECOND);
});

const RUN = {
  agentId: crypto.randomUUID(),
  agentOrg: 'some-organisation',
  agentName: 'agent-with-a-usual-name',
  agentVersion: 'v12',
  engine: 'direct_llm',
  endpoint: 'run',
  triggerSource: 'api',
  input: { name: 'Ada' },
} as const;

const COMPLETED: RunResult = {
  ...emptyResult(endedWith(undefined), { name: 'Ada' }),
  status: 'completed',
  executionMs: 1234,
  inputTokens: 1234,
  outputTokens: 567,
  cacheReadTokens: 89,
  cacheWriteTokens: 89,
  llmProvider: 'anthropic',
  llmModel: 'claude-sonnet-4-5',
  costUsd: 0.0123,
  costs: [{ provider: 'anthropic', model: 'claude-sonnet-4-5', costUsd: 0.0123 }],
  creditsCents: 12,
};
const FAILED: RunResult = { ...COMPLETED, status: 'failed', errorCode: 'INTERNAL_ERROR', errorMessage: 'Broken.' };
