import { expect, test } from 'vitest';
import { callsInUse, leasesOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import type { RunJob } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { IMMORTAL, type Life } from '#test/helpers/durable-histories.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Sent, settled, waitingWorld } from '#test/helpers/waiting-world.ts';
import { resumeRuns } from '../durable/resume.ts';

const HOUR = 3600_000;
const NAMES = ['plain', 'lasting'] as const;

/** A world whose model answers when it is let. */
async function gated(
  concurrency: object | null,
  { plan = {}, more = {} }: { plan?: Record<string, number>; more?: object } = {},
) {
  const gates: (() => void)[] = [];
  let atOnce = 0;
  const seen = { most: 0 };
  const world = await waitingWorld(plan, {
    manifest: { ...(concurrency && { concurrency }), ...more },
    async ask() {
      atOnce += 1;
      seen.most = Math.max(seen.most, atOnce);
      await new Promise<void>((open) => gates.push(open));
      atOnce -= 1;
    },
  });
  const { deps, call, run, tick } = world;
  /** Lets time pass until something holds. */
  const until = async (holds: () => boolean | Promise<boolean>) => {
    for (let count = 0; count < 2000 && !(await holds()); count++) await settled(deps, deps.clock.sleep(20));
    expect(await holds()).toBe(true);
  };
  const asked = (count: number) => until(() => world.asked.length >= count);
  const open = async () => {
    await until(() => gates.length > 0);
    gates.shift()!();
  };
  const begin = async (input: object = {}, headers: Sent = {}, name = 'plain', by = world.user) => {
    const { status, body } = await call(headers, name, by, input);
    expect(status).toBe(202);
    // The order of calls in one millisecond is not defined.
    await deps.clock.advance(1);
    return body;
  };
  /** Begins what may begin, and waits until so many requests have reached the model. */
  const ticked = async (count: number) => {
    const { process } = world.processOf();
    await settled(deps, resumeRuns({ ...process, background: async (work) => void work.catch(() => {}) }));
    await asked(count);
  };
  /** Number of entries that wait for a place. */
  const waitingEntries = async () => {
    const [head] = await Array.fromAsync(queryAll(deps.runs, { pk: `WS#${world.user.workspaceId}#RUN` }));
    const state = await deps.runs.get({ pk: `WS#${world.user.workspaceId}#QUEUE#${head!.queue}`, sk: 'STATE' });
    return (state?.waiting as number | undefined) ?? 0;
  };
  const ended = (id: string, status = 'completed') => until(async () => (await run(id)).status === status);
  return { ...world, gates, seen, until, asked, open, begin, ticked, waitingEntries, ended, tick };
}
type World = Awaited<ReturnType<typeof gated>>;

/** All runs have ended, and nothing is left of their waiting. */
async function expectNothingLeft({ deps, user, waiting }: Pick<World, 'deps' | 'user' | 'waiting'>) {
  expect(await waiting.count()).toBe(0);
  expect(await Array.fromAsync(dueLeases(deps, { all: true }))).toEqual([]);
  expect(await Array.fromAsync(leasesOf(deps, { all: true }))).toEqual([]);
  const workspace = (await findWorkspace(deps, user.workspaceId))!;
  expect((await callsInUse(deps, workspace)).concurrent_calls).toBe(0);
  for (const head of await Array.fromAsync(queryAll(deps.runs, { pk: `WS#${user.workspaceId}#RUN` }))) {
    if (head.queue === undefined) continue;
    const items = await Array.fromAsync(queryAll(deps.runs, { pk: `WS#${user.workspaceId}#QUEUE#${head.queue}` }));
    expect(items.map(({ sk }) => sk)).toEqual(['STATE']);
    expect(items[0]).toMatchObject({ active: 0 });
    expect(items[0]!.waiting ?? 0).toBe(0);
  }
}

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
          const { PlatformError } = await import('#core/base/errors.ts');
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

test('a rate lets so many runs begin in each window, and others in the next ones', async () => {
  const world = await gated(null, { more: { rate: { count: 2, seconds: 60, key: '/account' } } });
  const { deps, run, begin, gates, ticked } = world;
  await deps.clock.advance(60_000 - (deps.clock.now() % 60_000));
  const window = Math.floor(deps.clock.now() / 60_000) * 60_000;
  const calls = [];
  for (let count = 0; count < 5; count++) calls.push(await begin({ account: 'a' }));
  expect(calls.map(({ status }) => status)).toEqual(['running', 'running', 'queued', 'queued', 'queued']);
  const at = (windows: number) => new Date(window + windows * 60_000).toISOString();
  expect(calls.slice(2).map(({ held_by }) => held_by)).toMatchObject([
    { rule: 'rate', limit: 2, seconds: 60, begins_at: at(1) },
    { rule: 'rate', begins_at: at(1) },
    { rule: 'rate', begins_at: at(2) },
  ]);
  expect((await begin({ account: 'b' })).status).toBe('running');
  const refused = await world.call({ prefer: '' }, 'plain', world.user, { account: 'a' });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'RATE_LIMITED']);
  expect(refused.body.error.message).toMatch(/The rate of later\/plain lets 2 runs begin in 60 seconds/);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(60);
  await world.asked(3);
  await ticked(3);
  // The process was away: what is late begins no faster.
  await deps.clock.advance(10 * 60_000);
  await ticked(5);
  const late = await Promise.all(calls.slice(2).map(({ run_id }) => run(run_id)));
  expect(late.map(({ status }) => status).sort()).toEqual(['queued', 'running', 'running']);
  const [waits] = late.filter(({ status }) => status === 'queued');
  expect(Date.parse(waits!.held_by!.begins_at!)).toBeGreaterThan(deps.clock.now());
  await deps.clock.advance(61_000);
  await ticked(6);
  for (const open of gates) open();
  for (const { run_id } of calls) await world.ended(run_id);
  await world.until(async () => (await Array.fromAsync(leasesOf(deps, { all: true }))).length === 0);
  await expectNothingLeft(world);
});

