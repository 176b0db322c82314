import { expect, test } from 'vitest';
import { markMove } from '#core/api/moves/mark.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { RunJob } from '#core/ports/deps.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { expectNothingLeft, gated } from '#test/helpers/queue-world.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Sent, settled, waitingWorld } from '#test/helpers/waiting-world.ts';
import { resumeRuns } from '../durable/resume.ts';

const HOUR = 3600_000;
const NAMES = ['plain', 'lasting'] as const;

test.for(NAMES)('%s: runs with the same key take turns, and say what holds them', async (name) => {
  const world = await gated({ limit: 1, key: '/customer' });
  const { user, send, run, open, begin, ticked, ended, seen } = world;
  const first = await begin({ customer: 'customer-42' }, {}, name);
  expect(first.status).toBe('running');
  await world.asked(1);
  const second = await begin({ customer: 'customer-42' }, {}, name);
  const urgent = await begin({ customer: 'customer-42' }, { 'x-platform-priority': '5' }, name);
  const key = expect.stringMatching(/^cus…[0-9a-f]{6}$/);
  const held_by = { rule: 'concurrency', key, limit: 1, priority: 0, until: expect.any(String) };
  expect(second).toMatchObject({ status: 'queued', held_by });
  expect(await run(second.run_id)).toMatchObject({ status: 'queued', started_at: null, run_at: null, held_by });
  expect((await run(first.run_id)).held_by).toBeNull();
  const listed = await send('GET', `/workspaces/${user.workspaceId}/runs?status=queued`);
  const byId = Object.fromEntries(listed.body.runs.map((each) => [each.id, each]));
  expect(byId).toMatchObject({ [urgent.run_id]: { held_by: { priority: 5 } }, [second.run_id]: { held_by } });
  expect(Object.keys(byId)).toHaveLength(2);
  expect(await world.waiting.count()).toBe(2);
  await open();
  await ended(first.run_id);
  await ticked(2);
  expect(await run(urgent.run_id)).toMatchObject({ status: 'running', held_by: null });
  expect((await run(second.run_id)).status).toBe('queued');
  await open();
  await ended(urgent.run_id);
  await ticked(3);
  await open();
  await ended(second.run_id);
  expect(await run(second.run_id)).toMatchObject({ held_by: null, error_code: null });
  expect(seen.most).toBe(1);
  await expectNothingLeft(world);
});

test('other keys and other workspaces have places of their own; no value is a key as well', async () => {
  const world = await gated({ limit: 1, key: '/order/customer' }, { more: { is_public: true } });
  const { deps, send, begin, gates } = world;
  const other = await addUser(deps, 'other');
  const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' };
  await send('PUT', `/workspaces/${other.workspaceId}/secrets`, secret, {}, other);
  const inputs = [{ order: { customer: 'a' } }, { order: { customer: 1 } }, { order: { customer: '1' } }, {}];
  for (const input of inputs) expect((await begin(input)).status).toBe('running');
  expect((await begin({ order: { customer: 'a' } }, {}, 'plain', other)).status).toBe('running');
  for (const input of [{ order: {} }, { order: { customer: null } }, { order: 'text' }]) {
    expect(await begin(input)).toMatchObject({ status: 'queued', held_by: { key: null } });
  }
  expect(await begin({ order: { customer: 'a' } })).toMatchObject({ held_by: { key: expect.stringMatching(/^…/) } });
  const refused = await world.call({}, 'plain', world.user, { order: { customer: ['a'] } });
  expect(refused.status).toBe(400);
  expect(refused.body.error.message).toMatch(/input\/order\/customer: must be a text/);
  // A limit counts the versions of an agent together.
  await send('POST', '/agents', {
    ...{ name: 'plain', type: 'prompt', description: 'x', prompt: 'Greet again.', is_public: true },
    concurrency: { limit: 1, key: '/order/customer' },
  });
  expect((await begin({ order: { customer: 'a' } })).status).toBe('queued');
  expect(gates.length).toBe(5);
});

test('reject refuses at once and names the limit', async () => {
  const world = await gated({ limit: 1, on_limit: 'reject' });
  const first = await world.begin();
  await world.asked(1);
  for (const headers of [{}, { prefer: '' }] as Sent[]) {
    const { status, body, headers: sent } = await world.call(headers);
    expect([status, body.error.code, sent.get('retry-after')]).toEqual([429, 'RATE_LIMITED', '1']);
    expect(body.error.message).toBe('The concurrency of later/plain allows 1 run at once, and rejects further calls.');
  }
  await world.open();
  await world.ended(first.run_id);
  const next = await world.begin();
  await world.open();
  await world.ended(next.run_id);
  await expectNothingLeft(world);
});

