import { expect, test } from 'vitest';
import type { Table } from '#core/ports/table.ts';
import type { Timer, Timers } from '#core/ports/timers.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { Schedule } from '../schedule.ts';
import { ScheduleStore } from '../store.ts';
import { reconcileTimers, timerOf } from './timers.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';

test('a schedule that the index does not show yet keeps its timer, a disabled or deleted one has none', async () => {
  const deps = memoryDeps();
  const store = new ScheduleStore(deps, WORKSPACE);
  const create = async (enabled: boolean) => {
    const schedule = {
      id: deps.ids.uuid(),
      workspaceId: WORKSPACE,
      agentName: 'reporter',
      type: 'cron',
      cronExpression: '* * * * *',
      timezone: 'UTC',
      enabled,
      createdAt: '2035-06-01T12:00:00.000Z',
      deletedAt: null,
    } as Schedule;
    await store.create(schedule, 10);
    return schedule;
  };
  const [fresh, disabled, deleted] = [await create(true), await create(false), await create(true)];
  await store.remove(deleted.id);

  let listed: Timer[] | undefined;
  let current: (Timer | undefined)[] | undefined;
  const timers: Pick<Timers, 'reconcile'> = {
    async reconcile(wanted, currentOf) {
      listed = await Array.fromAsync(wanted());
      current = await Promise.all([fresh, disabled, deleted].map(({ id }) => currentOf(id)));
      return { set: 0, removed: 0 };
    },
  };
  const main: Partial<Table> = { get: (key) => deps.main.get(key), query: async () => ({ items: [] }) };
  await reconcileTimers({ ...deps, main: main as Table, timers: timers as Timers });
  expect(listed).toEqual([]);
  expect(current).toEqual([timerOf(fresh), undefined, undefined]);
  expect(timerOf(fresh)).toBeDefined();
});
