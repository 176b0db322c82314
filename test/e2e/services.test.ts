import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clientOf, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectOk } from './expect.ts';

const app = (version: number) => `
const http = require('node:http');
console.log('INFO version ${version} with ' + process.env.BOT_KEY);
http.createServer((request, response) => {
  if (request.url === '/end') process.exit(1);
  response.end(JSON.stringify({ version: ${version}, word: process.env.WORD, key: process.env.BOT_KEY.length, own: Object.keys(process.env).filter((name) => name.startsWith('PLATFORM_')).sort() }));
}).listen(process.env.PORT);`;

describe('a service', async () => {
  const target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  const receiver = await startReceiver();
  const { kind } = await target.deps.sandbox.status();
  let user: TestUser;
  beforeAll(async () => {
    user = await target.addUser('serving');
    expectOk(await api('PUT', '/secrets', { name: 'BOT_KEY', value: 'made-up-bot-key' }));
  });
  afterAll(async () => {
    receiver.close();
    await target.close();
  });

  const api = (method: string, path: string, json?: unknown) =>
    request(target, method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json });
  const publish = (name: string, files: Record<string, string>, command = 'node server.js') =>
    publishCode(clientOf(target, user.key), name, files, {
      run_mode: 'always_on',
      runtime: { command },
      required_secrets: ['BOT_KEY'],
    });
  const deploy = async (body: Record<string, unknown>) => expectOk(await api('POST', '/services', body), 201).service;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  const read = async (id: string): Promise<any> => expectOk(await api('GET', `/services/${id}`)).service;
  const until = <T>(look: () => T) => expect.poll(look, { timeout: 25_000, interval: 100 });

  /** As a browser would: `*.localhost` is this machine. */
  async function ask(service: { service_url: string }, path = '/') {
    const { hostname, port, host } = new URL(service.service_url);
    expect(hostname).toMatch(/\.localhost$/);
    const asked = httpRequest({ host: '127.0.0.1', port, path, headers: { host }, agent: false });
    asked.end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    const content = await text(answer);
    return { status: answer.statusCode, ...(content.startsWith('{') && JSON.parse(content)) };
  }

  test.skipIf(kind === 'none')(
    'lives: deployed, changed, moved to a new version, paused, deleted and deployed again',
    async () => {
      await publish('bot', { 'server.js': app(1) });
      const service = await deploy({ agent: 'serving/bot', env: { WORD: 'one' }, alert_webhook_url: null });
      await until(() => ask(service)).toMatchObject({ status: 200, version: 1, word: 'one', key: 15 });
      const { own } = await ask(service);
      expect(own).toEqual([
        ...['PLATFORM_GATEWAY_URL', 'PLATFORM_HEALTH_PORT', 'PLATFORM_HTTP_PORT'],
        ...['PLATFORM_SERVICE_ID', 'PLATFORM_SERVICE_NAME'],
      ]);
      // The app answers a moment before its instance has noticed that.
      await until(() => read(service.id)).toMatchObject({ current_state: 'running', health_status: 'healthy' });

      // Polled all the time, it is never away.
      const seen = new Set<unknown>();
      const changes = [
        async () => expectOk(await api('PATCH', `/services/${service.id}`, { env: { WORD: 'two' } })),
        async () => {
          const { body } = await api('PUT', '/secrets', { name: 'BOT_KEY', value: 'made-up-key' });
          expect(body.restarted_services).toEqual([{ service_name: 'bot' }]);
        },
        async () => expect((await publish('bot', { 'server.js': app(2) })).upload.services_updated).toBe(1),
      ];
      const wanted = [{ word: 'two' }, { key: 11 }, { version: 2 }];
      for (const [index, change] of changes.entries()) {
        await change();
        await until(async () => {
          const answer = await ask(service);
          seen.add(answer.status);
          return answer;
        }).toMatchObject(wanted[index]!);
      }
      expect([...seen]).toEqual([200]);
      expect(await read(service.id)).toMatchObject({ agent_version: 'v2', restart_count: expect.any(Number) });
      const { logs } = expectOk(await api('GET', `/services/${service.id}/logs?severity=INFO`));
      expect(logs.map(({ message }: { message: string }) => message)).toContain('INFO version 2 with [secret BOT_KEY]');

      const call = await request(target, 'POST', '/serving/bot/latest/run', { key: user.key, json: {} });
      expect([call.status, call.body.error.message]).toEqual([422, expect.stringContaining(service.service_url)]);

      expectOk(await api('PATCH', `/services/${service.id}`, { desired_state: 'stopped' }));
      await until(() => ask(service)).toMatchObject({ status: 503 });
      expectOk(await api('POST', `/services/${service.id}/restart`));
      await until(() => ask(service)).toMatchObject({ status: 200 });

      expectOk(await api('DELETE', `/services/${service.id}`));
      const again = await deploy({ agent: 'serving/bot', service_name: 'bot', env: { WORD: 'three' } });
      await until(() => ask(again)).toMatchObject({ status: 200, word: 'three' });
      await until(() => ask(service)).toMatchObject({ status: 404 });
      expectOk(await api('DELETE', `/services/${again.id}`));

      const usage = expectOk(
        await request(target, 'GET', '/usage/compute', {
          key: user.key,
          headers: { 'x-workspace-id': user.workspaceId },
        }),
      );
      expect(usage.total_service_minutes).toBeGreaterThan(0);
    },
  );

  test.skipIf(kind === 'none')(
    'that crashes again and again is warned of, then paused, until its owner restarts it',
    async () => {
      await publish('falling', { 'server.js': 'console.error("ValueError: no such thing"); process.exit(4)' });
      const service = await deploy({
        agent: 'serving/falling',
        max_restart_failures: 3,
        alert_webhook_url: `${receiver.url}/crash`,
      });
      await until(() => receiver.at('/crash').map(({ body }) => body.auto_paused)).toEqual([false, true]);
      const [warning] = receiver.at('/crash');
      expect(warning!.body).toMatchObject({
        event: 'service.crash_loop',
        service_name: 'falling',
        threshold: 3,
        last_error: expect.stringContaining('ValueError: no such thing'),
      });
      expect(await read(service.id)).toMatchObject({
        current_state: 'paused',
        consecutive_restart_failures: 3,
        auto_paused_at: expect.any(String),
      });
      await publish('falling', { 'server.js': app(5) });
      expectOk(await api('POST', `/services/${service.id}/restart`));
      await until(() => ask(service)).toMatchObject({ status: 200, version: 5 });
      expect(await read(service.id)).toMatchObject({ consecutive_restart_failures: 0, auto_paused_at: null });
      expectOk(await api('DELETE', `/services/${service.id}`));
    },
  );

  test.skipIf(kind === 'none')(
    'of another workspace is out of reach, and its address is nothing of the API',
    async () => {
      await publish('mine', { 'server.js': app(1) });
      const service = await deploy({ agent: 'serving/mine' });
      await until(() => ask(service)).toMatchObject({ status: 200 });
      const other = await target.addUser('other-server');
      const foreign = (path: string) =>
        request(target, 'GET', `/workspaces/${other.workspaceId}${path}`, { key: other.key });
      expect((await foreign(`/services/${service.id}`)).status).toBe(404);
      expect((await foreign(`/services/${service.id}/logs`)).status).toBe(404);
      expect(expectOk(await foreign('/services'))).toEqual({ services: [], total: 0 });
      // The app sees paths of the API at its own address, and the API none of the service.
      expect(await ask(service, '/org')).toMatchObject({ version: 1 });
      const none = await request(target, 'GET', `/services/${service.id.replace(/^./, 'f')}/`);
      expect(none.status).toBe(404);
      // Clients that offer HTTP/2 to the API are answered in HTTP/1.1.
      const { hostname, port } = new URL(target.url);
      const offer = httpRequest({
        ...{ hostname, port, path: '/health', agent: false },
        headers: { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQ' },
      });
      offer.end();
      const [answer] = (await once(offer, 'response')) as [IncomingMessage];
      expect(answer.resume().statusCode).toBe(200);
    },
  );
});