test('a run keeps its place while it waits for its rate, and gives it back when it is cancelled', async () => {
  const world = await gated({ limit: 1 }, { more: { rate: { count: 1, seconds: 600 } } });
  const { deps, user, send, run, begin, open, ended, ticked } = world;
  const first = await begin();
  await world.asked(1);
  const [second, third] = [await begin(), await begin()];
  await open();
  await ended(first.run_id);
  await settled(deps, resumeRuns(world.processOf().process));
  expect((await run(second.run_id)).held_by).toMatchObject({ rule: 'rate' });
  expect((await run(third.run_id)).held_by).toMatchObject({ rule: 'concurrency' });
  await send('DELETE', `/workspaces/${user.workspaceId}/runs/${second.run_id}`);
  await settled(deps, resumeRuns(world.processOf().process));
  expect((await run(third.run_id)).held_by).toMatchObject({ rule: 'rate' });
  await deps.clock.advance(1_300_000);
  await sweepQueues(deps);
  await ticked(2);
  await open();
  await ended(third.run_id);
  await expectNothingLeft(world);
});

test('of the calls that follow each other, only the last one runs', async () => {
  const world = await gated(null, { more: { debounce: { seconds: 30, key: '/order' } } });
  const { deps, run, begin, open, ended, ticked } = world;
  const calls = [];
  for (let count = 0; count < 3; count++) {
    calls.push(await begin({ order: 'a' }));
    await deps.clock.advance(20_000);
    await world.tick();
  }
  const [first, second, last] = calls as [(typeof calls)[0], (typeof calls)[0], (typeof calls)[0]];
  expect(first).toMatchObject({ status: 'queued', held_by: { rule: 'debounce', seconds: 30 } });
  expect(new Set(calls.map(({ run_id }) => run_id)).size).toBe(3);
  for (const [each, by] of [
    [first, second],
    [second, last],
  ] as const) {
    expect(await run(each.run_id)).toMatchObject({
      ...{ status: 'cancelled', error_code: 'RUN_CANCELLED' },
      error_message: `The run was replaced by the run ${by.run_id}.`,
    });
  }
  const other = await begin({ order: 'b' });
  // Whose caller waits runs at once.
  const held = world.appOf(world.processOf().process)(
    world.requestOf(world.user, 'POST', '/later/plain/latest/run', { order: 'a' }),
  );
  await open();
  expect((await settled(deps, held)).status).toBe(200);
  await deps.clock.advance(31_000);
  await ticked(3);
  await open();
  await open();
  await ended(last.run_id);
  await ended(other.run_id);
  // The next call is the first one of another series.
  const next = await begin({ order: 'a' });
  await deps.clock.advance(31_000);
  await ticked(4);
  await open();
  await ended(next.run_id);
  expect((await run(last.run_id)).status).toBe('completed');
});