test.for(NAMES)('%s: replace ends what is in the way of the newest call', async (name) => {
  const world = await gated({ limit: 1, on_limit: 'replace' });
  const { run, begin, ticked, ended, open } = world;
  const first = await begin({}, {}, name);
  await world.asked(1);
  const second = await begin({}, {}, name);
  await world.deps.clock.advance(1);
  const third = await begin({}, {}, name);
  expect(await run(second.run_id)).toMatchObject({
    ...{ status: 'cancelled', error_code: 'RUN_CANCELLED', held_by: null },
    error_message: `The run was replaced by the run ${third.run_id}.`,
  });
  // The run in progress ends first.
  await open();
  await ended(first.run_id, 'cancelled');
  expect((await run(first.run_id)).error_message).toMatch(/^The run was replaced by the run [0-9a-f-]{36}\.$/);
  await ticked(2);
  await open();
  await ended(third.run_id);
  expect(world.seen.most).toBe(1);
  await expectNothingLeft(world);
});

test('a caller waits for its turn for half of its time', async () => {
  const world = await gated({ limit: 1 });
  const { deps, user, appOf, processOf, requestOf, asked, open, begin, ended } = world;
  const held = (seconds: number) => {
    const deadline = { 'x-platform-deadline-ms': String(deps.clock.now() + seconds * 1000) };
    return appOf(processOf().process)(requestOf(user, 'POST', '/later/plain/latest/run', {}, deadline));
  };
  const first = await begin();
  await asked(1);
  const late = await settled(deps, held(2));
  const { error } = (await late.json()) as { readonly error: { readonly message: string; readonly hint: string } };
  expect(late.status).toBe(429);
  expect(error.message).toMatch(/allows 1 run at once, and none ended in half of the time/);
  expect(error.hint).toMatch(/respond-async/);
  const answer = held(200);
  await world.until(async () => (await world.waitingEntries()) === 1);
  const queued = await begin();
  expect(queued.status).toBe('queued');
  await open();
  await ended(first.run_id);
  // The caller came before the queued run.
  await asked(2);
  expect((await world.run(queued.run_id)).status).toBe('queued');
  await open();
  expect((await settled(deps, answer)).status).toBe(200);
  await world.ticked(3);
  await open();
  await ended(queued.run_id);
  await expectNothingLeft(world);
});

test('a caller that waits for its turn begins nothing in a workspace that has frozen meanwhile', async () => {
  const world = await gated({ limit: 1, key: '/customer' });
  const { deps, user, appOf, processOf, requestOf, begin, asked, open } = world;
  await begin({ customer: 'a' });
  await asked(1);
  const request = requestOf(user, 'POST', '/later/plain/latest/run', { customer: 'a' });
  const answer = appOf(processOf().process)(request);
  await world.until(async () => (await world.waitingEntries()) === 1);
  await markMove(deps, user.workspaceId, { state: 'frozen', cell: 'b', id: deps.ids.uuid() });
  await open();
  const refused = await settled(deps, answer);
  expect([refused.status, await refused.text()]).toEqual([429, expect.stringContaining('moves to another cell')]);
  expect(world.asked).toHaveLength(1);
  await expectNothingLeft(world);
});

test('a newer call takes the turn of a caller that waits, if the agent says so', async () => {
  const world = await gated({ limit: 1, on_limit: 'replace' });
  const { deps, user, appOf, processOf, requestOf, open, begin, ended } = world;
  const first = await begin();
  await world.asked(1);
  const answer = appOf(processOf().process)(requestOf(user, 'POST', '/later/plain/latest/run', {}));
  await world.until(async () => (await world.waitingEntries()) === 1);
  const newest = await begin();
  const replaced = await settled(deps, answer);
  expect(replaced.status).toBe(409);
  expect(await replaced.json()).toMatchObject({ error: { code: 'RUN_CANCELLED' } });
  await open();
  await ended(first.run_id, 'cancelled');
  await world.ticked(2);
  await open();
  await ended(newest.run_id);
  await expectNothingLeft(world);
});

test('a run whose turn does not come in a day ends, and says why', async () => {
  const world = await gated({ limit: 1, key: '/customer' });
  const { deps, run, begin, open } = world;
  const tick = () => settled(deps, resumeRuns(world.processOf().process));
  const first = await begin({ customer: 'a' }, {}, 'lasting');
  await world.asked(1);
  const waits = await begin({ customer: 'a' }, {}, 'lasting');
  const hurried = await begin(
    { customer: 'a' },
    { 'x-platform-deadline-ms': String(deps.clock.now() + HOUR) },
    'lasting',
  );
  await deps.clock.advance(2 * HOUR);
  await tick();
  expect(await run(hurried.run_id)).toMatchObject({ status: 'timeout', error_code: 'TIMEOUT' });
  expect((await run(waits.run_id)).status).toBe('queued');
  await deps.clock.advance(23 * HOUR);
  await tick();
  expect(await run(waits.run_id)).toMatchObject({
    ...{ status: 'timeout', error_code: 'TIMEOUT', held_by: null },
    error_message: expect.stringMatching(
      /waited for its turn until its time was over: the concurrency of its agent allows 1/,
    ),
  });
  expect(deps.lines.filter(({ message }) => message === 'run ends without its turn')).toHaveLength(2);
  await open();
  await world.until(async () => (await run(first.run_id)).status !== 'running');
  await sweepLostRuns(deps, { all: true });
  await expectNothingLeft(world);
});

