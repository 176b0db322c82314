import { expect, test } from 'vitest';
import type { Caller } from '#core/base/caller.ts';
import { orderKey } from '#core/runs/items.ts';
import { dueLeases, findLease, firstLease, giveBackLease, putLease } from '#core/runs/leases.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { putStep } from './requests.ts';

const workspaceId = '00000000-0000-4000-8000-000000000001';
const runId = '00000000-0000-4000-8000-000000000002';
const HEADERS = { get: () => null, has: () => false };

/** A program that works by itself: a process looks at it in half a minute. */
async function world() {
  const woken: string[] = [];
  const deps = { ...memoryDeps(), wakeRun: async (job: { runId: string }) => void woken.push(job.runId) };
  const { sealed } = await deps.vault.newDataKey(workspaceId);
  const ttl = Math.floor(deps.clock.now() / 1000) + 3600;
  const steps = { max_wait_seconds: 60 };
  await deps.runs.put({ ...orderKey(workspaceId, runId), version: 1, sealed_key: sealed, steps, ttl });
  const lease = firstLease(deps, { workspaceId, runId });
  await putLease(deps, lease);
  const caller = { agent: { kind: 'run', runId }, workspace: { id: workspaceId, plan: 'enterprise' } };
  const put = (body: object) =>
    putStep(deps, { caller: caller as unknown as Caller, headers: HEADERS }, { runId, body: body as never });
  const due = async () => (await Array.fromAsync(dueLeases(deps))).map((each) => each.runId);
  return { deps, lease, put, due, woken };
}

const suspension = (position: number) => ({ position, kind: 'suspension', text: '', number: 1 });

test('a program that ends to wait is looked at now, and not at the next time', async () => {
  const { deps, lease, put, due, woken } = await world();
  const dueAt = deps.clock.now() + 30_000;
  await giveBackLease(deps, lease, { reason: 'look', dueAt });
  await put({ position: 1, kind: 'step', text: 'pay', number: 1, value: 1 });
  expect([await due(), woken]).toEqual([[], []]);
  expect(await put(suspension(2))).toMatchObject({ status: 'suspended' });
  expect([await due(), woken]).toEqual([[runId], [runId]]);
});

test('a process that has the run is left alone', async () => {
  const { deps, lease, put, due, woken } = await world();
  await put(suspension(1));
  expect([await due(), woken]).toEqual([[], []]);
  expect((await findLease(deps, runId))?.until).toBe(lease.until);
});

test('the time that a run has waited is taken from the time that it may wait', async () => {
  const { deps, lease, put } = await world();
  const sleep = { kind: 'sleep', text: '', number: 1 };
  expect(await put({ position: 1, ...sleep, wait: { seconds: 60 } })).toMatchObject({ status: 'waiting' });
  await giveBackLease(deps, { ...lease, idleMs: 40_000 }, { reason: 'handover' });
  await expect(put({ position: 2, ...sleep, number: 2, wait: { seconds: 21 } })).rejects.toMatchObject({
    code: 'UNPROCESSABLE',
    message: expect.stringContaining('may wait for 20 more seconds'),
  });
});
