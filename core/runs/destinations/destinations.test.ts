import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findWorkspace, newWorkspaceOperations } from '#core/accounts/workspaces/store.ts';
import { deliveryListeners } from '#core/api/listeners.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import type { Table } from '#core/ports/table.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import { emptyResult, endedWith, LOST, type NewRun, type RunResult } from '../run.ts';
import { RunStore } from '../store.ts';
import { sweepLostRuns } from '../sweep.ts';
import { announceEnd, announceEnds } from './announce.ts';
import type { Destination } from './destination.ts';
import { MAX_OUTPUT_BYTES } from './message.ts';
import { noteOperation } from './notes.ts';
import { DestinationStore } from './store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const LIMIT_MS = 60_000;

let receiver: Receiver;
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.close());

async function setUp(...settings: Partial<Destination>[]) {
  const deps: MemoryDeps = memoryDeps({ outboundHosts: ['127.0.0.1'] });
  const createdAt = new Date(deps.clock.now()).toISOString();
  const workspace = { id: WORKSPACE, slug: 'acme', name: 'Acme', type: 'team', createdAt } as const;
  await deps.main.transact(newWorkspaceOperations(crypto.randomUUID(), workspace));
  const store = new DestinationStore(deps, WORKSPACE);
  const destinations = settings.map(
    (each, n): Destination => ({
      id: crypto.randomUUID(),
      url: `${receiver.url}/ok${n}`,
      format: 'standard',
      enabled: true,
      events: [],
      agents: [],
      statuses: [],
      triggerSources: [],
      includeSubCalls: false,
      includeOutput: false,
      disabledReason: null,
      createdAt,
      updatedAt: createdAt,
      ...each,
    }),
  );
  await store.change(() => destinations);
  const start = async (changes: Partial<NewRun> = {}): Promise<NewRun> => {
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
      isAnnounced: true,
      input: { question: 'why?' },
      ...changes,
    };
    await new RunStore(deps, WORKSPACE).start(run);
    return run;
  };
  const end = async (run: NewRun, result: Partial<RunResult> = {}) => {
    await new RunStore(deps, WORKSPACE).finish(run, {
      ...emptyResult(endedWith(undefined), run.input),
      ...result,
    });
    return { workspaceId: WORKSPACE, runId: run.id };
  };
  const sweep = async (afterMs: number) => {
    await deps.clock.advance(afterMs);
    await announceEnds(deps);
    await sweepDeliveries(deps, deliveryListeners(deps));
  };
  const log = (n = 0) => store.listLog(destinations[n]!.id, { limit: 100, offset: 0 });
  return { deps, store, destinations, start, end, sweep, log };
}

