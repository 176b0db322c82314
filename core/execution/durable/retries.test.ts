import { expect, test } from 'vitest';
import { callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import { balanceOf, grantCredits, listEntries } from '#core/billing/credits/ledger.ts';
import { queryAll } from '#core/ports/table.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { usagePartition } from '#core/runs/usage/rollup.ts';
import { IMMORTAL, type Life } from '#test/helpers/durable-histories.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Sent, settled, waitingWorld } from '#test/helpers/waiting-world.ts';
import { resumeRuns } from './resume.ts';

const POLICY = { max: 2, backoff_seconds: [10, 60] };
const NAMES = ['plain', 'lasting'] as const;

/** A world whose model fails at its first `failures` requests. */
const failing = (failures: number, manifest: object = {}) =>
  waitingWorld(
    {},
    {
      manifest: { retry: POLICY, ...manifest },
      ask(request) {
        if (request <= failures) throw new PlatformError('LLM_ERROR', 'The provider is down.');
      },
    },
  );
type World = Awaited<ReturnType<typeof failing>>;

/** Makes an asynchronous call, and returns the id of its run once the first attempt has ended. */
async function begun({ deps, call, idle }: World, name = 'plain', headers: Sent = {}): Promise<string> {
  const { status, body } = await call(headers, name);
  expect(status).toBe(202);
  await settled(deps, idle());
  return body.run_id;
}

/** Nothing is left of a run that has ended, and it counts once. */
async function expectNothingLeft({ deps, user, waiting }: World, runs = 1): Promise<void> {
  expect(await waiting.count()).toBe(0);
  expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
  expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
  const workspace = (await findWorkspace(deps, user.workspaceId))!;
  expect((await callsInUse(deps, workspace)).concurrent_calls).toBe(0);
  const usage = await Array.fromAsync(queryAll(deps.runs, { pk: usagePartition(user.workspaceId) }));
  expect(usage.reduce((sum, item) => sum + ((item.runs as number | undefined) ?? 0), 0)).toBe(runs);
}

test.for(NAMES)('%s: a run of an asynchronous call is retried, and stays one run', async (name) => {
  const world = await failing(2);
  const { deps, user, asked, tick, run, waiting, send } = world;
  const beginning = deps.clock.now();
  const id = await begun(world, name);
  expect(await run(id)).toMatchObject({
    ...{ status: 'queued', attempt: 2, max_attempts: 3, exhausted: false, error_code: null },
    failed_attempts: [
      { error_code: 'LLM_ERROR', error_message: 'The provider is down.', duration_ms: expect.any(Number) },
    ],
  });
  const { next_attempt_at } = (await run(id)) as unknown as { readonly next_attempt_at: string };
  expect(Date.parse(next_attempt_at) - deps.clock.now()).toBeGreaterThan(9_000);
  const workspace = (await findWorkspace(deps, user.workspaceId))!;
  expect((await callsInUse(deps, workspace)).concurrent_calls).toBe(0);
  expect(await waiting.count()).toBe(1);
  await tick();
  expect(asked.length).toBe(1);
  await deps.clock.advance(11_000);
  await tick();
  expect(asked.length).toBe(2);
  await deps.clock.advance(30_000);
  await tick();
  expect([asked.length, (await run(id)).status]).toEqual([2, 'queued']);
  await deps.clock.advance(31_000);
  await tick();
  const ended = await run(id);
  expect(ended).toMatchObject({
    ...{ status: 'completed', attempt: 3, next_attempt_at: null, exhausted: false, input_tokens: 1 },
    failed_attempts: [{ error_code: 'LLM_ERROR' }, { error_code: 'LLM_ERROR' }],
  });
  expect(Date.parse(ended.started_at) - beginning).toBeLessThan(5_000);
  expect(ended.duration_ms).toBeGreaterThan(70_000);
  const trace = await send('GET', `/workspaces/${user.workspaceId}/traces/${id}/events?limit=100`);
  const { events } = trace.body as unknown as { readonly events: { event_type: string; payload: object }[] };
  expect(events.filter(({ event_type }) => event_type === 'interrupted').map(({ payload }) => payload)).toEqual([
    { attempt: 1, begins_again: true, reason: 'retry' },
    { attempt: 2, begins_again: true, reason: 'retry' },
  ]);
  await expectNothingLeft(world);
  expect((await send('GET', `/workspaces/${user.workspaceId}/runs`)).body).toMatchObject({ total: 1 });
});

test.for(NAMES)('%s: the last failure ends the run, which is listed until it is replayed', async (name) => {
  const world = await failing(3);
  const { deps, user, asked, tick, run, send } = world;
  const id = await begun(world, name);
  for (let minute = 0; minute < 4; minute++) {
    await deps.clock.advance(61_000);
    await tick();
  }
  expect(asked.length).toBe(3);
  expect(await run(id)).toMatchObject({ status: 'failed', error_code: 'LLM_ERROR', attempt: 3, exhausted: true });
  await expectNothingLeft(world);
  const runs = `/workspaces/${user.workspaceId}/runs`;
  const exhausted = async () =>
    (await send('GET', `${runs}?status=failed&exhausted=true`)).body.runs.map((each) => each.id);
  expect(await exhausted()).toEqual([id]);
  expect((await send('GET', `${runs}?exhausted=false`)).body.runs).toEqual([]);
  expect((await send('GET', `${runs}?exhausted=perhaps`)).body.error.code).toBe('INVALID_INPUT');
  const replayed = await send('POST', `${runs}/${id}/replay`, {});
  await settled(deps, world.idle());
  expect(await run(replayed.body.run_id)).toMatchObject({ status: 'completed', attempt: 1, replay_of_run_id: id });
  expect(await exhausted()).toEqual([]);
  expect(await run(id)).toMatchObject({ status: 'failed', exhausted: false });
});

test('only codes of the policy are retried, and only for callers that do not wait', async () => {
  const world = await failing(9, { retry: { ...POLICY, on: ['INTERNAL_ERROR'] } });
  const id = await begun(world);
  expect(await world.run(id)).toMatchObject({ status: 'failed', attempt: 1, exhausted: true, failed_attempts: [] });
  const waited = await failing(1);
  const { status, body } = await waited.send('POST', '/later/plain/latest/run', {});
  expect([status, body.error.code]).toEqual([502, 'LLM_ERROR']);
  await expectNothingLeft(waited);
});

test('a call with a deadline is not tried again after it', async () => {
  const world = await failing(9);
  const id = await begun(world, 'plain', { 'x-platform-deadline-ms': '100000000000000' });
  expect((await world.run(id)).status).toBe('queued');
  const soon = await failing(9);
  const until = String(soon.deps.clock.now() + 8_000);
  const last = await begun(soon, 'plain', { 'x-platform-deadline-ms': until });
  expect(await soon.run(last)).toMatchObject({ status: 'failed', attempt: 1 });
});

test.for(NAMES)('%s: a run that waits for its next try can be cancelled', async (name) => {
  const world = await failing(9);
  const { deps, user, asked, tick, run, send } = world;
  const id = await begun(world, name);
  const cancelled = await send('DELETE', `/workspaces/${user.workspaceId}/runs/${id}`);
  expect(cancelled.body).toMatchObject({ status: 'cancelled', exhausted: false, next_attempt_at: null });
  await deps.clock.advance(100_000);
  await tick();
  expect([asked.length, (await run(id)).status]).toEqual([1, 'cancelled']);
  await expectNothingLeft(world);
});

test('a try that cannot begin ends the run with the reason', async () => {
  const world = await failing(9);
  const { deps, user, tick, run, send } = world;
  const id = await begun(world);
  await send('DELETE', `/workspaces/${user.workspaceId}/secrets/ANTHROPIC_API_KEY`);
  await deps.clock.advance(11_000);
  await tick();
  expect(await run(id)).toMatchObject({
    status: 'failed',
    error_code: 'LLM_KEY_REQUIRED',
    attempt: 2,
    exhausted: true,
  });
  await expectNothingLeft(world);
});

test('a price is charged once, and refunded if the run fails for good', async () => {
  for (const [failures, left] of [
    [2, 90],
    [3, 100],
  ] as const) {
    const world = await failing(failures, { is_public: true, price_per_call_cents: 10 });
    const { deps, call, tick, send } = world;
    const buyer = await addUser(deps, 'buyer');
    await grantCredits(deps, buyer.workspaceId, { id: 'g', cents: 100, description: 'made up' });
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' };
    await send('PUT', `/workspaces/${buyer.workspaceId}/secrets`, secret, {}, buyer);
    const { status } = await call({}, 'plain', buyer);
    expect(status).toBe(202);
    await settled(deps, world.idle());
    for (let minute = 0; minute < 4; minute++) {
      // A hold that has expired is not resolved while the run waits.
      expect((await balanceOf(deps, buyer.workspaceId)).cents).toBe(minute < 2 ? 90 : left);
      await deps.clock.advance(400_000);
      await tick();
    }
    const kinds = (await listEntries(deps, buyer.workspaceId, { limit: 9, offset: 0 })).map(({ kind }) => kind);
    expect(kinds).toEqual([...(failures === 3 ? ['refund'] : []), 'charge', 'top_up']);
  }
});

test('the time of a durable run is that of its tries', async () => {
  const world = await failing(2, { durable: { max_active_seconds: 60 } });
  const { deps, tick, run } = world;
  const id = await begun(world, 'lasting');
  for (let hour = 0; hour < 2; hour++) {
    await deps.clock.advance(3_600_000);
    await tick();
  }
  expect(await run(id)).toMatchObject({ status: 'completed', attempt: 3 });
});

test('watchers see the tries in one stream', async () => {
  const world = await failing(1, { retry: { max: 1, backoff_seconds: [1] } });
  const { deps, user, tick } = world;
  const id = await begun(world);
  await deps.clock.advance(2_000);
  await tick();
  const numbers = (await Array.fromAsync(liveEventsOf(deps, { workspaceId: user.workspaceId, runId: id }, 0))).map(
    ({ number }) => number,
  );
  expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
});

test.for(NAMES)('%s: no try is lost or made twice, wherever its process dies', async (name) => {
  const history = async (life: Life) => {
    const world = await failing(1);
    const { deps, asked, processOf, requestOf, appOf, runs, user } = world;
    const first = processOf(life);
    const request = requestOf(user, 'POST', `/later/${name}/latest/run`, {}, { prefer: 'respond-async' });
    const work = appOf(first.process)(request).then(first.idle);
    await settled(deps, Promise.race([work, first.death.died]));
    const where = `died at ${life.lifetime} ${life.lastOneHappens ? 'after' : 'before'}`;
    const next = processOf();
    for (let round = 0; round < 4; round++) {
      const recover = async () => {
        await sweepLostRuns(next.process, { all: true });
        await resumeRuns(next.process, { all: round === 0 });
        await next.idle();
      };
      await settled(deps, recover());
      await deps.clock.advance(61_000);
    }
    const [run] = await runHeads(deps, user.workspaceId);
    // The process died before it had accepted the call.
    if (run === undefined) return { asked: first.death.asked, status: undefined };
    const found = (await runs.findAll([`${run.sk.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')}`]))[0]!;
    expect(found.completedAt, where).not.toBeNull();
    expect(['completed', 'failed'], where).toContain(found.status);
    expect(asked.length, where).toBeLessThanOrEqual(3);
    await expectNothingLeft(world);
    return { asked: first.death.asked, status: found.status };
  };
  const whole = await history(IMMORTAL);
  expect(whole.status).toBe('completed');
  for (let lifetime = 1; lifetime <= whole.asked; lifetime += 2) {
    await history({ lifetime, lastOneHappens: lifetime % 4 === 1 });
  }
});
