import { expect, test } from 'vitest';
import { admit, callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { IMMORTAL, type Life } from '#test/helpers/durable-histories.ts';
import { runHeads } from '#test/helpers/run-heads.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Sent, settled, waitingWorld } from '#test/helpers/waiting-world.ts';
import { resumeRuns } from './resume.ts';

const HOUR = 3600_000;
const at = (ms: number): string => new Date(ms).toISOString();

test('a call waits for its time, holds nothing, and then runs like any other', async () => {
  for (const name of ['plain', 'lasting']) {
    const { deps, user, asked, call, tick, run, waiting, send } = await waitingWorld();
    const now = deps.clock.now();
    const { status, body, headers } = await call({ 'x-platform-run-at': at(now + HOUR) }, name);
    expect(status).toBe(202);
    expect(body).toMatchObject({ status: 'queued', run_at: at(now + HOUR) });
    expect(headers.get('location')).toBe(`/workspaces/${user.workspaceId}/runs/${body.run_id}`);
    expect(await run(body.run_id)).toMatchObject({ status: 'queued', started_at: null, run_at: at(now + HOUR) });
    const workspace = (await findWorkspace(deps, user.workspaceId))!;
    expect(await callsInUse(deps, workspace)).toMatchObject({ concurrent_calls: 0, daily_calls: 0 });
    expect(await waiting.count()).toBe(1);
    await deps.clock.advance(HOUR / 2);
    await tick();
    await settled(deps, sweepLostRuns(deps, { all: true }));
    expect((await run(body.run_id)).status).toBe('queued');
    const listed = await send('GET', `/workspaces/${user.workspaceId}/runs?status=queued`);
    expect(listed.body.runs.map((each) => [each.id, each.run_at])).toEqual([[body.run_id, at(now + HOUR)]]);
    // The clock jumps.
    await deps.clock.advance(2 * HOUR);
    const begun = deps.clock.now();
    await tick();
    const ended = await run(body.run_id);
    expect(ended).toMatchObject({ status: 'completed', created_at: at(now), output_data: expect.anything() });
    expect(Date.parse(ended.started_at)).toBeGreaterThanOrEqual(begun);
    expect(ended.duration_ms).toBeLessThan(HOUR / 2);
    expect(asked.length).toBe(1);
    expect(await waiting.count()).toBe(0);
    await tick();
    expect(asked.length).toBe(1);
    expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
    expect((await callsInUse(deps, workspace)).concurrent_calls).toBe(0);
  }
});

test('the time is checked, and needs a call whose caller does not wait', async () => {
  const { deps, call, waiting } = await waitingWorld();
  const now = deps.clock.now();
  const refused: [Sent, RegExp][] = [
    [{ 'x-platform-run-at': at(now - 1000) }, /x-platform-run-at: must be in the future/],
    [{ 'x-platform-run-at': '2035-06-01T13:00:00' }, /x-platform-run-at: must be a time with an offset/],
    [{ 'x-platform-run-at': at(now + 31 * 24 * HOUR) }, /at most 30 days/],
    [{ 'x-platform-run-at': `${at(now + HOUR)}, ${at(now + HOUR)}` }, /x-platform-run-at/],
    [{ 'x-platform-delay-seconds': '0' }, /x-platform-delay-seconds/],
    [{ 'x-platform-delay-seconds': '2592001' }, /x-platform-delay-seconds/],
    [{ 'x-platform-delay-seconds': '1e3x' }, /x-platform-delay-seconds/],
    [{ 'x-platform-delay-seconds': '60', 'x-platform-run-at': at(now + HOUR) }, /cannot be combined/],
    [{ 'x-platform-delay-seconds': '60', prefer: 'wait=10' }, /does not wait can begin later/],
    [{ 'x-platform-delay-seconds': '60', 'x-platform-deadline-ms': String(now + 30_000) }, /deadline-ms/],
  ];
  for (const [headers, message] of refused) {
    const { status, body } = await call(headers);
    expect([status, body.error.code], JSON.stringify(headers)).toEqual([400, 'INVALID_INPUT']);
    expect(body.error.message).toMatch(message);
  }
  expect(await waiting.count()).toBe(0);
  // The same moment in another zone.
  const zoned = await call({ 'x-platform-run-at': '2035-06-01T22:30:00+09:00' });
  expect(zoned.body.run_at).toBe('2035-06-01T13:30:00.000Z');
});

test('a run that waits is cancelled at once, by its own workspace alone', async () => {
  const { deps, user, asked, call, tick, run, waiting, send } = await waitingWorld();
  const stranger = await addUser(deps, 'stranger');
  const { body } = await call({ 'x-platform-delay-seconds': '600' });
  const path = `/workspaces/${user.workspaceId}/runs/${body.run_id}`;
  const other = `/workspaces/${stranger.workspaceId}/runs/${body.run_id}`;
  for (const each of [path, other]) {
    expect([403, 404]).toContain((await send('GET', each, undefined, {}, stranger)).status);
    expect([403, 404]).toContain((await send('DELETE', each, undefined, {}, stranger)).status);
  }
  expect((await run(body.run_id)).status).toBe('queued');
  const cancelled = await send('DELETE', path);
  expect(cancelled.body).toMatchObject({ status: 'cancelled', error_code: 'RUN_CANCELLED', duration_ms: 0 });
  expect(await waiting.count()).toBe(0);
  expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
  const order = { pk: `WS#${user.workspaceId}#JOURNAL#${body.run_id.replaceAll('-', '')}`, sk: 'ORDER' };
  expect(await deps.runs.get(order)).toBeUndefined();
  await deps.clock.advance(HOUR);
  await tick();
  expect(asked).toEqual([]);
});

test('a plan limits the runs that wait', async () => {
  const { user, call, send } = await waitingWorld({ waiting_runs: 2 });
  const first = await call({ 'x-platform-delay-seconds': '600' });
  expect((await call({ 'x-platform-delay-seconds': '600' })).status).toBe(202);
  const third = await call({ 'x-platform-delay-seconds': '600' });
  expect([third.status, third.body.error.code]).toEqual([429, 'RATE_LIMITED']);
  await send('DELETE', `/workspaces/${user.workspaceId}/runs/${first.body.run_id}`);
  expect((await call({ 'x-platform-delay-seconds': '600' })).status).toBe(202);
});

test('a retry with the same key gets the same answer, and runs nothing more', async () => {
  const { deps, asked, call, tick } = await waitingWorld();
  const headers = { 'x-platform-delay-seconds': '2000000', 'idempotency-key': 'once' };
  const first = await call(headers);
  expect((await call(headers)).body).toEqual(first.body);
  await deps.clock.advance(2_000_000_000);
  await tick();
  expect(asked.length).toBe(1);
  const late = await call(headers);
  expect([late.body, late.headers.get('idempotent-replayed')]).toEqual([first.body, 'true']);
});

test('a run without room waits on for 15 minutes, another refusal ends it', async () => {
  const { deps, user, call, tick, run, waiting, send } = await waitingWorld({ concurrent_calls: 1 });
  const workspace = (await findWorkspace(deps, user.workspaceId))!;
  const { body } = await call({ 'x-platform-delay-seconds': '60' });
  const deadline = deps.clock.now() + 24 * HOUR;
  const other = { workspace, kind: 'llm', isPaid: false, isCounted: true, runId: deps.ids.uuid(), deadline } as const;
  const place = await admit(deps, other);
  await deps.clock.advance(61_000);
  await tick();
  expect((await run(body.run_id)).status).toBe('queued');
  await place.release();
  await deps.clock.advance(11_000);
  await tick();
  expect((await run(body.run_id)).status).toBe('completed');

  await admit(deps, other);
  const late = await call({ 'x-platform-delay-seconds': '60' });
  await deps.clock.advance(61_000);
  for (let minute = 0; minute < 16; minute++) {
    await tick();
    await deps.clock.advance(60_000);
  }
  expect(await run(late.body.run_id)).toMatchObject({ status: 'failed', error_code: 'RATE_LIMITED', duration_ms: 0 });

  const gone = await call({ 'x-platform-delay-seconds': '60' });
  await send('DELETE', `/workspaces/${user.workspaceId}/secrets/ANTHROPIC_API_KEY`);
  await deps.clock.advance(61_000);
  await tick();
  expect(await run(gone.body.run_id)).toMatchObject({ status: 'failed', error_code: 'LLM_KEY_REQUIRED' });
  expect(await waiting.count()).toBe(0);
});

test.for(['plain', 'lasting'])('%s begins at most once and is never lost, wherever its process dies', async (name) => {
  const history = async (life: Life) => {
    const { deps, user, asked, processOf, call, runs, waiting } = await waitingWorld();
    const { body } = await call({ 'x-platform-delay-seconds': '60' }, name);
    await deps.clock.advance(61_000);
    const first = processOf(life);
    await settled(deps, Promise.race([resumeRuns(first.process).then(first.idle), first.death.died]));
    const askedBefore = asked.length;
    const next = processOf();
    await settled(deps, next.recover());
    const run = (await runs.find(body.run_id))!;
    const where = `died at ${life.lifetime} ${life.lastOneHappens ? 'after' : 'before'}`;
    expect(run.completedAt, where).not.toBeNull();
    // A run that had begun is lost like any other.
    if (run.status !== 'completed') {
      expect([name, run.status, run.errorCode], where).toEqual(['plain', 'failed', 'INTERNAL_ERROR']);
      expect(asked.length, where).toBe(askedBefore);
    }
    if (name === 'plain') expect(asked.length, where).toBeLessThanOrEqual(1);
    expect(await waiting.count(), where).toBe(0);
    expect(await Array.fromAsync(dueLeases(deps, { all: true })), where).toEqual([]);
    expect(await Array.fromAsync(leasesOf(deps, { all: true })), where).toEqual([]);
    expect((await runHeads(deps, user.workspaceId)).length).toBe(1);
    return { asked: first.death.asked, status: run.status };
  };
  const whole = await history(IMMORTAL);
  expect(whole.status).toBe('completed');
  for (let lifetime = 1; lifetime <= whole.asked; lifetime += 2) {
    await history({ lifetime, lastOneHappens: lifetime % 4 === 1 });
  }
});

test('a durable loop that asks for a later run has one, wherever its process dies', async () => {
  const history = async (life: Life) => {
    const world = await waitingWorld({}, { first: { name: 'later', input: { delay_seconds: 3600 } } });
    const { deps, user, processOf, requestOf, appOf, waiting } = world;
    const first = processOf(life);
    const request = requestOf(user, 'POST', '/later/lasting/latest/run', {}, { prefer: 'respond-async' });
    await settled(deps, Promise.race([appOf(first.process)(request).then(first.idle), first.death.died]));
    const next = processOf();
    await settled(deps, next.recover());
    const heads = await runHeads(deps, user.workspaceId);
    const statuses = heads.map(({ status }) => status).sort();
    const where = `died at ${life.lifetime} ${life.lastOneHappens ? 'after' : 'before'}`;
    // The process died before it had accepted the call.
    if (statuses.length > 0) expect(statuses, where).toEqual(['completed', 'queued']);
    expect(await waiting.count(), where).toBe(statuses.length / 2);
    return first.death.asked;
  };
  const asked = await history(IMMORTAL);
  for (let lifetime = 1; lifetime <= asked; lifetime += 2) {
    await history({ lifetime, lastOneHappens: lifetime % 4 === 1 });
  }
});