describe('the end of a run', () => {
  test('is announced by the sweep if its process died before it did', async () => {
    const { start, end, sweep, log } = await setUp({});
    const run = await start();
    await end(run);
    await sweep(10_000);
    expect(receiver.at('/')).toEqual([]);
    await sweep(10_000);
    await sweep(10_000);
    expect(receiver.at('/ok0').map(({ body }) => body.data.run_id)).toEqual([run.id]);
    expect(await log()).toMatchObject([{ runId: run.id, status: 'delivered', tries: 1 }]);
  });

  test('is announced if the host of the run died', async () => {
    const { deps, start, sweep } = await setUp({});
    const run = await start({ webhookUrl: `${receiver.url}/call` });
    await deps.clock.advance(LIMIT_MS + 31_000);
    expect(await sweepLostRuns(deps)).toBe(1);
    await sweep(20_000);
    for (const path of ['/ok0', '/call']) {
      expect(receiver.at(path).map(({ body }) => body)).toMatchObject([
        { type: 'run.failed', data: { run_id: run.id, status: 'failed', error_code: LOST.errorCode } },
      ]);
    }
  });

  test('of a cancelled run is one that failed', async () => {
    const { deps, start, end } = await setUp({ statuses: ['cancelled'] });
    const run = await start();
    await new RunStore(deps, WORKSPACE).requestCancel(run.id);
    await announceEnd(deps, await end(run));
    expect(receiver.at('/ok0').map(({ body }) => [body.type, body.data.status])).toEqual([['run.failed', 'cancelled']]);
  });

  test('is announced once, also by several processes, and with the same id by each', async () => {
    const { deps, start, end } = await setUp({}, {});
    const place = await end(await start());
    await Promise.all([announceEnd(deps, place), announceEnd(deps, place), announceEnds(deps)]);
    await announceEnd(deps, place);
    expect(receiver.at('/ok0')).toHaveLength(1);
    expect(receiver.at('/ok1')).toHaveLength(1);
    const [first, second] = [receiver.at('/ok0')[0]!, receiver.at('/ok1')[0]!];
    expect(first.headers['webhook-id']).not.toBe(second.headers['webhook-id']);
  });

  test('survives a crash between any two of its writes', async () => {
    for (let crashAt = 1; crashAt <= 8; crashAt++) {
      const { deps, start, end, sweep, log } = await setUp({}, {});
      const place = await end(await start({ webhookUrl: `${receiver.url}/call${crashAt}` }));
      const left = { count: crashAt };
      await announceEnd(dying(deps, left), place);
      await sweep(20_000);
      await sweep(60_000);
      expect(await log(0), `${crashAt}`).toMatchObject([{ status: 'delivered' }]);
      expect(await log(1), `${crashAt}`).toMatchObject([{ status: 'delivered' }]);
      // A message whose outcome could not be recorded is sent again, with the same id.
      const ids = receiver.at(`/call${crashAt}`).map(({ headers }) => headers['webhook-id']);
      expect(new Set(ids).size, `${crashAt}`).toBe(1);
    }
  });

  test('of a sub-call goes only to destinations that ask for sub-calls', async () => {
    const { deps, start, end } = await setUp({}, { includeSubCalls: true });
    const parent = crypto.randomUUID();
    await announceEnd(deps, await end(await start({ parentRunId: parent, rootRunId: parent })));
    expect(receiver.at('/ok0')).toEqual([]);
    expect(receiver.at('/ok1')).toMatchObject([{ body: { data: { parent_run_id: parent } } }]);
  });

  test('has an output of at most 32 KB', async () => {
    const { deps, start, end } = await setUp({ includeOutput: true });
    const fits = 'x'.repeat(MAX_OUTPUT_BYTES - 2);
    await announceEnd(deps, await end(await start(), { output: fits }));
    await announceEnd(deps, await end(await start(), { output: `${fits}y` }));
    expect(receiver.at('/ok0').map(({ body }) => [body.data.output, body.data.output_omitted])).toEqual([
      [fits, false],
      [null, true],
    ]);
  });

  test('is not noted for a run that has no destinations', async () => {
    const { deps, start, end } = await setUp({});
    await announceEnd(deps, await end(await start({ isAnnounced: undefined })));
    await deps.clock.advance(MINUTE_MS);
    await announceEnds(deps);
    expect(receiver.at('/')).toEqual([]);
  });
});

/** Ports of a process that dies at a write to the main table or to the notes. */
function dying(deps: MemoryDeps, left: { count: number }): MemoryDeps {
  const mortal = (table: Table): Table =>
    new Proxy(table, {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          if (['update', 'transact', 'delete'].includes(String(name)) && --left.count <= 0) {
            throw new Error('the process died');
          }
          return value.apply(target, args);
        };
      },
    });
  return { ...deps, main: mortal(deps.main), runs: mortal(deps.runs) };
}

