import { expect, test } from 'vitest';
import type { CalledChannel } from '#core/agents/channels/channel.ts';
import { CANARIES } from '#core/agents/channels/store.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { takeBackCanaries } from '#core/api/sweeps.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { TransactOperation } from '#core/ports/table.ts';
import { crashing, type Fuse } from '#test/helpers/crashing.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { emptyResult, endedWith, type NewRun, type Run } from '../run.ts';
import { RunStore } from '../store.ts';
import { channelScore } from '../usage/channel-calls.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests look into data of every shape.
type Any = any;

/** An agent with two versions, and a channel with a canary. */
async function setUp(canary: object = {}) {
  const deps = memoryDeps();
  const { key, workspaceId } = await addUser(deps, 'acme');
  const senderOf = (on: AllDeps) => {
    const app = createWebApp(on, routes, allHandlers(on));
    return async (method: string, path: string, json?: object): Promise<{ status: number; body: Any }> => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const body = json && JSON.stringify(json);
      const answer = await app(new Request(`http://127.0.0.1${path}`, { method, headers, body }));
      return { status: answer.status, body: await answer.json() };
    };
  };
  const send = senderOf(deps);
  const manifest = { name: 'bot', type: 'prompt', description: 'x' };
  const { body } = await send('POST', '/agents', { ...manifest, prompt: 'One.' });
  await send('POST', '/agents', { ...manifest, prompt: 'Two.' });
  const path = `/agents/${body.agent.id}/channels/prod`;
  const put = (more: object = {}) =>
    send('PUT', path, { version: 'v1', canary: { version: 'v2', percent: 10, ...canary, ...more } });
  expect((await put()).status).toBe(200);
  const end = async (status: EndStatus, times: number, isCanary = true) => {
    const channel = await channelOf(deps, workspaceId, isCanary);
    for (let i = 0; i < times; i++) await endRun(deps, workspaceId, channel, status);
  };
  return {
    ...{ deps, send, senderOf, path, put, end, workspaceId },
    sweep: (on: AllDeps = deps) => takeBackCanaries(on),
    show: async () => (await send('GET', path)).body,
    messages: async () => (await send('GET', '/messages')).body.messages as Any[],
    watched: async () => (await deps.main.query({ index: 'gsi2', pk: CANARIES })).items.length,
  };
}

async function channelOf({ main }: MemoryDeps, workspaceId: string, isCanary: boolean): Promise<CalledChannel> {
  const { items } = await main.query({ pk: `WS#${workspaceId}#AGENT#bot`, sk: { beginsWith: 'HEAD' } });
  const { id, revision } = (items[0]!.channels as Any).prod;
  return { name: 'prod', id, revision, isCanary };
}

async function endRun(deps: MemoryDeps, workspaceId: string, channel: CalledChannel, status: EndStatus): Promise<void> {
  const run: NewRun = {
    ...{ id: crypto.randomUUID(), agentId: AGENT, agentWorkspaceId: workspaceId, agentOrg: 'acme', agentName: 'bot' },
    ...{ agentVersion: channel.isCanary ? 'v2' : 'v1', engine: 'direct_llm', endpoint: 'run', triggerSource: 'api' },
    ...{ startedAt: deps.clock.now(), deadline: deps.clock.now() + 60_000, input: {}, channel },
  };
  const runs = new RunStore(deps, workspaceId);
  await runs.start(run);
  await runs.finish(run, { ...emptyResult(endedWith(undefined), null), status });
}

const AGENT = '00000000-0000-4000-8000-000000000001';

test('a canary is taken back once enough of its calls failed, and its workspace is told once', async () => {
  const { end, sweep, show, messages, watched } = await setUp();
  await end('completed', 17);
  await end('failed', 2);
  await sweep();
  expect(await show()).toMatchObject({ canary: { percent: 10, taken_back: null }, calls: { canary: { calls: 19 } } });
  // Two of 20 are as many as may fail.
  await end('completed', 1);
  await sweep();
  expect((await show()).canary.percent).toBe(10);
  await end('timeout', 1);
  await sweep();
  const channel = await show();
  expect(channel).toMatchObject({ version: 'v1', revision: 2, canary: { version: 'v2', percent: 0 } });
  expect(channel.canary.taken_back).toMatchObject({ why: 'error rate 0.14 over 21 calls', calls: 21, failed: 3 });
  expect(channel.history[0]).toMatchObject({ action: 'taken_back', by: null, why: 'error rate 0.14 over 21 calls' });
  for (let i = 0; i < 3; i++) await sweep();
  expect(await messages()).toMatchObject([{ level: 'warning', title: 'Canary v2 of bot@prod was taken back' }]);
  expect(await watched()).toBe(0);
});

test('calls of the other version, cancelled ones, and those before the last change do not count', async () => {
  const { end, put, sweep, show } = await setUp({ min_calls: 2 });
  await end('failed', 5, false);
  await end('cancelled', 5);
  await end('failed', 1);
  await sweep();
  expect(await show()).toMatchObject({
    calls: { version: { calls: 5, failed: 5, error_rate: 1 }, canary: { calls: 1, failed: 1, error_rate: 1 } },
  });
  await put({ percent: 50 });
  await end('failed', 1);
  await sweep();
  expect(await show()).toMatchObject({ canary: { percent: 50 }, calls: { canary: { calls: 1 } } });
  await end('failed', 1);
  await sweep();
  expect((await show()).canary.taken_back).toMatchObject({ calls: 2 });
});

