import { expect, test } from 'vitest';
import { ProcessRunSignals } from '#core/ports/run-signals.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { cancelRun, hasCancelledBelow, watchForCancel } from './cancellation.ts';
import type { NewRun, RunResult } from './run.ts';
import { RunStore } from './store.ts';

const WORKSPACE = crypto.randomUUID();

const newRun = (deps: MemoryDeps, more: Partial<NewRun> = {}): NewRun => ({
  id: crypto.randomUUID(),
  agentId: crypto.randomUUID(),
  agentWorkspaceId: WORKSPACE,
  agentOrg: 'acme',
  agentName: 'probe',
  agentVersion: 'v1',
  engine: 'code_runtime',
  endpoint: 'run',
  triggerSource: 'api',
  startedAt: deps.clock.now(),
  deadline: deps.clock.now() + 60_000,
  input: {},
  ...more,
});

const RESULT: RunResult = {
  status: 'completed',
  input: {},
  output: 1,
  stdout: '',
  stderr: '',
  trace: [],
  executionMs: 1,
  exitCode: 0,
  errorCode: null,
  errorMessage: null,
  creditsCents: 0,
};

/** Starts a chain top -> mid -> leaf and top -> side. */
async function startChain(deps: MemoryDeps) {
  const runs = new RunStore(deps, WORKSPACE);
  const top = newRun(deps);
  const below = (parent: NewRun, laterMs: number) =>
    newRun(deps, { parentRunId: parent.id, rootRunId: top.id, startedAt: deps.clock.now() + laterMs });
  const mid = below(top, 2);
  // Its host's clock is behind.
  const leaf = below(mid, -5);
  const side = below(top, 1);
  for (const run of [top, mid, leaf, side]) await runs.start(run);
  return { runs, top, mid, leaf, side };
}

test('cancelling a run ends it and every run below it, and no other run', async () => {
  const deps = memoryDeps();
  const { runs, top, mid, leaf, side } = await startChain(deps);
  const watched = [top, mid, leaf, side].map(({ id }) => watchForCancel(deps, WORKSPACE, { id }));
  expect(await cancelRun(deps, WORKSPACE, mid.id)).toBe(true);
  expect(watched.map(({ signal }) => signal.aborted)).toEqual([false, true, true, false]);
  expect(watched[1]!.signal.reason).toMatchObject({ code: 'RUN_CANCELLED' });
  const marked = await Promise.all([top, mid, leaf, side].map(({ id }) => runs.isCancelled(id)));
  expect(marked).toEqual([false, true, true, false]);
  for (const { stop } of watched) stop();
});

test('that a run below was cancelled by itself is known above it, and nowhere else', async () => {
  const deps = memoryDeps();
  const { runs, top, mid, leaf, side } = await startChain(deps);
  const known = () => Promise.all([top, mid, leaf, side].map((run) => hasCancelledBelow(deps, WORKSPACE, run)));
  expect(await known()).toEqual([false, false, false, false]);
  await cancelRun(deps, WORKSPACE, leaf.id);
  await runs.finish(leaf, { ...RESULT, status: 'cancelled' });
  expect(await known()).toEqual([true, true, false, false]);
});

test('a run in another process learns of its cancellation from its record, within half a second', async () => {
  const deps = memoryDeps();
  const { top } = await startChain(deps);
  const elsewhere = { ...deps, runSignals: new ProcessRunSignals() };
  const { signal, stop } = watchForCancel(deps, WORKSPACE, top);
  expect(await cancelRun(elsewhere, WORKSPACE, top.id)).toBe(true);
  expect(signal.aborted).toBe(false);
  await deps.clock.advance(500);
  await expect.poll(() => signal.aborted).toBe(true);
  stop();
  expect(deps.clock.sleepers).toBe(0);
});

test('a short run never reads its record', async () => {
  const deps = memoryDeps();
  const { top } = await startChain(deps);
  const reads: unknown[] = [];
  const runs = new Proxy(deps.runs, {
    get(table, name) {
      reads.push(name);
      return Reflect.get(table, name);
    },
  });
  const { stop } = watchForCancel({ ...deps, runs }, WORKSPACE, top);
  await deps.clock.advance(350);
  stop();
  await deps.clock.advance(1000);
  expect(reads).toEqual([]);
});

test('cancelling a run that has ended changes nothing', async () => {
  const deps = memoryDeps();
  const { runs, top } = await startChain(deps);
  await runs.finish(top, RESULT);
  expect(await cancelRun(deps, WORKSPACE, top.id)).toBe(false);
  expect(await runs.find(top.id)).toMatchObject({ status: 'completed' });
});

test('a run that completes after its cancellation was requested is recorded as cancelled', async () => {
  const deps = memoryDeps();
  const { runs, top } = await startChain(deps);
  await cancelRun({ ...deps, runSignals: new ProcessRunSignals() }, WORKSPACE, top.id);
  expect(await runs.finish(top, { ...RESULT, creditsCents: 7 })).toBe(false);
  const ended = await runs.find(top.id);
  expect(ended).toMatchObject({ status: 'cancelled', errorCode: 'RUN_CANCELLED', creditsCents: 0 });
  expect(await runs.body(top.id)).toMatchObject({ output: null });
  expect(await runs.finish(top, RESULT)).toBe(false);
  expect(await runs.find(top.id)).toEqual(ended);
});

test('cancelling the root of a chain reaches every run, even if clocks disagree', async () => {
  const deps = memoryDeps();
  const { runs, top, mid, leaf, side } = await startChain(deps);
  await cancelRun(deps, WORKSPACE, top.id);
  for (const { id } of [top, mid, leaf, side]) expect(await runs.isCancelled(id)).toBe(true);
});

test('a run that starts while its caller is cancelled ends immediately', async () => {
  const deps = memoryDeps();
  const { runs, top, mid } = await startChain(deps);
  await cancelRun(deps, WORKSPACE, mid.id);
  const late = newRun(deps, { parentRunId: mid.id, rootRunId: top.id });
  await runs.start(late);
  const { signal, stop } = watchForCancel(deps, WORKSPACE, late);
  await expect.poll(() => signal.aborted).toBe(true);
  stop();
});