test('the host is asked to begin a run when its turn comes', async () => {
  const world = await gated({ limit: 1 });
  const { deps, user, processOf, appOf, requestOf, open, begin } = world;
  const jobs: RunJob[] = [];
  const { process } = processOf();
  const handOver = { wakeRun: async (job: RunJob) => void jobs.push(job) };
  const request = requestOf(user, 'POST', '/later/plain/latest/run', {}, { prefer: 'respond-async' });
  expect((await settled(deps, appOf({ ...process, handOver })(request))).status).toBe(202);
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

test.for([
  ['plain', 'queue'],
  ['lasting', 'queue'],
  ['plain', 'replace'],
] as const)(
  '%s, %s: no run is lost, stuck or too many, wherever a process dies',
  { timeout: 300_000 },
  async ([name, on_limit]) => {
    const history = async (life: Life) => {
      let [atOnce, most, lives] = [0, 0, 1];
      const world = await waitingWorld(
        {},
        {
          manifest: { concurrency: { limit: 1, on_limit } },
          async ask() {
            const life = lives;
            atOnce += 1;
            most = Math.max(most, atOnce);
            await world.deps.clock.sleep(100);
            if (life === lives) atOnce -= 1;
          },
        },
      );
      const { deps, user, processOf, requestOf, appOf, runs } = world;
      const mortal = processOf(life);
      const app = appOf(mortal.process);
      const statuses: number[] = [];
      const calls = async () => {
        for (let count = 0; count < 3; count++) {
          const request = requestOf(user, 'POST', `/later/${name}/latest/run`, {}, { prefer: 'respond-async' });
          statuses.push((await app(request)).status);
        }
        await mortal.idle();
        await resumeRuns(mortal.process);
        await mortal.idle();
      };
      await settled(deps, Promise.race([calls(), mortal.death.died]));
      // What the dead process asked of the model is asked no more.
      lives += 1;
      atOnce = 0;
      const next = processOf();
      for (let round = 0; round < 6; round++) {
        const recover = async () => {
          await sweepLostRuns(next.process, { all: round === 0 });
          await sweepQueues(next.process);
          await resumeRuns(next.process, { all: round === 0 });
          await next.idle();
        };
        await settled(deps, recover());
        await deps.clock.advance(61_000);
      }
      const where = `died at ${life.lifetime} ${life.lastOneHappens ? 'after' : 'before'}`;
      const heads = await Array.fromAsync(queryAll(deps.runs, { pk: `WS#${user.workspaceId}#RUN` }));
      const ids = heads.map(({ sk }) => sk.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'));
      const ends = (await runs.findAll(ids)).map(({ status, errorCode }) => (status === 'failed' ? errorCode : status));
      expect(heads.length, where).toBeGreaterThanOrEqual(statuses.filter((status) => status === 202).length);
      // A run in progress that is not durable is lost with its process.
      const allowed = [
        'completed',
        ...(name === 'plain' ? ['INTERNAL_ERROR'] : []),
        ...(on_limit === 'replace' ? ['cancelled'] : []),
      ];
      for (const end of ends) expect(allowed, `${where}: ${ends}`).toContain(end);
      expect(most, where).toBeLessThanOrEqual(1);
      await expectNothingLeft(world);
      return { asked: mortal.death.asked, ends };
    };
    const whole = await history(IMMORTAL);
    expect(whole.ends).toHaveLength(3);
    for (let lifetime = 1; lifetime <= whole.asked; lifetime += 3) {
      await history({ lifetime, lastOneHappens: lifetime % 2 === 1 });
    }
  },
);
