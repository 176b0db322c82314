import { expect, test } from 'vitest';
import { commit, commitSpent, release, releaseSummed } from '#core/billing/budgets/under-way.ts';
import type { Table } from '#core/ports/table.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';

/** Rules for the budget that active runs reserve, on a host's table. */
export function budgetCommitmentsSuite(newCounters: (clock: ManualClock) => Promise<Table>): void {
  async function setUp() {
    const clock = new ManualClock();
    const deps = { counters: await newCounters(clock), clock };
    const workspaceId = crypto.randomUUID();
    const begin = async (
      agent: string,
      micro: number,
      rooms: Parameters<typeof commit>[2],
      runId: string = crypto.randomUUID(),
    ) => {
      const refused = await commit(deps, { workspaceId, runId, agent, micro, expiresAt: clock.now() + 60_000 }, rooms);
      return refused && ('usedUp' in refused ? refused.usedUp : refused);
    };
    return { deps, clock, workspaceId, begin };
  }

  test('no more begin at once than there is room for, in all and of one agent', async () => {
    const { begin } = await setUp();
    const rooms = [
      { agent: null, micro: 100 },
      { agent: 'acme/a-1', micro: 30 },
    ];
    const ofOne = await Promise.all(Array.from({ length: 12 }, () => begin('acme/a-1', 10, rooms)));
    expect(ofOne.filter((usedUp) => usedUp === undefined)).toHaveLength(3);
    expect(ofOne.filter((usedUp) => usedUp === 1)).toHaveLength(9);
    const ofAnother = await Promise.all(Array.from({ length: 12 }, () => begin('acme/b', 20, rooms.slice(0, 1))));
    // The last run begins while 90 of 100 are reserved.
    expect(ofAnother.filter((usedUp) => usedUp === undefined)).toHaveLength(4);
    expect(ofAnother.filter((usedUp) => usedUp === 0)).toHaveLength(8);
  });

  test('a run that ends makes room, once', async () => {
    const { deps, workspaceId, begin } = await setUp();
    const rooms = [{ agent: null, micro: 10 }];
    const run = { workspaceId, runId: crypto.randomUUID(), agent: 'acme/a', micro: 10 };
    expect(await begin('acme/a', 10, rooms, run.runId)).toBeUndefined();
    expect(await begin('acme/a', 10, rooms, run.runId)).toBeUndefined();
    expect(await begin('acme/a', 10, rooms)).toBe(0);
    await Promise.all([release(deps, run), release(deps, run)]);
    expect(await begin('acme/a', 10, rooms)).toBeUndefined();
    expect(await begin('acme/a', 10, rooms)).toBe(0);
  });

  test('a run whose time is over makes room', async () => {
    const { clock, begin } = await setUp();
    const rooms = [{ agent: null, micro: 10 }];
    expect(await begin('acme/a', 10, rooms)).toBeUndefined();
    await clock.advance(59_000);
    expect(await begin('acme/a', 10, rooms)).toBe(0);
    await clock.advance(3_000);
    expect(await begin('acme/a', 10, rooms)).toBeUndefined();
  });

  test('a run that is summed makes room only for those who know the new sum', async () => {
    const { deps, clock, workspaceId, begin } = await setUp();
    const rooms = [{ agent: null, micro: 10 }];
    const run = { workspaceId, runId: crypto.randomUUID(), agent: 'acme/a', micro: 10 };
    const next = { ...run, runId: crypto.randomUUID(), expiresAt: clock.now() + 60_000 };
    expect(await begin('acme/a', 10, rooms, run.runId)).toBeUndefined();
    await commitSpent(deps, run, 10);
    const before = clock.now();
    await clock.advance(5);
    await releaseSummed(deps, workspaceId, [run.runId]);
    await releaseSummed(deps, workspaceId, [run.runId]);
    expect(await commit(deps, next, rooms, before)).toEqual({ summedAt: before + 5 });
    expect(await commit(deps, next, rooms, before + 5)).toBeUndefined();
  });
}
