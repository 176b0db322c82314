import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { HostState } from '#core/ports/host-state.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

const KEY = 'operator-operator-operator-operator';
const system = {
  version: '1.2.3',
  node: 'v24',
  started_at: '2026-11-23T09:30:00.000Z',
  sandbox: { kind: 'unshare', problem: null, running: 1, waiting: 2, max: 3, queue_age_ms: 4 },
  disk: { free_bytes: 1, size_bytes: 2, database_bytes: 3 },
  event_loop_delay_ms: { p50: 1, p99: 2, max: 3 },
  memory_bytes: 5,
};

function platform({ hasKey = true, problem = undefined as string | undefined } = {}) {
  const memory = memoryDeps();
  const hostState: HostState = {
    parts: async () => [{ name: 'sandbox', problem }],
    system: async () => system,
    metrics: async () => 'platform_info 1\n',
  };
  const operatorKey = async () => (hasKey ? hash('sha256', KEY) : undefined);
  const deps = { ...memory, hostState, operatorKey };
  return { deps, ask: asking(deps) };
}

const asking =
  (deps: ReturnType<typeof memoryDeps>) =>
  async (path: string, headers: Record<string, string> = {}, address = '127.0.0.1') => {
    const app = createWebApp(deps, routes, allHandlers(deps));
    const request = new Request(`http://127.0.0.1:4280${path}`, { headers: { host: '127.0.0.1:4280', ...headers } });
    const response = await app(request, address);
    const text = await response.text();
    return { status: response.status, text, type: response.headers.get('content-type') };
  };

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

const OUTSIDERS: [string, Record<string, string>, string][] = [
  ['another machine', {}, '192.0.2.7'],
  ['no address', {}, ''],
  ['an address that only looks like loopback', {}, 'localhost.example.com'],
  ['a client of a proxy', { 'x-forwarded-for': '192.0.2.7' }, '127.0.0.1'],
  ['a client of a proxy by the standard', { forwarded: 'for=192.0.2.7' }, '127.0.0.1'],
  ['a page of another site', { 'sec-fetch-site': 'cross-site' }, '127.0.0.1'],
  ['a page of another service on this machine', { 'sec-fetch-site': 'same-site' }, '127.0.0.1'],
  ['a page in an old browser', { origin: 'https://evil.example.com' }, '127.0.0.1'],
  ['a foreign name that leads here', { host: 'evil.example.com:4280' }, '127.0.0.1'],
];

test.each(OUTSIDERS)('%s sees neither metrics nor the system', async (_, headers, address) => {
  const { ask } = platform();
  expect(await ask('/metrics', headers, address)).toMatchObject({ status: 401 });
  expect(await ask('/metrics', { ...headers, ...bearer('x'.repeat(35)) }, address)).toMatchObject({ status: 401 });
  const health = await ask('/health/detailed', headers, address);
  expect(health.status).toBe(200);
  expect(JSON.parse(health.text)).not.toHaveProperty('system');
  const withKey = { ...headers, ...bearer(KEY) };
  expect(await ask('/metrics', withKey, address)).toMatchObject({ status: 200, text: 'platform_info 1\n' });
  expect(JSON.parse((await ask('/health/detailed', withKey, address)).text)).toMatchObject({ system });
  expect(await platform({ hasKey: false }).ask('/metrics', headers, address)).toMatchObject({ status: 403 });
});

test.each([
  ['127.0.0.1', {}],
  ['127.1.2.3', { host: 'localhost:4280' }],
  ['::1', { host: '[::1]:4280' }],
  ['::ffff:127.0.0.1', { 'sec-fetch-site': 'same-origin' }],
])('the machine itself, %s, needs no key', async (address, headers: Record<string, string>) => {
  const { ask } = platform({ hasKey: false });
  expect(await ask('/metrics', headers, address)).toMatchObject({
    status: 200,
    type: 'text/plain; version=0.0.4; charset=utf-8',
  });
  expect(JSON.parse((await ask('/health/detailed', headers, address)).text)).toMatchObject({ system });
});

test('the worst part decides, and an answer serves all for two seconds', async () => {
  const { deps } = platform({ problem: 'No sandbox works.' });
  let reads = 0;
  let isBroken = false;
  const { main } = deps;
  const get = (key: Parameters<typeof main.get>[0]) => {
    reads += 1;
    return isBroken ? Promise.reject(new Error('gone')) : main.get(key);
  };
  const broken = { ...deps, main: Object.assign(Object.create(main), { get }) };
  const app = createWebApp(broken, routes, allHandlers(broken));
  const ask = async () => (await app(new Request('http://localhost/health/detailed'))).json();
  expect(await ask()).toEqual({
    status: 'degraded',
    services: [
      { name: 'api', status: 'operational' },
      { name: 'database', status: 'operational', latency_ms: 0 },
      { name: 'storage', status: 'operational' },
      { name: 'sandbox', status: 'degraded' },
    ],
  });
  isBroken = true;
  expect(await ask()).toMatchObject({ status: 'degraded' });
  expect(reads).toBe(1);
  await deps.clock.advance(2001);
  expect(await ask()).toMatchObject({
    status: 'unhealthy',
    services: [{}, { name: 'database', status: 'outage' }, {}, {}],
  });
});

test('a host with metrics elsewhere says where', async () => {
  const ask = asking(memoryDeps());
  const { status, text } = await ask('/metrics');
  expect(status).toBe(404);
  expect(text).toContain('CloudWatch');
  expect(JSON.parse((await ask('/health/detailed')).text)).toMatchObject({ status: 'healthy' });
});
