import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { type Clock, SystemClock } from '#core/ports/clock.ts';
import { queryAll, type Table } from '#core/ports/table.ts';
import { queuePartition } from '#core/runs/items.ts';
import {
  addEntry,
  askForCheck,
  type Entry,
  entryKeyOf,
  grantPlaces,
  hasPlace,
  leavePlace,
  placesOf,
  removeEntry,
  ruleIdOf,
  stateKey,
  takePlace,
} from '#core/runs/queues/queue.ts';
import { nextStart, takeStart, windowAt } from '#core/runs/queues/starts.ts';
import { sweepQueues } from '#core/runs/queues/sweep.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';

/** The places of a limit (`core/runs/queues`), on the tables of a host. */
export function queuesSuite(makeRuns: (clock: Clock) => Promise<Table>): void {
  /** A clock that runs ahead by what `pass` adds. */
  async function world() {
    const system = new SystemClock();
    let ahead = 0;
    const clock: Clock = {
      now: () => system.now() + ahead,
      sleep: (ms, signal) => system.sleep(ms, signal),
      after: (ms, work) => system.after(ms, work),
    };
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const deps = { ...memoryDeps(), clock, runs: await makeRuns(clock), log };
    const workspaceId = randomUUID();
    const queue = { workspaceId, queueId: ruleIdOf({ workspaceId, name: 'agent' }, ['/customer', 'a']) };
    const take = (limit: number, runId = randomUUID()) => takePlace(deps, queue, { runId, limit });
    const places = () => Array.fromAsync(placesOf(deps, queue));
    const wait = async (priority = 0, { limit = 1, until = clock.now() + 60_000 } = {}): Promise<Entry> => {
      const runId = randomUUID();
      const entry = {
        runId,
        limit,
        until,
        isRun: false,
        replaces: false,
        sk: entryKeyOf(priority, clock.now(), runId),
      };
      await addEntry(deps, queue, entry);
      return entry;
    };
    return { deps, queue, take, places, wait, pass: (ms: number) => (ahead += ms) };
  }

  test('of 50 that come at once, as many get a place as there are', { timeout: 60_000 }, async () => {
    const { deps, queue, take, places } = await world();
    for (const limit of [1, 7]) {
      const before = (await places()).length;
      const taken = await Promise.all(Array.from({ length: 50 }, () => take(limit)));
      expect(taken.filter(Boolean).length).toBe(limit - before);
      expect(await places()).toHaveLength(limit);
    }
    expect(await deps.runs.get(stateKey(queue))).toMatchObject({ active: 7 });
  });

  test('places that are taken and left at once are never more than the limit', { timeout: 60_000 }, async () => {
    const { deps, queue, take, places } = await world();
    let most = 0;
    const inUse = new Set<string>();
    const worker = async () => {
      for (let round = 0; round < 4; round++) {
        const runId = randomUUID();
        if (!(await take(3, runId))) continue;
        inUse.add(runId);
        most = Math.max(most, inUse.size);
        inUse.delete(runId);
        await leavePlace(deps, queue, runId);
      }
    };
    await Promise.all(Array.from({ length: 20 }, worker));
    expect(most).toBeLessThanOrEqual(3);
    expect(most).toBeGreaterThan(0);
    expect(await places()).toEqual([]);
    expect(await deps.runs.get(stateKey(queue))).toMatchObject({ active: 0 });
  });

  test('a run has one place, however often it is taken and left', async () => {
    const { deps, queue, take, places } = await world();
    const runId = randomUUID();
    expect(await Promise.all([take(2, runId), take(2, runId), take(2, runId)])).toEqual([true, true, true]);
    expect(await places()).toHaveLength(1);
    await Promise.all([leavePlace(deps, queue, runId), leavePlace(deps, queue, runId)]);
    await leavePlace(deps, queue, runId);
    expect(await deps.runs.get(stateKey(queue))).toMatchObject({ active: 0 });
  });

  test('what waits gets its place by priority, then by age, before what comes later', async () => {
    const { deps, queue, take, wait, pass } = await world();
    const first = randomUUID();
    await take(1, first);
    const waiting: Entry[] = [];
    for (const priority of [0, -10, 10, 0]) {
      pass(1);
      waiting.push(await wait(priority));
    }
    const [old, last, urgent, young] = waiting as [Entry, Entry, Entry, Entry];
    let holder: string = first;
    for (const next of [urgent, old, young, last]) {
      await leavePlace(deps, queue, holder);
      expect(await hasPlace(deps, queue, next)).toBe(true);
      expect(await take(1)).toBe(false);
      holder = next.runId;
    }
    await leavePlace(deps, queue, holder);
    expect(await take(1)).toBe(true);
    expect(await deps.runs.get(stateKey(queue))).toMatchObject({ active: 1, waiting: 0 });
  });

  test('a place that became free before something waited is granted', async () => {
    const { deps, queue, wait, take } = await world();
    const runId = randomUUID();
    await take(1, runId);
    await leavePlace(deps, queue, runId);
    const entry = await wait();
    await Promise.all([grantPlaces(deps, queue), grantPlaces(deps, queue)]);
    expect(await hasPlace(deps, queue, entry)).toBe(true);
    expect(await deps.runs.get(stateKey(queue))).toMatchObject({ active: 1, waiting: 0 });
  });

  test('what no longer waits gets no place', async () => {
    const { deps, queue, wait, pass } = await world();
    const [left, late, stays] = [await wait(), await wait(0, { until: deps.clock.now() + 5 }), await wait()];
    expect(await removeEntry(deps, queue, left.sk)).toBe(true);
    expect(await removeEntry(deps, queue, left.sk)).toBe(false);
    pass(10);
    await grantPlaces(deps, queue);
    expect(await hasPlace(deps, queue, late)).toBe(false);
    expect(await hasPlace(deps, queue, stays)).toBe(true);
    expect(await removeEntry(deps, queue, stays.sk)).toBe(false);
  });

  test('the sweep frees the places of runs that never began, and grants them', async () => {
    const { deps, queue, take, wait, places, pass } = await world();
    await take(1);
    const entry = await wait(0, { until: deps.clock.now() + 600_000 });
    await sweepQueues(deps);
    expect(await hasPlace(deps, queue, entry)).toBe(false);
    pass(61_000);
    await sweepQueues(deps);
    expect(await hasPlace(deps, queue, entry)).toBe(true);
    // Nothing waits any more, but its process may have died as well.
    pass(61_000);
    await sweepQueues(deps);
    expect(await places()).toEqual([]);
    expect(await deps.runs.get(stateKey(queue))).toMatchObject({ active: 0, waiting: 0 });
    expect(await deps.runs.get(stateKey(queue))).not.toHaveProperty('gsi1pk');
    // What is refused asks for a check.
    await take(1);
    pass(61_000);
    await sweepQueues(deps);
    expect(await places()).toHaveLength(1);
    await askForCheck(deps, queue);
    pass(61_000);
    await sweepQueues(deps);
    expect(await places()).toEqual([]);
  });

  test('of 30 starts at once, each window has as many as the rate lets', { timeout: 60_000 }, async () => {
    const { deps, pass } = await world();
    const rate = { workspaceId: randomUUID(), rateId: 'a', count: 4, seconds: 3600 };
    const by = deps.clock.now() + 6 * 3600_000;
    const starts = await Promise.all(Array.from({ length: 30 }, () => takeStart(deps, rate, by)));
    const windows = Map.groupBy(starts, (start) => start?.window);
    // The last ones would begin too late, and are not counted.
    expect(starts.filter((start) => start === undefined).length).toBe(30 - 4 * (windows.size - 1));
    for (const [window, all] of windows) if (window !== undefined) expect(all.length).toBe(4);
    const now = deps.clock.now();
    expect(starts.filter((start) => start !== undefined && start.at <= now).length).toBe(4);
    expect(await nextStart(deps, rate)).toBeGreaterThan(by);
    pass(8 * 3600_000);
    expect(await takeStart(deps, rate, deps.clock.now())).toMatchObject({ window: windowAt(rate, deps.clock.now()) });
  });

  test('a rate whose window is long over begins anew, also if its item is not deleted yet', async () => {
    const { deps, pass } = await world();
    const rate = { workspaceId: randomUUID(), rateId: 'b', count: 1, seconds: 1 };
    for (let round = 0; round < 3; round++) {
      expect(await takeStart(deps, rate, deps.clock.now())).toBeDefined();
      pass(3 * 3600_000);
    }
  });

  test('queues of other keys, agents and workspaces are apart', async () => {
    const { deps, queue } = await world();
    const agent = { workspaceId: 'author', name: 'agent' };
    const ids = [
      ruleIdOf(agent, ['/a', 'x']),
      ruleIdOf(agent, ['/a', 'y']),
      ruleIdOf(agent, ['/a', null]),
      ruleIdOf(agent, ['/b', 'x']),
      ruleIdOf(agent, []),
      ruleIdOf({ ...agent, name: 'other' }, ['/a', 'x']),
      ruleIdOf({ ...agent, workspaceId: 'other' }, ['/a', 'x']),
      ruleIdOf(agent, ['/a', 1]),
      ruleIdOf(agent, ['/a', '1']),
    ];
    expect(new Set(ids).size).toBe(ids.length);
    expect(await takePlace(deps, queue, { runId: randomUUID(), limit: 1 })).toBe(true);
    expect(await takePlace(deps, { ...queue, workspaceId: randomUUID() }, { runId: randomUUID(), limit: 1 })).toBe(
      true,
    );
    expect(
      await Array.fromAsync(queryAll(deps.runs, { pk: queuePartition(queue.workspaceId, queue.queueId) })),
    ).toHaveLength(2);
  });
}