test('a canary that may fail always stays', async () => {
  const { end, sweep, show, watched } = await setUp({ max_error_rate: 1, min_calls: 1 });
  await end('failed', 3);
  await sweep();
  expect((await show()).canary.percent).toBe(10);
  expect(await watched()).toBe(0);
});

/** Lets something happen right before the first write of an agent's channels. */
function before(deps: MemoryDeps, happens: () => Promise<unknown>): MemoryDeps {
  let isDone = false;
  const main = new Proxy(deps.main, {
    get(target, name) {
      const method = Reflect.get(target, name).bind(target);
      if (name !== 'transact') return method;
      return async (operations: readonly TransactOperation[]) => {
        const isChange = operations.some((each) => 'key' in each && each.key.sk === 'HEAD');
        if (isChange && !isDone) {
          isDone = true;
          await happens();
        }
        return method(operations);
      };
    },
  });
  return { ...deps, main };
}

test('a canary is taken back once the mean of enough online scores is too low', async () => {
  const { deps, workspaceId, end, put, sweep, show, messages } = await setUp({ max_error_rate: 1, min_calls: 3 });
  expect((await show()).canary).toMatchObject({ min_score: null });
  await put({ max_error_rate: 1, min_calls: 3, min_score: 0.7 });
  const score = async (value: number, isCanary = true) => {
    const channel = await channelOf(deps, workspaceId, isCanary);
    const run = { channel, workspaceId, agentName: 'bot', startedAt: isoTime(deps.clock.now()) } as Run;
    await deps.runs.transact([channelScore(run, value)!]);
  };
  await end('completed', 5);
  await score(0.7);
  await score(0.7);
  for (let i = 0; i < 9; i++) await score(0.1, false);
  await sweep();
  // As much as it must have.
  await score(0.7);
  await sweep();
  expect(await show()).toMatchObject({
    calls: { canary: { calls: 5, scored: 3, mean_score: 0.7 }, version: { calls: 0, scored: 9, mean_score: 0.1 } },
    canary: { percent: 10, min_score: 0.7, taken_back: null },
  });
  await score(0.5);
  await sweep();
  const why = 'mean score 0.65 over 4 scored runs, less than 0.7';
  expect(await show()).toMatchObject({
    canary: { percent: 0, taken_back: { why, calls: 5, failed: 0, mean_score: 0.65 } },
    history: [{ action: 'taken_back', by: null, why }, {}, {}],
  });
  await sweep();
  expect((await messages()).map(({ body }) => body)).toEqual([expect.stringContaining(why)]);
});

test('a canary without scores, or with good ones, stays', async () => {
  const { end, sweep, show, watched } = await setUp({ max_error_rate: 1, min_calls: 1, min_score: 1 });
  await end('completed', 5);
  await sweep();
  expect((await show()).canary).toMatchObject({ percent: 10, taken_back: null });
  expect(await watched()).toBe(1);
});

test('a promotion at the same moment holds, and nobody is told', async () => {
  const { deps, end, sweep, show, send, path, messages } = await setUp({ min_calls: 1 });
  await end('failed', 1);
  await sweep(before(deps, () => send('POST', `${path}/promote`, {})));
  expect(await show()).toMatchObject({ version: 'v2', canary: null, revision: 2 });
  await sweep();
  expect(await messages()).toEqual([]);
});

test('a way back at the same moment refuses the promotion', async () => {
  const { deps, end, sweep, show, senderOf, path } = await setUp({ min_calls: 1 });
  await end('failed', 1);
  const late = senderOf(before(deps, () => sweep()));
  const { status, body } = await late('POST', `${path}/promote`, {});
  expect([status, body.error.code]).toEqual([409, 'CONFLICT']);
  expect(body.error.message).toContain('was taken back at');
  expect(await show()).toMatchObject({ version: 'v1', canary: { percent: 0 } });
});

test('two sweeps at once take it back once', async () => {
  const { end, sweep, show, messages } = await setUp({ min_calls: 1 });
  await end('failed', 1);
  await Promise.all([sweep(), sweep(), sweep()]);
  expect((await show()).revision).toBe(2);
  expect(await messages()).toHaveLength(1);
});

test.each([false, true])(
  'a sweep that dies at any call leaves what the next one completes (after it: %s)',
  async (isAfter) => {
    for (let callsLeft = 1; ; callsLeft++) {
      const { deps, end, sweep, show, messages, watched } = await setUp({ min_calls: 1 });
      await end('failed', 1);
      await deps.endedRuns!.settle();
      const fuse: Fuse = { callsLeft, isAfter };
      await sweep({ ...deps, main: crashing(deps.main, fuse) }).catch(() => {});
      await sweep();
      expect(await show()).toMatchObject({ revision: 2, canary: { percent: 0 } });
      expect(await messages()).toHaveLength(1);
      expect(await watched()).toBe(0);
      if (fuse.callsLeft > 0) return;
    }
  },
);

test('an interrupted deletion of an agent leaves no channel of a version that is gone', async () => {
  const { deps, send, senderOf, path } = await setUp();
  const id = path.split('/')[2]!;
  const fuse: Fuse = { callsLeft: 20, isAfter: true };
  await senderOf({ ...deps, main: crashing(deps.main, fuse) })('DELETE', `/agents/${id}?mode=all_versions`).catch(
    () => {},
  );
  const left = (await send('GET', '/agents?name=bot')).body as { id: string; version: string }[];
  for (const { id: other, version } of left) {
    const { channels } = (await send('GET', `/agents/${other}/channels`)).body;
    for (const channel of channels) expect([channel.version, channel.canary?.version]).toContain(version);
  }
});
