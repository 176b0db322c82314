import { expect, test } from 'vitest';
import { commit } from '#core/billing/budgets/under-way.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { FeedRecord } from '#core/ports/feed.ts';
import { type Item, queryAll } from '#core/ports/table.ts';
import { lastRunOf, listAgentRuns } from '#core/runs/agent-logs/store.ts';
import { headKey } from '#core/runs/items.ts';
import { emptyResult, endedWith, type NewRun, type RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { failedLogQueries, usagePartition } from '#core/runs/usage/rollup.ts';
import { crashing, type Fuse } from '#test/helpers/crashing.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { Random } from '#test/simulation/random.ts';
import { UsageStore } from './store.ts';
import { sumEndedRuns } from './sum-ended-runs.ts';

type Given = ReturnType<typeof memoryDeps>;

/** Dependencies whose feed nobody consumes: the test gives records to the consumer itself. */
const unfed = (): Given => {
  const { endedRuns: _, ...deps } = memoryDeps();
  return deps as Given;
};

const sequenceOf = (n: number): string => String(n).padStart(6, '0');

/** Ends runs, and returns their records in order. */
async function ended(
  deps: Given,
  workspaceIds: readonly string[],
  changes: readonly (Partial<NewRun> & { readonly result?: Partial<RunResult> })[],
): Promise<FeedRecord[]> {
  return Promise.all(
    changes.map(async ({ result, ...change }, n) => {
      const workspaceId = workspaceIds[n % workspaceIds.length]!;
      const run: NewRun = {
        id: crypto.randomUUID(),
        agentId: AGENT,
        agentWorkspaceId: workspaceId,
        agentOrg: 'acme',
        agentName: 'echo',
        agentVersion: 'v1',
        engine: 'direct_llm',
        endpoint: 'run',
        triggerSource: 'api',
        startedAt: deps.clock.now(),
        deadline: deps.clock.now() + 60_000,
        input: {},
        ...change,
      };
      const runs = new RunStore(deps, workspaceId);
      await runs.start(run);
      await runs.finish(run, { ...emptyResult(endedWith(undefined), null), executionMs: 5, ...result });
      return { sequence: sequenceOf(n), item: (await deps.runs.get(headKey(workspaceId, run.id)))! };
    }),
  );
}

const AGENT = '00000000-0000-4000-8000-000000000001';
const FAILED = { status: 'failed', errorCode: 'LLM_ERROR', errorMessage: 'x' } as const;
const never = { onMalformed: () => Promise.reject(new Error('no record is malformed')) };

const totals = async (deps: Pick<Deps, 'runs'>, workspaceId: string): Promise<Item[]> =>
  Array.fromAsync(queryAll(deps.runs, { pk: usagePartition(workspaceId) }));
const runsOf = async (deps: Pick<Deps, 'runs'>, workspaceId: string): Promise<number> =>
  (await totals(deps, workspaceId)).reduce((sum, { runs }) => sum + (runs as number), 0);
const failures = async (deps: Pick<Deps, 'runs'>, workspaceId: string): Promise<number> =>
  (await Promise.all(failedLogQueries(workspaceId).map((query) => Array.fromAsync(queryAll(deps.runs, query))))).flat()
    .length;

test('batches that come again, in other parts and after a death at any write, count every run once', async () => {
  const random = new Random(32);
  const workspaces = Array.from({ length: 7 }, () => crypto.randomUUID());
  const deps = unfed();
  const count = 60;
  const changes = Array.from({ length: count }, (_, n) => ({
    startedAt: deps.clock.now() - n * 37_000,
    ...(n % 3 === 0 && { tenantId: `t${n % 5}` }),
    ...(n % 4 === 0 && { agentWorkspaceId: workspaces[0]! }),
    ...(n % 5 === 0 && { result: FAILED }),
  }));
  const records = await ended(deps, workspaces, changes);
  let done = 0;
  let deaths = 0;
  for (let calls = 1; done < count; calls++) {
    // A batch begins at any record that was not acknowledged, or again at an earlier one.
    const from = Math.max(0, done - Math.floor(random.next() * 9));
    const batch = records.slice(from, done + 1 + Math.floor(random.next() * 12));
    const fuse: Fuse = { callsLeft: 1 + Math.floor(random.next() * 14), isAfter: random.next() < 0.5 };
    const dying = { ...deps, runs: crashing(deps.runs, fuse), counters: crashing(deps.counters, fuse) };
    const isAlive = await sumEndedRuns(dying, { shard: 'a', ...never }, batch).then(
      () => true,
      () => false,
    );
    if (isAlive) done = Math.max(done, from + batch.length);
    else deaths += 1;
    expect(calls).toBeLessThan(5000);
  }
  expect(deaths).toBeGreaterThan(10);
  for (const [n, workspaceId] of workspaces.entries()) {
    const own = changes.filter((_, each) => each % workspaces.length === n);
    expect(await runsOf(deps, workspaceId)).toBe(own.length);
    expect(await failures(deps, workspaceId)).toBe(own.filter(({ result }) => result !== undefined).length);
  }
  const foreign = changes.filter((_, n) => n % 4 === 0 && n % workspaces.length !== 0).length;
  const store = new UsageStore(deps, workspaces[0]!);
  const days = [...new Set(changes.map(({ startedAt }) => isoTime(startedAt).slice(0, 10)))].sort();
  const rollups = await store.authorRollups({ start: 0, end: 0, days });
  expect(rollups.reduce((sum, each) => sum + (each.totals.runs ?? 0), 0)).toBe(foreign);
  expect(await listAgentRuns(deps, AGENT, { limit: 200 })).toHaveLength(count);
});

test('two processes with the same records count them once', async () => {
  const deps = unfed();
  const workspaceId = crypto.randomUUID();
  const records = await ended(deps, [workspaceId], Array(40).fill({}));
  const both = [records.slice(0, 25), records.slice(0, 40)];
  await Promise.all(both.map((batch) => sumEndedRuns(deps, { shard: 'a', ...never }, batch)));
  expect(await runsOf(deps, workspaceId)).toBe(40);
});

test('shards count apart, also with the same positions, and a shard that follows begins anew', async () => {
  const deps = unfed();
  const workspaceId = crypto.randomUUID();
  const records = await ended(deps, [workspaceId], Array(9).fill({}));
  const [a, b, child] = [records.slice(0, 3), records.slice(3, 6), records.slice(6)];
  const renumbered = (all: FeedRecord[]) => all.map((record, n) => ({ ...record, sequence: sequenceOf(n) }));
  for (let again = 0; again < 2; again++) {
    await sumEndedRuns(deps, { shard: 'a', ...never }, renumbered(a));
    await sumEndedRuns(deps, { shard: 'b', ...never }, renumbered(b));
    await sumEndedRuns(deps, { shard: 'a-child', ...never }, renumbered(child));
  }
  expect(await runsOf(deps, workspaceId)).toBe(9);
});

test('a batch with more sums than a transaction takes is counted in parts', async () => {
  const deps = unfed();
  const workspaces = Array.from({ length: 150 }, () => crypto.randomUUID());
  const records = await ended(deps, workspaces, Array(300).fill({ tenantId: 'eu' }));
  await sumEndedRuns(deps, { shard: 'a', ...never }, records);
  for (const workspaceId of workspaces) expect(await runsOf(deps, workspaceId)).toBe(2);
});

test('many runs of an agent are one write of its sum', async () => {
  const deps = unfed();
  const workspaceId = crypto.randomUUID();
  const records = await ended(deps, [workspaceId], Array(200).fill({ result: { creditsCents: 3, inputTokens: 7 } }));
  await sumEndedRuns(deps, { shard: 'a', ...never }, records);
  const [only, ...others] = await totals(deps, workspaceId);
  expect(others).toEqual([]);
  expect(only).toMatchObject({ runs: 200, calls: 200, credits_cents: 600, input_tokens: 1400 });
});

test('a malformed record is kept aside, and does not hold up the others', async () => {
  const deps = unfed();
  const workspaceId = crypto.randomUUID();
  const records = await ended(deps, [workspaceId], Array(5).fill({}));
  const broken = [
    { agent_org: 7 },
    { duration_ms: 'long' },
    { input_tokens: Number.NaN },
    { gsi2sk: undefined },
    { engine: 'unknown' },
  ] as Partial<Item>[];
  const mixed = records.flatMap((record, n) => [
    { sequence: `${record.sequence}a`, item: { ...record.item, ...broken[n] } as Item },
    { ...record, sequence: `${record.sequence}b` },
  ]);
  const aside: string[] = [];
  const onMalformed = async ({ sequence }: FeedRecord) => void aside.push(sequence);
  await sumEndedRuns(deps, { shard: 'a', onMalformed }, mixed);
  await sumEndedRuns(deps, { shard: 'a', onMalformed }, mixed);
  expect(await runsOf(deps, workspaceId)).toBe(5);
  expect(aside).toEqual(records.map(({ sequence }) => `${sequence}a`));
});

test('a damaged sum leaves out the runs that count in it, and no others', async () => {
  const deps = unfed();
  const [good, bad] = [crypto.randomUUID(), crypto.randomUUID()];
  const records = await ended(deps, [good, bad], Array(20).fill({}));
  await sumEndedRuns(deps, { shard: 'a', ...never }, records.slice(0, 2));
  const [damaged] = await totals(deps, bad);
  await deps.runs.put({ ...damaged!, runs: 'many' });
  const aside: Item[] = [];
  const onMalformed = async ({ item }: FeedRecord) => void aside.push(item);
  await sumEndedRuns(deps, { shard: 'a', onMalformed }, records);
  expect(await runsOf(deps, good)).toBe(10);
  expect(aside).toEqual(records.slice(2).flatMap(({ item }, n) => (n % 2 === 1 ? [item] : [])));
});

test('the costs of several models are in the record, those of one follow from it', async () => {
  const deps = unfed();
  const workspaceId = crypto.randomUUID();
  const one = { provider: 'anthropic', model: 'claude-haiku-4-5', costUsd: 0.25 } as const;
  const other = { provider: 'openai', model: 'gpt-5-mini' } as const;
  const last = { llmProvider: 'anthropic', llmModel: 'claude-haiku-4-5' } as const;
  const records = await ended(
    deps,
    [workspaceId],
    [
      { result: { costs: [one], costUsd: 0.25, ...last } },
      { result: { costs: [other, one], ...last } },
      { result: { costs: [], costUsd: 0, ...last } },
      {},
    ],
  );
  expect(records.map(({ item }) => item.costs !== undefined)).toEqual([false, true, true, false]);
  await sumEndedRuns(deps, { shard: 'a', ...never }, records);
  const [sums] = await totals(deps, workspaceId);
  expect(sums).toMatchObject({ runs: 4, model_microusd: 500_000, unpriced_runs: 1 });
});

test('the position of a shard is kept for as long as its records can come', async () => {
  const deps = unfed();
  const workspaceId = crypto.randomUUID();
  const records = await ended(deps, [workspaceId], [{}]);
  const sum = () => sumEndedRuns(deps, { shard: 'a', keptSeconds: 86_400, ...never }, records);
  await sum();
  await deps.clock.advance(86_000_000);
  await sum();
  expect(await runsOf(deps, workspaceId)).toBe(1);
});

test('runs in flight of budgets leave with their sums, also if the process died in between', async () => {
  const deps = unfed();
  const workspaceId = crypto.randomUUID();
  const records = await ended(deps, [workspaceId], [{}, {}]);
  const runIds = records.map(({ item }) => item.sk.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'));
  const expiresAt = deps.clock.now() + 60_000;
  for (const runId of [...runIds, crypto.randomUUID()]) {
    await commit(deps, { workspaceId, runId, agent: 'acme/echo', micro: 5, expiresAt }, []).catch(() => {});
  }
  const underWay = async () => (await deps.counters.get({ pk: `BUDGETS#${workspaceId}`, sk: 'UNDERWAY' }))?.all;
  const dead = { ...deps, counters: crashing(deps.counters, { callsLeft: 1, isAfter: false }) };
  await expect(sumEndedRuns(dead, { shard: 'a', ...never }, records)).rejects.toThrow();
  expect(await underWay()).toBe(15);
  await sumEndedRuns(deps, { shard: 'a', ...never }, records);
  expect(await underWay()).toBe(5);
  expect(await runsOf(deps, workspaceId)).toBe(2);
});

test('the runs of an agent are listed newest first, before a time, from all workspaces', async () => {
  const deps = unfed();
  const workspaces = [crypto.randomUUID(), crypto.randomUUID()];
  const now = deps.clock.now();
  const starts = [0, 1, 2, 300, 999, 1000, 1001, 2500, 60_000, 3_600_000].map((ago) => now - ago);
  const records = await ended(
    deps,
    workspaces,
    starts.toReversed().map((startedAt) => ({ startedAt })),
  );
  await sumEndedRuns(deps, { shard: 'a', ...never }, records.slice(0, 3));
  await sumEndedRuns(deps, { shard: 'b', ...never }, records.slice(3));
  const listed = async (limit: number, before?: number) =>
    (await listAgentRuns(deps, AGENT, { limit, ...(before && { before: isoTime(before) }) })).map(({ startedAt }) =>
      Date.parse(startedAt),
    );
  expect(await listed(200)).toEqual(starts);
  for (let limit = 1; limit <= starts.length; limit++) expect(await listed(limit)).toEqual(starts.slice(0, limit));
  for (const [n, start] of starts.entries()) expect(await listed(4, start)).toEqual(starts.slice(n + 1, n + 5));
  expect((await lastRunOf(deps, AGENT))?.startedAt).toBe(isoTime(now));
  expect(await lastRunOf(deps, crypto.randomUUID())).toBeUndefined();
});
