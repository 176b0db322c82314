import { expect, test } from 'vitest';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { Schedule } from './schedule.ts';
import { type ScheduleFilter, ScheduleStore } from './store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';

/** `count` schedules, the newest last: every third of another agent, every fourth of another org, every second a webhook. */
async function filled(count: number) {
  const deps = memoryDeps();
  const counter = new OperationCounter();
  const store = new ScheduleStore({ ...deps, main: counter.count(deps.main) }, WORKSPACE);
  const made: Schedule[] = [];
  for (let n = 0; n < count; n++) {
    const schedule = {
      id: deps.ids.uuid(),
      workspaceId: WORKSPACE,
      agentOrg: n % 4 === 3 ? 'others' : 'acme',
      agentName: n % 3 === 2 ? 'digest' : 'reporter',
      type: n % 2 === 1 ? 'webhook' : 'cron',
      enabled: false,
      createdAt: new Date(Date.UTC(2035, 0, 1, 0, n)).toISOString(),
      deletedAt: null,
    } as Schedule;
    expect(await store.create(schedule, 1000)).toBe(true);
    made.push(schedule);
  }
  return { deps, store, counter, made };
}

test('lists are those of the schedules that are left, newest first, by any filter', async () => {
  const { store, made } = await filled(40);
  for (const { id } of made.filter((_, n) => n % 5 === 0)) await store.remove(id);
  const left = made.filter((_, n) => n % 5 !== 0).reverse();
  const filters: ScheduleFilter[] = [
    {},
    { agentName: 'digest' },
    { agentName: 'reporter', agentOrg: 'others' },
    { agentName: 'reporter', type: 'webhook' },
    { type: 'cron' },
    { agentName: 'nothing' },
  ];
  for (const filter of filters) {
    const ids = left
      .filter(
        ({ agentName, agentOrg, type }) =>
          agentName === (filter.agentName ?? agentName) &&
          agentOrg === (filter.agentOrg ?? agentOrg) &&
          type === (filter.type ?? type),
      )
      .map(({ id }) => id);
    for (const [limit, offset] of [
      [200, 0],
      [3, 2],
      [5, 30],
    ] as const) {
      const { schedules, total } = await store.list(filter, { limit, offset });
      expect([schedules.map(({ id }) => id), total]).toEqual([ids.slice(offset, offset + limit), ids.length]);
    }
  }
  expect(await store.idsOf('digest')).toEqual(
    left.filter(({ agentName }) => agentName === 'digest').map(({ id }) => id),
  );
});

test('a page costs the same beside any number of schedules', async () => {
  const { store, counter } = await filled(300);
  counter.operations.length = 0;
  expect((await store.list({}, { limit: 20, offset: 10 })).schedules).toHaveLength(20);
  // Thirty entries, twenty schedules and the count.
  expect(counter.items).toBeLessThanOrEqual(51);
});

test('items keep the names of their attributes, whatever the members of a schedule are called', async () => {
  const { deps, store, made } = await filled(1);
  const [schedule] = made;
  const item = await deps.main.get({ pk: `WS#${WORKSPACE}#SCHEDULES`, sk: schedule!.id });
  expect(item).toMatchObject({ workspace_id: WORKSPACE, agent_name: 'reporter', schedule_type: 'cron', revision: 1 });
  expect(await store.find(schedule!.id)).toEqual(schedule);
});