describe('a destination', () => {
  test('gets a refused message again after growing delays, six times in all', async () => {
    const { deps, start, end, sweep, log } = await setUp({ url: `${receiver.url}/503/down` });
    await announceEnd(deps, await end(await start()));
    const delays = [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 6 * HOUR_MS];
    for (const [n, delay] of delays.entries()) {
      expect(await log()).toMatchObject([{ status: 'pending', tries: n + 1, problem: 'it answered 503' }]);
      await sweep(delay - 1);
      expect(receiver.at('/503')).toHaveLength(n + 1);
      await sweep(2);
      expect(receiver.at('/503')).toHaveLength(n + 2);
    }
    expect(await log()).toMatchObject([{ status: 'failed', tries: 6, problem: 'it answered 503', nextTryAt: null }]);
    await sweep(24 * HOUR_MS);
    expect(receiver.at('/503')).toHaveLength(6);
    expect(new Set(receiver.at('/503').map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  });

  test('that is disabled, moved or deleted gets no further try at its old address', async () => {
    const url = `${receiver.url}/503/old`;
    const { deps, store, destinations, start, end, sweep, log } = await setUp({ url }, { url }, { url });
    await announceEnd(deps, await end(await start()));
    expect(receiver.at('/503')).toHaveLength(3);
    const [first, second] = destinations as [Destination, Destination];
    await store.change(() => [
      { ...first, enabled: false },
      { ...second, url: `${receiver.url}/moved` },
    ]);
    await sweep(2 * MINUTE_MS);
    expect(receiver.at('/503')).toHaveLength(3);
    expect(receiver.at('/moved')).toHaveLength(1);
    expect(await log(0)).toMatchObject([{ status: 'failed', problem: 'the destination is disabled' }]);
    expect(await log(1)).toMatchObject([{ status: 'delivered' }]);
    expect(await log(2)).toMatchObject([{ status: 'failed', problem: 'the destination was deleted' }]);
  });

  test('is disabled after twenty deliveries in a row failed, and a success resets the count', async () => {
    const { deps, store, destinations, start, end } = await setUp({});
    const change = (changes: Partial<Destination>) => store.change(([one]) => [{ ...one!, ...changes }]);
    // Redirects to another scheme are final, so each delivery ends at its first try.
    const failing = { url: 'http://127.0.0.2/never' };
    const run = async (times: number) => {
      for (let n = 0; n < times; n++) await announceEnd(deps, await end(await start()));
      return (await store.list())[0]!;
    };
    await change(failing);
    expect(await run(19)).toMatchObject({ enabled: true });
    await change({ url: destinations[0]!.url });
    expect(await run(1)).toMatchObject({ enabled: true });
    await change(failing);
    expect(await run(19)).toMatchObject({ enabled: true });
    expect((await findWorkspace(deps, WORKSPACE))!.destinations).toBe('top_level');
    const disabled = await run(1);
    expect(disabled.enabled).toBe(false);
    expect(disabled.disabledReason).toMatch(/^20 deliveries in a row failed, the last because of this: /);
    expect((await findWorkspace(deps, WORKSPACE))!.destinations).toBeUndefined();
  });

  test('keeps its log for seven days', async () => {
    const { deps, start, end, log } = await setUp({});
    await announceEnd(deps, await end(await start()));
    await deps.clock.advance(7 * 24 * HOUR_MS - 1000);
    expect(await log()).toHaveLength(1);
    await deps.clock.advance(2000);
    expect(await log()).toEqual([]);
  });

  test('of a workspace with a slow receiver does not delay the others', async () => {
    const { deps, start, end } = await setUp({ url: `${receiver.url}/503/slow` });
    for (let n = 0; n < 70; n++) await announceEnd(deps, await end(await start()));
    await deps.clock.advance(MINUTE_MS + 1);
    await sweepDeliveries(deps, deliveryListeners(deps));
    // 64 of them; the rest is for the next sweep.
    expect(receiver.at('/503')).toHaveLength(70 + 64);
  });
});

test('a workspace says which of its runs are announced', async () => {
  const { deps, store, destinations } = await setUp({}, { includeSubCalls: true });
  const noted = async () => (await findWorkspace(deps, WORKSPACE))!.destinations;
  expect(await noted()).toBe('all');
  await store.change(() => [destinations[0]!]);
  expect(await noted()).toBe('top_level');
  await store.change(() => [{ ...destinations[0]!, enabled: false }]);
  expect(await noted()).toBeUndefined();
});

test('a drop of scores is posted to those who want it, whichever run showed it', async () => {
  const drop = { version: 2, mean: 0.4, runs: 20, before: { version: 1, mean: 0.9, runs: 60 } };
  const { deps, start, end, sweep, log } = await setUp(
    { events: ['score.dropped'], triggerSources: ['schedule'] },
    { events: ['run.completed'] },
    { agents: ['acme/other'] },
    { statuses: ['failed'] },
  );
  const run = await start({ isAnnounced: undefined as never, agentVersion: 'v2', parentRunId: crypto.randomUUID() });
  const place = await end(run);
  const note = noteOperation({ ...place, about: 'score_dropped' }, { at: deps.clock.now(), ttl: 4_000_000_000, drop });
  await deps.runs.transact([note]);
  for (let n = 0; n < 2; n++) await sweep(MINUTE_MS);
  expect(receiver.at('/ok0').map(({ body }) => body)).toEqual([
    {
      type: 'score.dropped',
      timestamp: expect.any(String),
      data: {
        ...{ run_id: run.id, workspace_id: WORKSPACE, agent: 'acme/probe', agent_version: 'v2', tenant_id: null },
        ...{ mean: 0.4, runs: 20, before: { agent_version: 'v1', mean: 0.9, runs: 60 } },
      },
    },
  ]);
  for (const n of [1, 2, 3]) expect(receiver.at(`/ok${n}`)).toEqual([]);
  expect(await log()).toMatchObject([{ event: 'score.dropped', status: 'delivered' }]);
});
