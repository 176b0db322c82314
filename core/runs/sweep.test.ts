import { expect, test } from 'vitest';
import { admit, callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { UsageStore } from '#core/billing/usage/store.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { cancelRun } from './cancellation.ts';
import { headKey } from './items.ts';
import { listRuns } from './listing.ts';
import { emptyResult, endedWith, type NewRun } from './run.ts';
import { RunStore } from './store.ts';
import { sweepLostRuns } from './sweep.ts';

const WORKSPACE = crypto.randomUUID();
const LIMIT_MS = 60_000;

async function start(deps: MemoryDeps, options: { hasLease?: boolean } = {}): Promise<NewRun> {
  const run: NewRun = {
    id: crypto.randomUUID(),
    agentId: crypto.randomUUID(),
    agentWorkspaceId: WORKSPACE,
    agentOrg: 'acme',
    agentName: 'probe',
    agentVersion: 'v1',
    engine: 'direct_llm',
    endpoint: 'run',
    triggerSource: 'api',
    startedAt: deps.clock.now(),
    deadline: deps.clock.now() + LIMIT_MS,
    input: { question: 'why?' },
  };
  await new RunStore(deps, WORKSPACE).start(run, options);
  return run;
}

async function counted(deps: MemoryDeps): Promise<{ runs: number; failed: number; cancelled: number }> {
  const day = new Date(deps.clock.now()).toISOString().slice(0, 10);
  const rollups = await new UsageStore(deps, WORKSPACE).rollups({ start: 0, end: 0, days: [day] });
  const sum = (name: 'runs' | 'failed' | 'cancelled') =>
    rollups.reduce((all, { totals }) => all + (totals[name] ?? 0), 0);
  return { runs: sum('runs'), failed: sum('failed'), cancelled: sum('cancelled') };
}

test('a run whose host died is finished after the grace period, and counted once', async () => {
  const deps = memoryDeps();
  const run = await start(deps);
  await deps.clock.advance(LIMIT_MS + 29_000);
  expect(await sweepLostRuns(deps)).toBe(0);
  await deps.clock.advance(2000);
  const runs = new RunStore(deps, WORKSPACE);
  const { status, errorCode, errorMessage } = (await runs.find(run.id))!;
  expect(await sweepLostRuns(deps)).toBe(1);
  expect(await sweepLostRuns(deps)).toBe(0);
  expect(await runs.find(run.id)).toMatchObject({ status, errorCode, errorMessage });
  expect(await runs.find(run.id)).toMatchObject({
    status: 'failed',
    errorCode: 'INTERNAL_ERROR',
    errorMessage: 'The platform stopped while this run was in progress.',
  });
  expect(await runs.body(run.id)).toMatchObject({ input: { question: 'why?' }, output: null });
  expect(await counted(deps)).toEqual({ runs: 1, failed: 1, cancelled: 0 });
});

/** Starts a run with a lease, which is not listed among the open runs. */
async function admitAndStart(deps: MemoryDeps): Promise<{ run: NewRun; release(): Promise<void> }> {
  const run = await start(deps, { hasLease: true });
  const request = { workspace: OWNER, kind: 'llm', isPaid: false, isCounted: true } as const;
  const { release } = await admit(deps, { ...request, runId: run.id, deadline: run.deadline });
  return { run, release };
}
const OWNER = { id: WORKSPACE, slug: 'acme', name: 'acme', type: 'team', createdAt: '', plan: 'free' } as const;
const running = async (deps: MemoryDeps) => (await callsInUse(deps, OWNER)).concurrent_calls;

test('the run of a counted call whose host died is found by its lease, which is then released', async () => {
  const deps = memoryDeps();
  const { run } = await admitAndStart(deps);
  const { run: ended, release } = await admitAndStart(deps);
  const runs = new RunStore(deps, WORKSPACE);
  await runs.finish(ended, emptyResult(endedWith(undefined), null));
  await release();
  expect(await sweepLostRuns(deps)).toBe(0);
  expect(await running(deps)).toBe(1);
  await deps.clock.advance(LIMIT_MS + 32_000);
  expect(await sweepLostRuns(deps)).toBe(1);
  expect(await sweepLostRuns(deps)).toBe(0);
  expect(await runs.find(run.id)).toMatchObject({ status: 'failed', errorCode: 'INTERNAL_ERROR' });
  expect(await runs.find(ended.id)).toMatchObject({ status: 'completed' });
  expect(await counted(deps)).toEqual({ runs: 2, failed: 1, cancelled: 0 });
  expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
});

test('the run of a lease whose place was given to another call is finished, too', async () => {
  const deps = memoryDeps();
  const lost = await Promise.all(Array.from({ length: 10 }, () => admitAndStart(deps)));
  await deps.clock.advance(LIMIT_MS + 32_000);
  const { run: later } = await admitAndStart(deps);
  expect(await sweepLostRuns(deps)).toBe(10);
  const runs = new RunStore(deps, WORKSPACE);
  for (const { run } of lost) expect(await runs.find(run.id)).toMatchObject({ status: 'failed' });
  expect(await runs.find(later.id)).toMatchObject({ status: 'running' });
  expect(await running(deps)).toBe(1);
});

test('a lease is kept while its run continues or cannot be finished, and released if its host died before the run began', async () => {
  const deps = memoryDeps();
  const { run: broken } = await admitAndStart(deps);
  const { run: resumed } = await admitAndStart(deps);
  const request = { workspace: OWNER, kind: 'llm', isPaid: false, isCounted: true } as const;
  await admit(deps, { ...request, runId: crypto.randomUUID(), deadline: broken.deadline });
  const keyOf = ({ id }: NewRun) => headKey(WORKSPACE, id);
  const { gsi2sk } = (await deps.runs.get(keyOf(broken)))!;
  await deps.runs.update(keyOf(broken), { set: { gsi2sk: 'nonsense' } });
  // Another process restarted the same run later.
  await deps.runs.update(keyOf(resumed), { set: { deadline: resumed.deadline + 600_000 } });
  await deps.clock.advance(LIMIT_MS + 32_000);
  expect(await sweepLostRuns(deps)).toBe(0);
  const leases = async () => (await Array.fromAsync(leasesOf(deps, { all: true }))).map(({ runDigits }) => runDigits);
  const digitsOf = ({ id }: NewRun) => id.replaceAll('-', '').slice(0, 15);
  expect((await leases()).sort()).toEqual([digitsOf(broken), digitsOf(resumed)].sort());
  await deps.runs.update(keyOf(broken), { set: { gsi2sk } });
  expect(await sweepLostRuns(deps)).toBe(1);
  expect(await leases()).toEqual([digitsOf(resumed)]);
  expect(await sweepLostRuns(deps, { all: true })).toBe(1);
  expect(await leases()).toEqual([]);
});

test('with `all`, every open run is lost', async () => {
  const deps = memoryDeps();
  await Promise.all(Array.from({ length: 40 }, () => start(deps)));
  expect(await sweepLostRuns(deps, { all: true })).toBe(40);
  expect(await counted(deps)).toEqual({ runs: 40, failed: 40, cancelled: 0 });
});

test('a run that was cancelled after its host died ends as cancelled', async () => {
  const deps = memoryDeps();
  const run = await start(deps);
  expect(await cancelRun(deps, WORKSPACE, run.id)).toBe(true);
  await sweepLostRuns(deps, { all: true });
  expect(await new RunStore(deps, WORKSPACE).find(run.id)).toMatchObject({
    status: 'cancelled',
    errorCode: 'RUN_CANCELLED',
  });
  expect(await counted(deps)).toEqual({ runs: 1, failed: 0, cancelled: 1 });
});

test('a run that cannot be finished does not stop the sweep', async () => {
  const deps = memoryDeps();
  const [broken] = await Promise.all(Array.from({ length: 10 }, () => start(deps)));
  await deps.runs.update(headKey(WORKSPACE, broken!.id), { set: { gsi2sk: 'nonsense' } });
  expect(await sweepLostRuns(deps, { all: true })).toBe(9);
  expect(deps.lines).toContainEqual(
    expect.objectContaining({ level: 'error', fields: expect.objectContaining({ run_id: broken!.id }) }),
  );
});

test('records of version 0.1.0, whose index keys end in the id, are read and finished', async () => {
  const deps = memoryDeps();
  const run = await start(deps);
  const key = headKey(WORKSPACE, run.id);
  const { gsi1sk, gsi2sk, ...head } = (await deps.runs.get(key))!;
  await deps.runs.put({ ...head, gsi1sk: `${gsi1sk}#${run.id}`, gsi2sk: `${gsi2sk}#${run.id}` });
  const started = { id: run.id, startedAt: new Date(run.startedAt).toISOString() };
  expect((await listRuns(deps, WORKSPACE, {}, { limit: 10 })).runs).toMatchObject([{ ...started, status: 'running' }]);
  expect(await sweepLostRuns(deps, { all: true })).toBe(1);
  expect((await listRuns(deps, WORKSPACE, {}, { limit: 10 })).runs).toMatchObject([{ ...started, status: 'failed' }]);
});
