import { expect, test } from 'vitest';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { publicIndexKey } from '../record.ts';
import { catalogHandlers } from './handlers.ts';
import { catalogQuery } from './routes.ts';

/** A catalog with `count` agents of `versions` versions each, oldest first. */
async function catalogOf(count: number, versions: number) {
  const deps = memoryDeps();
  for (let n = 0; n < count * versions; n++) {
    const [agent, version] = [n % count, Math.floor(n / count) + 1];
    const createdAt = new Date(Date.parse('2030-01-01T00:00:00Z') + n * 1000).toISOString();
    await deps.main.put({
      pk: `WS#w#AGENT#a${agent}`,
      sk: `V#${version}`,
      id: `${agent}-${version}`,
      workspace_id: 'w',
      org_slug: 'acme',
      org_name: 'acme',
      name: `a${agent}`,
      version,
      runnable: true,
      created_at: createdAt,
      updated_at: createdAt,
      definition: { type: 'prompt', description: 'x', tags: [agent === 0 ? 'oldest' : 'other'], skills: [] },
      ...publicIndexKey(createdAt, `${agent}-${version}`),
    });
  }
  const counter = new OperationCounter();
  const handlers = catalogHandlers({ ...deps, main: counter.count(deps.main) });
  const list = async (query: object) => {
    counter.operations.length = 0;
    const request = { query: catalogQuery.parse(query) } as Parameters<typeof handlers.listPublicAgents>[0];
    const { body } = await handlers.listPublicAgents(request);
    return { names: body.map(({ name, version }) => `${name}@${version}`), read: counter.items };
  };
  return list;
}

test('a page reads only the versions it needs, not the entire catalog', async () => {
  const list = await catalogOf(1200, 2);
  const first = await list({ limit: 3 });
  expect(first).toEqual({ names: ['a1199@v2', 'a1198@v2', 'a1197@v2'], read: 200 });
  expect(await list({ limit: 2, offset: 300 })).toEqual({ names: ['a899@v2', 'a898@v2'], read: 400 });
  // Filters and orders consider only the newest 2,000 versions.
  expect(await list({ tags: 'oldest' })).toEqual({ names: ['a0@v2'], read: 2000 });
  expect(await list({ sort: 'name', limit: 1 })).toEqual({ names: ['a0@v2'], read: 2000 });
  expect((await list({ search: 'nothing' })).read).toBe(2000);
});
