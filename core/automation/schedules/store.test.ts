import { expect, test } from 'vitest';
import { timelineSince } from '#core/accounts/workspaces/timeline.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { Schedule } from './schedule.ts';
import { type ScheduleFilter, ScheduleStore } from './store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';

/**
 * Creates `count` schedules in ascending order: every third has another agent, every fourth another org, every second
 * is a webhook.
 */
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

test('lists have the schedules that are left, newest first, by any filter', async () => {
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

test('the cost of a page does not depend on the number of schedules', async () => {
  const { store, counter } = await filled(300);
  counter.operations.length = 0;
  expect((await store.list({}, { limit: 20, offset: 10 })).schedules).toHaveLength(20);
  // Thirty entries, twenty schedules and the count.
  expect(counter.items).toBeLessThanOrEqual(51);
});

test('an item has the attribute names of older items', async () => {
  const { deps, store, made } = await filled(1);
  const [schedule] = made;
  const item = await deps.main.get({ pk: `WS#${WORKSPACE}#SCHEDULES`, sk: schedule!.id });
  expect(item).toMatchObject({ workspace_id: WORKSPACE, agent_name: 'reporter', schedule_type: 'cron', revision: 1 });
  expect(await store.find(schedule!.id)).toEqual(schedule);
});

test('changes of the same moment are listed in their order', async () => {
  const { deps, store, made } = await filled(1);
  const { id } = made[0]!;
  const messages = ['a', 'b', 'c', 'd', 'e', 'f'];
  for (const message of messages) {
    const events = [
      { type: 'updated', message: `${message}1` },
      { type: 'updated', message: `${message}2` },
    ] as const;
    await store.change(id, () => ({ set: {}, events }));
  }
  await store.addEvent(id, { type: 'alert_sent', message: 'alert' });
  await store.addEvent(id, { type: 'alert_sent', message: 'alert' });
  const listed = (await store.listEvents(id, { limit: 20, offset: 0 })).map(({ message }) => message);
  const expected = ['Schedule created.', ...messages.flatMap((each) => [`${each}1`, `${each}2`]), 'alert', 'alert'];
  expect(listed.reverse()).toEqual(expected);
  const { items } = await deps.main.query({ ...timelineSince(WORKSPACE, 0), limit: 20 });
  expect(items.map(({ message }) => message)).toEqual(expected);
});
