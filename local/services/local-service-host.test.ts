import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { newServiceKey } from '#core/accounts/service-keys/key-format.ts';
import { serviceHostConformance } from '#test/conformance/service-host.ts';
import { ECHO_APP, startServiceHost } from '#test/helpers/local-services.ts';

const { problem, close, host, port, reports, bundleOf, newOrder, nextOrder, instancesOf, until, isReady, ask } =
  await startServiceHost();
afterAll(close);

describe.skipIf(problem !== undefined)('a service on this machine', () => {
  serviceHostConformance(async () => {
    const bundle = { key: await bundleOf({ 'app.js': 'setInterval(() => {}, 1000)' }) };
    return { host, newOrder: async () => newOrder({ bundle }) };
  });

  test('lives: deployed, asked, changed, paused, resumed, removed', async () => {
    const bundle = { key: await bundleOf({ 'app.js': ECHO_APP }) };
    const first = newOrder({ bundle, env: { VERSION: '1' }, secrets: { TOKEN: 'made-up-secret' } });
    await host.deploy(first);
    expect((await ask(first)).status).toBe(503);
    await isReady(first);

    const answer = await ask(first, '/a?b', { headers: { cookie: 'own=1' } });
    expect(answer.status).toBe(200);
    expect(answer.headers['set-cookie']).toEqual(['session=1']);
    const seen = answer.json();
    expect(seen).toMatchObject({
      url: '/a?b',
      version: '1',
      headers: { cookie: 'own=1', 'x-forwarded-for': '127.0.0.1' },
    });
    const long = 'x'.repeat(3_000_000);
    expect((await ask(first, '/echo', { method: 'POST' }, long)).content).toBe(long);
    expect((await ask(first, '/health')).json()).toEqual({ status: 'ok' });

    const socket = connect(port, '127.0.0.1');
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${first.label}.localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`);
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    await until(() => received).toContain('101 Switching Protocols');
    socket.write('hello');
    await until(() => received).toMatch(/hello$/);
    socket.destroy();

    // Polling shows that the service is always available.
    const second = nextOrder(first, { bundle, env: { VERSION: '2' } });
    const statuses: (number | undefined)[] = [];
    const polling = (async () => {
      for (let version = '1'; version === '1'; ) {
        const { status, content } = await ask(first);
        statuses.push(status);
        if (status === 200) version = JSON.parse(content).version;
      }
    })();
    await host.update(second);
    await polling;
    expect(new Set(statuses)).toEqual(new Set([200]));
    await until(() => reports.filter(({ type, serviceId }) => type === 'ended' && serviceId === first.id).length).toBe(
      1,
    );

    await host.pause(first);
    expect((await ask(first)).json().error).toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      message: 'The service is paused.',
    });
    const [paused] = await Array.fromAsync(host.list());
    expect(paused).toMatchObject({ serviceId: first.id, isPaused: true, revision: 2 });
    const third = nextOrder(second, { bundle, env: { VERSION: '3' } });
    await host.resume(third);
    await isReady(third);
    expect((await ask(first)).json().version).toBe('3');

    const lines = await host.logs(first, { limit: 10 });
    expect(lines[0]).toMatchObject({ severity: 'INFO', message: 'INFO starting with [secret TOKEN]' });
    await host.remove(first);
    expect((await ask(first)).status).toBe(404);
    expect(await host.logs(first, { limit: 10 })).toEqual([]);
    expect(await Array.fromAsync(host.list())).toEqual([]);
  });

  test('an app that ends is started again, and its requests meanwhile are answered', async () => {
    const order = newOrder({ bundle: { key: await bundleOf({ 'app.js': ECHO_APP }) } });
    await host.deploy(order);
    await isReady(order);
    expect((await ask(order, '/end')).json().error.code).toBe('SERVICE_ERROR');
    await until(async () => (await ask(order)).json().error).toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      message: expect.stringContaining('about to be restarted'),
    });
    await until(() => instancesOf(order).at(-1)).toMatchObject({
      phase: 'ready',
      restarts: 1,
      failures: 1,
      lastEnd: { exitCode: 3 },
    });
    expect((await ask(order)).status).toBe(200);
    await host.remove(order);
  });

  test('a path leads there for programs of this machine alone, without what belongs to the platform', async () => {
    const order = newOrder({ bundle: { key: await bundleOf({ 'app.js': ECHO_APP }) } });
    await host.deploy(order);
    await isReady(order);
    const at = (path: string, headers = {}) =>
      ask({ label: 'none' }, `/services/${order.id}${path}`, { headers: { host: `127.0.0.1:${port}`, ...headers } });
    const answer = await at('/a/b?c', { cookie: 'platform=1', authorization: 'Bearer app' });
    expect(answer.json()).toMatchObject({
      url: '/a/b?c',
      headers: { 'x-forwarded-prefix': `/services/${order.id}`, authorization: 'Bearer app' },
    });
    expect(answer.json().headers).not.toHaveProperty('cookie');
    expect(answer.headers).not.toHaveProperty('set-cookie');
    expect(answer.headers['content-security-policy']).toBe('sandbox');
    const own = newServiceKey('a', order.id, Buffer.alloc(32, 7));
    const basic = `Basic ${Buffer.from(`${own}:`).toString('base64')}`;
    for (const authorization of [`Bearer ${own}`, `bearer  ${own} `, basic, ['Bearer app', `Bearer ${own}`]]) {
      expect((await at('/', { authorization })).json().headers).not.toHaveProperty('authorization');
    }
    expect((await at('')).json().url).toBe('/');
    expect((await at('/../../etc/passwd')).json().url).toBe('/../../etc/passwd');
    expect((await at('/', { 'sec-fetch-site': 'same-origin' })).json().error).toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('service_url'),
    });
    expect((await at('/', { 'x-forwarded-for': '203.0.113.9' })).status).toBe(403);
    // A page of another site, with its own origin or with a host name that resolves to this machine.
    const upgrade = { connection: 'Upgrade', upgrade: 'websocket' };
    for (const headers of [
      { host: 'evil.example' },
      { host: `127.0.0.1.evil.example:${port}` },
      { host: `localhost.evil.example:${port}` },
      { origin: 'http://evil.example' },
      { origin: 'null' },
      { origin: `http://localhost:${port}` },
      { origin: `http://${order.label}.localhost:${port}` },
    ]) {
      expect([headers, (await at('/', headers)).status]).toEqual([headers, 403]);
      expect([headers, (await at('/', { ...headers, ...upgrade })).status]).toEqual([headers, 403]);
    }
    for (const own of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`, 'LOCALHOST', '127.0.0.1']) {
      expect((await at('/', { host: own })).status).toBe(200);
      expect((await at('/', { host: own, origin: `http://${own}` })).status).toBe(200);
    }
    expect(
      (await ask({ label: 'none' }, `/services/${randomUUID()}/`, { headers: { host: 'localhost' } })).status,
    ).toBe(404);
    expect((await ask({ label: 'nobody' })).status).toBe(404);
    expect((await ask({ label: 'none' }, '/health', { headers: { host: `localhost:${port}` } })).content).toBe(
      'the API',
    );
    await host.remove(order);
  });

  test('one that was paused before the host started is known as that, until it is ordered', async () => {
    const order = newOrder({ bundle: { key: await bundleOf({ 'app.js': ECHO_APP }) } });
    expect((await ask(order)).status).toBe(404);
    await host.pause(order);
    expect((await ask(order)).json().error).toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      message: 'The service is paused.',
    });
    expect(await Array.fromAsync(host.list())).toMatchObject([
      { serviceId: order.id, isPaused: true, instances: [], revision: 0 },
    ]);
    await host.resume(order);
    await isReady(order);
    expect((await ask(order)).status).toBe(200);
    await host.remove(order);
  });

  test('an order that is older than the one before, and a token that is refused, change nothing', async () => {
    const bundle = { key: await bundleOf({ 'app.js': ECHO_APP }) };
    const first = newOrder({ bundle, env: { VERSION: '1' } }, { revision: 5 });
    await host.deploy(first);
    await isReady(first);
    await host.update({ ...first, revision: 4, token: 'old' });
    await host.update({ ...first, revision: 6, token: 'refused' });
    await until(() => host.instanceFor(first.id)).not.toHaveProperty('absence');
    expect((await ask(first)).json().version).toBe('1');
    expect(
      reports
        .filter(({ type, serviceId }) => type === 'ended' && serviceId === first.id)
        .every((report) => report.type === 'ended' && report.reason === 'stopped'),
    ).toBe(true);
    await host.remove(first);
  });
});
