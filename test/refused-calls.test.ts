import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { parseConfig } from '#core/base/config.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { OperationCounter } from './helpers/counting-table.ts';
import { memoryDeps } from './helpers/memory-deps.ts';
import { addUser } from './helpers/users.ts';

/** Platform whose workspaces have time for two refused calls at once. */
async function setUp() {
  const { plans } = parseConfig({ PLATFORM_PLANS: '{"free": {"validation_ms_per_minute": 120}}' });
  const deps = memoryDeps({ plans, defaultPlan: 'free' });
  const { key, slug } = await addUser(deps, 'refused');
  const counter = new OperationCounter();
  const { main, runs, counters } = deps;
  const counted = {
    ...deps,
    main: counter.count(main, 'main'),
    runs: counter.count(runs, 'runs'),
    counters: counter.count(counters, 'counters'),
  };
  const app = createWebApp(counted, routes, allHandlers(counted));
  const call = async (path = `/${slug}/unknown/v1/run`) => {
    const request = new Request(`http://127.0.0.1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ a: 1 }),
    });
    const before = counter.operations.length;
    const { status, headers } = await app(request);
    const operations = counter.operations.slice(before).map(({ table, method }) => `${table}.${method}`);
    return { status, headers, operations, isBodyRead: request.bodyUsed };
  };
  return { deps, call };
}

test('a call of a workspace without time is refused by its key alone, with the right headers', async () => {
  const { deps, call } = await setUp();
  for (let i = 0; i < 2; i++) expect((await call()).status).toBe(404);
  const first = await call();
  expect(first).toMatchObject({ status: 429, operations: ['main.get', 'counters.get'], isBodyRead: false });
  const next = await call();
  expect(next).toMatchObject({ status: 429, operations: ['main.get'], isBodyRead: false });
  for (const { headers } of [first, next]) {
    expect(headers.get('x-ratelimit-limit')).toBe('1000');
    expect(headers.get('x-ratelimit-remaining')).toBe('1000');
    expect(headers.get('retry-after')).toBe('1');
  }
  // The workspace's time is refilled.
  await deps.clock.advance(1_000);
  expect((await call()).status).toBe(404);
});
