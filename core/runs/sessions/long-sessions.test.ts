import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { historyOf } from './history.ts';
import { itemOf, sessionIdOf, turnKey } from './items.ts';
import { SessionStore } from './store.ts';

const MESSAGES = 10_000;

test('a session of 10,000 messages is read in pages, and a model gets the newest of them', async () => {
  const database = openDatabase(':memory:');
  onTestFinished(() => database.close());
  const bare = memoryDeps();
  const runs = new SqliteTable(database, 'runs', bare.clock);
  let read = 0;
  const counted = new Proxy(runs, {
    get(table, name) {
      const value = Reflect.get(table, name);
      if (name !== 'query') return typeof value === 'function' ? value.bind(table) : value;
      return async (query: Parameters<typeof runs.query>[0]) => {
        const page = await table.query(query);
        read += page.items.length;
        return page;
      };
    },
  });
  const deps = { ...bare, runs: counted };
  const workspaceId = crypto.randomUUID();
  const id = sessionIdOf(crypto.randomUUID());
  const createdAt = bare.clock.now();
  await runs.put(
    itemOf({
      ...{ id, workspaceId, agentWorkspaceId: workspaceId, agentOrg: 'acme', agentName: 'helper' },
      ...{ metadata: {}, busy: 'enqueue', ttlDays: 30, createdAt },
    }),
  );
  const text = 'x'.repeat(1000);
  const size = text.length + JSON.stringify({}).length;
  for (let number = 1; number <= MESSAGES; number++) {
    const said = number * size;
    void runs.put({
      ...turnKey(workspaceId, id, number),
      ...{ run_id: crypto.randomUUID(), agent_version: 'v1', created_at: createdAt, status: 'completed' },
      ...{ ended_at: createdAt, bytes: said, said, own_said: size, content: { input: {}, text, output: {} } },
    });
  }
  await database.settle();
  const store = new SessionStore(deps, workspaceId);
  expect((await store.find(id, 1))!.newest).toMatchObject([{ number: MESSAGES }]);
  expect(read).toBe(2);
  const page = await store.turns(id, { after: 5_000, limit: 20, reverse: false });
  expect(page.map(({ number }) => number)).toEqual(Array.from({ length: 20 }, (_, index) => 5_001 + index));
  read = 0;
  const { turns, leftOut } = await historyOf(deps, { workspaceId, id, number: MESSAGES + 1 });
  expect(turns.at(-1)).toMatchObject({ number: MESSAGES });
  expect(turns.length).toBeGreaterThan(150);
  expect(turns.length).toBeLessThan(410);
  expect(leftOut).toBe(MESSAGES - turns.length);
  expect(read).toBeLessThanOrEqual(600);
});