test('a run that waits for its turn can be cancelled, before and after it has come', async () => {
  const world = await gated({ limit: 1 });
  const { user, send, run, begin, open, ended, ticked } = world;
  const cancel = (id: string) => send('DELETE', `/workspaces/${user.workspaceId}/runs/${id}`);
  const first = await begin();
  await world.asked(1);
  const [second, third, fourth] = [await begin(), await begin(), await begin()];
  expect((await cancel(second.run_id)).body).toMatchObject({ status: 'cancelled', held_by: null });
  await open();
  await ended(first.run_id);
  // The third has got its place, and no process has begun it.
  expect(await run(third.run_id)).toMatchObject({ status: 'queued', held_by: null });
  expect((await cancel(third.run_id)).body.status).toBe('cancelled');
  await ticked(2);
  await open();
  await ended(fourth.run_id);
  await expectNothingLeft(world);
});

test('a run that waits for its next try leaves its place to others, and waits for its turn again', async () => {
  const failing = { fails: true };
  const gates: (() => void)[] = [];
  const world = await waitingWorld(
    {},
    {
      manifest: { concurrency: { limit: 1 }, retry: { max: 1, backoff_seconds: [10] } },
      async ask() {
        if (failing.fails) {
          failing.fails = false;
          throw new PlatformError('LLM_ERROR', 'The provider is down.');
        }
        await new Promise<void>((open) => gates.push(open));
      },
    },
  );
  const { deps, call, run, processOf } = world;
  const until = async (holds: () => Promise<boolean>) => {
    for (let count = 0; count < 500 && !(await holds()); count++) await settled(deps, deps.clock.sleep(20));
    expect(await holds()).toBe(true);
  };
  const ticked = () =>
    settled(deps, resumeRuns({ ...processOf().process, background: async (work) => void work.catch(() => {}) }));
  const failed = (await call({})).body.run_id;
  await until(async () => (await run(failed)).status === 'queued');
  const other = (await call({})).body;
  expect(other.status).toBe('running');
  await deps.clock.advance(11_000);
  await ticked();
  await until(async () => (await run(failed)).held_by !== null);
  gates.shift()!();
  await until(async () => (await run(other.run_id)).status === 'completed');
  await ticked();
  await until(async () => gates.length === 1);
  gates.shift()!();
  await until(async () => (await run(failed)).status === 'completed');
  expect(await run(failed)).toMatchObject({ attempt: 2, held_by: null });
  await expectNothingLeft(world);
});

test('a call for later waits for its turn at its time', async () => {
  const world = await gated({ limit: 1 });
  const { deps, run, begin, open, ended, ticked } = world;
  const later = await begin({}, { 'x-platform-delay-seconds': '60' }, 'lasting');
  expect(later).toMatchObject({ status: 'queued', run_at: expect.any(String) });
  const first = await begin({}, {}, 'lasting');
  await world.asked(1);
  await deps.clock.advance(61_000);
  await ticked(1);
  await world.until(async () => (await run(later.run_id)).held_by !== null);
  await open();
  await ended(first.run_id);
  await ticked(2);
  await open();
  await ended(later.run_id);
  await expectNothingLeft(world);
});

test('the host is asked to begin a run when its turn comes', async () => {
  const world = await gated({ limit: 1 });
  const { deps, user, processOf, appOf, requestOf, open, begin } = world;
  const jobs: RunJob[] = [];
  const { process } = processOf();
  const wakeRun = async (job: RunJob) => void jobs.push(job);
  const request = requestOf(user, 'POST', '/later/plain/latest/run', {}, { prefer: 'respond-async' });
  expect((await settled(deps, appOf({ ...process, wakeRun })(request))).status).toBe(202);
  await world.asked(1);
  const { run_id: runId } = await begin();
  await open();
  await world.until(() => jobs.length > 0);
  expect(jobs).toEqual([{ workspaceId: user.workspaceId, runId }]);
  await world.ticked(2);
  await open();
  await world.ended(runId);
});

test('a plan limits how many runs wait', async () => {
  const world = await gated({ limit: 1 }, { plan: { waiting_runs: 1 } });
  await world.begin();
  await world.asked(1);
  await world.begin();
  const { status, body } = await world.call({});
  expect([status, body.error.code]).toEqual([429, 'RATE_LIMITED']);
  expect(body.error.message).toMatch(/has 1 runs that wait/);
  expect(await world.waitingEntries()).toBe(1);
});

test('only a call that does not wait has a priority', async () => {
  const { call } = await gated({ limit: 1 });
  for (const [headers, message] of [
    [{ prefer: '', 'x-platform-priority': '1' }, /x-platform-priority: only a call that does not wait/],
    [{ 'x-platform-priority': '11' }, /x-platform-priority/],
    [{ 'x-platform-priority': '-11' }, /x-platform-priority/],
    [{ 'x-platform-priority': 'high' }, /x-platform-priority/],
    [{ 'x-platform-priority': '1.5' }, /x-platform-priority/],
  ] as [Sent, RegExp][]) {
    const { status, body } = await call(headers);
    expect([status, body.error.code]).toEqual([400, 'INVALID_INPUT']);
    expect(body.error.message).toMatch(message);
  }
});
