import { once } from 'node:events';
import type { IncomingMessage, RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';
import { app, ask as askAt, open, serviceUser, shows, until } from '../service-user.ts';

const TEST_LIMIT_MS = 240_000;

/** Calls the agent in its path and answers with the result. */
const CALLING_APP = `
const { PLATFORM_GATEWAY_URL: url, PLATFORM_SERVICE_KEY: key, PORT } = process.env;
console.log('INFO my key is ' + key);
require('node:http').createServer(async (request, response) => {
  const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' };
  const answer = await fetch(url + request.url, { method: 'POST', headers, body: '{}' });
  response.end(JSON.stringify({ called: answer.status, ...(await answer.json()) }));
}).listen(PORT);`;

/** Long-running services. Targets without {@link Target.services} skip tests that need a running one. */
export function servicesSuite(target: () => Target): void {
  const runs = { skip: target().services === undefined, timeout: TEST_LIMIT_MS };
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver();
  });
  afterAll(() => receiver.close());

  const setUp = (name: string) => serviceUser(target(), name);
  const ask = (address: string, ...rest: [path?: string, options?: RequestOptions, body?: Uint8Array]) =>
    askAt(target(), address, ...rest);

  describe.concurrent('services', () => {
    test('answer requests, event streams and WebSockets at their address, and keep a log', runs, async () => {
      const { user, slug, setSecret, publish, deploy, read, addressOf, logs, messagesOf, remove } =
        await setUp('serve-requests');
      expectOk(await setSecret('BOT_KEY', 'made-up-bot-key'));
      await publish('bot', { 'server.js': app(1) }, { required_secrets: ['BOT_KEY'] });
      const id = await deploy({ agent: `${slug}/bot`, env: { WORD: 'one' } });
      const address = await addressOf(id);
      await shows(() => ask(address), { status: 200 });
      // The app answers shortly before its instance is reported as ready.
      await shows(() => read(id), { current_state: 'running', health_status: 'healthy' });
      const upload = await ask(address, '/a/b?c=%20d', { method: 'POST' }, Buffer.alloc(3_000_000, 'x'));
      expect(upload).toMatchObject({ status: 200, version: 1, word: 'one', key: 15, bytes: 3_000_000 });
      const { host, protocol } = new URL(address);
      expect(upload).toMatchObject({ url: '/a/b?c=%20d', host, proto: protocol.replace(':', '') });
      expect(upload.from).toMatch(/^[0-9a-f.:]+(, *[0-9a-f.:]+)*$/);
      expect(upload.own).toEqual([
        ...['PLATFORM_GATEWAY_URL', 'PLATFORM_HEALTH_PORT', 'PLATFORM_HTTP_PORT'],
        ...['PLATFORM_SERVICE_ID', 'PLATFORM_SERVICE_KEY', 'PLATFORM_SERVICE_NAME'],
      ]);
      // The service owns all paths, even those that the API uses, except the gateway's own.
      expect(await ask(address, '/org')).toMatchObject({ status: 200, version: 1 });
      expect(await ask(address, '/health')).toMatchObject({ status: 200 });
      expect(await ask(address, '/health', { method: 'POST' })).toMatchObject({
        status: 200,
        version: 1,
        url: '/health',
      });

      const stream = open(target(), address, '/events');
      stream.end();
      const [events] = (await once(stream, 'response')) as [IncomingMessage];
      const chunks = events[Symbol.asyncIterator]();
      expect(`${(await chunks.next()).value}`).toBe('data: first\n\n');
      await ask(address, '/next');
      expect(`${(await chunks.next()).value}`).toBe('data: second\n\n');
      expect(await chunks.next()).toMatchObject({ done: true });

      const upgrade = open(target(), address, '/socket', {
        headers: {
          ...{ connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
          'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        },
      });
      upgrade.end();
      const [accepted, socket] = (await once(upgrade, 'upgrade')) as [IncomingMessage, Socket];
      expect(accepted.headers['sec-websocket-accept']).toBe('s3pPLMBiTxaQ9kYGzzhZRbK+xOo=');
      for (const message of ['hello', 'again']) {
        // The mask is all zeros.
        socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | message.length, 0, 0, 0, 0]), Buffer.from(message)]));
        const [frame] = (await once(socket, 'data')) as [Buffer];
        expect(`${frame.subarray(2)}`).toBe(message);
      }
      socket.destroy();

      const messages = ['INFO version 1 with [secret BOT_KEY]', 'WARNING something is odd', 'it failed'];
      await until(async () => expect(await messagesOf(id)).toEqual(expect.arrayContaining(messages)));
      const lines = await logs(id);
      expect(lines.every(({ timestamp }) => ISO_TIME.test(timestamp))).toBe(true);
      const said = lines.filter(({ message }) => messages.includes(message));
      expect(new Set(said.map(({ source }) => source))).toEqual(new Set(['app']));
      expect(lines.map(({ timestamp }) => timestamp)).toEqual(lines.map(({ timestamp }) => timestamp).sort());
      expect((await logs(id, '?limit=1')).length).toBe(1);
      const severe = (await logs(id, '?severity=warning')).filter(({ severity }) => severity !== 'WARNING');
      expect(new Set(severe.map(({ severity }) => severity))).toEqual(new Set(['ERROR']));
      const odd = (await logs(id, '?severity=WARNING')).find(({ message }) => message === 'WARNING something is odd')!;
      const since = (await logs(id, `?since=${odd.timestamp}`)).map(({ timestamp }) => timestamp);
      expect(since.length).toBeGreaterThan(0);
      expect(since.every((timestamp) => timestamp >= odd.timestamp)).toBe(true);
      expect(await logs(id, '?since=2100-01-01T00:00:00Z')).toEqual([]);

      const call = await request(target(), 'POST', `/${slug}/bot/latest/run`, { key: user.key, json: {} });
      expectError(call, 422, 'UNPROCESSABLE', address);
      await remove(id);
      const usage = () =>
        request(target(), 'GET', '/usage/compute', {
          key: user.key,
          headers: { 'x-workspace-id': user.workspaceId },
        }).then((answer) => expectOk(answer).total_service_minutes);
      await until(async () => expect(await usage()).toBeGreaterThan(0));
    });

    test('follow their environment, secrets and agent without a missed request', runs, async () => {
      const { slug, api, setSecret, publish, deploy, read, addressOf, messagesOf, remove } =
        await setUp('serve-changes');
      const required_secrets = ['BOT_KEY'];
      expectOk(await setSecret('BOT_KEY', 'made-up-bot-key'));
      await publish('bot', { 'server.js': app(1) }, { required_secrets });
      const id = await deploy({ agent: `${slug}/bot`, env: { WORD: 'one' } });
      const address = await addressOf(id);
      await shows(() => ask(address), { status: 200, word: 'one' });
      await shows(() => read(id), { current_state: 'running' });
      const missed: unknown[] = [];
      const look = async () => {
        const answer = await ask(address);
        if (answer.status !== 200) missed.push(answer);
        return answer;
      };
      expectOk(await api('PATCH', `/services/${id}`, { env: { WORD: 'two' } }));
      await shows(look, { word: 'two' });
      const { restarted_services } = expectOk(await setSecret('BOT_KEY', 'made-up-key'));
      expect(restarted_services).toEqual([{ service_name: 'bot' }]);
      await shows(look, { word: 'two', key: 11 });
      const { upload } = await publish('bot', { 'server.js': app(2) }, { required_secrets });
      expect(upload.services_updated).toBe(1);
      await shows(look, { version: 2, word: 'two', key: 11 });
      expect(missed).toEqual([]);
      expect(await read(id)).toMatchObject({ agent_version: 'v2', consecutive_restart_failures: 0 });
      await until(async () => expect(await messagesOf(id)).toContain('INFO version 2 with [secret BOT_KEY]'));
      await remove(id);
    });

    test('pause and resume, and are deleted and deployed at once under the same name', runs, async () => {
      const { slug, api, publish, deploy, read, addressOf, remove } = await setUp('serve-again');
      await publish('bot', { 'server.js': app(1) });
      const id = await deploy({ agent: `${slug}/bot`, service_name: 'same' });
      const address = await addressOf(id);
      await shows(() => ask(address), { status: 200 });
      expectOk(await api('PATCH', `/services/${id}`, { desired_state: 'stopped' }));
      await shows(() => ask(address), { status: 503 });
      expect(await read(id)).toMatchObject({ current_state: 'paused', service_url: address });
      expectOk(await api('PATCH', `/services/${id}`, { env: { WORD: 'resumed' }, desired_state: 'running' }));
      await shows(() => ask(address), { status: 200, word: 'resumed' });

      await remove(id);
      expectError(await api('DELETE', `/services/${id}`), 404, 'NOT_FOUND');
      const again = await deploy({ agent: `${slug}/bot`, service_name: 'same', env: { WORD: 'three' } });
      const other = await addressOf(again);
      expect(other).not.toBe(address);
      await shows(() => ask(other), { status: 200, word: 'three' });
      await until(async () => expect((await ask(address)).status).not.toBe(200));
      const { services } = expectOk(await api('GET', '/services'));
      expect(services.filter((each: { id: string }) => each.id === again)).toHaveLength(1);
      await shows(() => read(id), { current_state: 'deleted' });
      await remove(again);
    });

    test('call the agents that theirs depends on, with a key that ends with them', runs, async () => {
      needsModel(target());
      const { user, slug, api, setSecret, publish, deploy, addressOf, messagesOf, remove } = await setUp('serve-calls');
      expectOk(await setSecret('ANTHROPIC_API_KEY', 'sk-ant-services-0123456789'));
      const prompt = { type: 'prompt', description: 'x', prompt: 'Do it. [[llm {"text":"{\\"n\\":7}"}]]' };
      for (const name of ['known', 'unknown']) {
        expectOk(await request(target(), 'POST', '/agents', { key: user.key, json: { name, ...prompt } }), 201);
      }
      const dependencies = [{ id: `${slug}/known`, version: 'v1' }];
      const manifest = { manifest_version: 1, dependencies, max_hops: 1, timeout_ms: 60_000 };
      await publish('bot', { 'server.js': CALLING_APP }, { manifest });
      const id = await deploy({ agent: `${slug}/bot` });
      const address = await addressOf(id);
      await shows(() => ask(address, `/${slug}/known/v1/run`), { status: 200, called: 200, data: { n: 7 } });
      expect(await ask(address, `/${slug}/unknown/v1/run`)).toMatchObject({ called: 403 });
      await until(async () => expect(await messagesOf(id)).toContain('INFO my key is [secret PLATFORM_SERVICE_KEY]'));
      const { runs: made } = expectOk(await api('GET', '/runs'));
      expect(made).toMatchObject([{ agent_name: 'known', status: 'completed', trigger_source: 'agent' }]);
      await remove(id);
    });

    test('that are loops run for each request at their address', runs, async () => {
      needsModel(target());
      const { user, slug, api, setSecret, deploy, addressOf, remove } = await setUp('serve-loops');
      expectOk(await setSecret('ANTHROPIC_API_KEY', 'sk-ant-services-0123456789'));
      const turns = [{ toolCalls: [{ name: 'bash', input: { command: 'echo "word: $WORD"' } }] }, { echo: true }];
      // The definition is too large for a record, so every reader must load it from blob storage.
      const prompt = `Do it. [[llm ${JSON.stringify(turns)}]] ${'p'.repeat(150_000)}`;
      const loop = {
        name: 'loop',
        type: 'agent',
        run_mode: 'always_on',
        description: 'x',
        prompt,
        required_secrets: [],
      };
      expectOk(await request(target(), 'POST', '/agents', { key: user.key, json: loop }), 201);
      const id = await deploy({ agent: `${slug}/loop`, env: { WORD: 'one' } });
      const address = await addressOf(id);
      await shows(() => ask(address), { status: 200, agent: `${slug}/loop@v1` });
      const post = (headers = {}) =>
        ask(
          address,
          '/',
          { method: 'POST', headers: { 'content-type': 'application/json', ...headers } },
          Buffer.from('{}'),
        );
      const answer = await post();
      expect(answer.status, JSON.stringify(answer)).toBe(200);
      expect(JSON.stringify(answer.data)).toContain('word: one');
      const stream = open(target(), address, '/', { method: 'POST', headers: { accept: 'text/event-stream' } });
      stream.end('{}');
      const [events] = (await once(stream, 'response')) as [IncomingMessage];
      expect(await text(events)).toMatch(/event: progress\n[\s\S]*event: result\ndata: /);
      const { runs: made } = expectOk(await api('GET', '/runs'));
      expect(made).toMatchObject(Array(2).fill({ agent_name: 'loop', status: 'completed', trigger_source: 'service' }));
      await remove(id);
    });

    test('that crash again and again are warned of, then paused, until their owner restarts them', runs, async () => {
      // A target that reaches a model on this machine also reaches a receiver here.
      needsModel(target());
      const { slug, api, publish, deploy, read, addressOf, remove } = await setUp('serve-crash');
      await publish('falling', { 'server.js': 'console.error("ValueError: no such thing"); process.exit(4)' });
      const id = await deploy({
        agent: `${slug}/falling`,
        // The warning and the pause are seconds apart, because a slow host reports failures in batches.
        max_restart_failures: 4,
        alert_webhook_url: `${receiver.url}/${slug}`,
      });
      const alerts = () => receiver.at(`/${slug}`).map(({ body }) => body.auto_paused);
      await until(async () => expect(alerts()).toEqual([false, true]));
      const [warning] = receiver.at(`/${slug}`);
      expect(warning!.body).toMatchObject({
        event: 'service.crash_loop',
        service_name: 'falling',
        threshold: 4,
        consecutive_restart_failures: expect.toBeOneOf([2, 3]),
        last_error: expect.stringContaining('ValueError: no such thing'),
      });
      expect(await read(id)).toMatchObject({
        current_state: 'paused',
        consecutive_restart_failures: 4,
        auto_paused_at: expect.stringMatching(ISO_TIME),
      });
      const types = async () => (await read(id)).events.map(({ event_type }: { event_type: string }) => event_type);
      const wanted = ['alert_sent', 'auto_paused', 'crash_loop_warning'];
      await until(async () => expect(await types()).toEqual(expect.arrayContaining(wanted)));
      await publish('falling', { 'server.js': app(5) });
      expectOk(await api('POST', `/services/${id}/restart`));
      const address = await addressOf(id);
      await shows(() => ask(address), { status: 200, version: 5 });
      expect(await read(id)).toMatchObject({ consecutive_restart_failures: 0, auto_paused_at: null });
      // A single crash is not a crash loop, so the app restarts by itself.
      const { instance } = await ask(address);
      await ask(address, '/end');
      await shows(() => ask(address), { status: 200, instance: expect.not.stringMatching(instance) });
      await until(async () => expect((await read(id)).restart_count).toBeGreaterThan(1));
      expect(await read(id)).toMatchObject({ desired_state: 'running' });
      await remove(id);
    });

    test('have several instances, which take turns', runs, async () => {
      const { slug, publish, deploy, read, addressOf, remove } = await setUp('serve-many');
      await publish('bot', { 'server.js': app(1) });
      const id = await deploy({ agent: `${slug}/bot`, min_instances: 2 });
      const address = await addressOf(id);
      await shows(() => read(id), { health_status: 'healthy' });
      const seen = new Set<string>();
      await until(async () => {
        const { status, instance } = await ask(address);
        if (status === 200) seen.add(instance);
        expect(seen.size).toBe(2);
      });
      await remove(id);
    });

    test('are shown to members, changed by owners, and out of reach of others', runs, async () => {
      const { user, slug, api, publish, deploy, remove } = await setUp('serve-roles');
      const [member, stranger] = [await target().addUser(`${slug}-member`), await target().addUser(`${slug}-other`)];
      await target().addMember(member, user.workspaceId);
      await publish('bot', { 'server.js': app(1) });
      const id = await deploy({ agent: `${slug}/bot` });
      for (const path of ['', `/${id}`, `/${id}/logs`]) {
        expectOk(await api('GET', `/services${path}`, undefined, member.key));
      }
      const commands = [
        ['POST', '', { agent: `${slug}/bot` }],
        ['PATCH', `/${id}`, { env: {} }],
        ['POST', `/${id}/restart`],
        ['POST', `/${id}/update-version`],
        ['DELETE', `/${id}`],
      ] as const;
      for (const [method, path, json] of commands) {
        expectError(await api(method, `/services${path}`, json, member.key), 403, 'FORBIDDEN', 'Only an owner');
      }
      const foreign = (method: string, path: string, json?: unknown) =>
        request(target(), method, `/workspaces/${stranger.workspaceId}/services${path}`, { key: stranger.key, json });
      for (const [method, path, json] of [['GET', `/${id}`], ['GET', `/${id}/logs`], ...commands.slice(1)] as const) {
        expectError(await foreign(method, path, json), 404, 'NOT_FOUND', id);
      }
      expect(expectOk(await foreign('GET', ''))).toEqual({ services: [], total: 0 });
      const anonymous = await request(target(), 'GET', `/workspaces/${user.workspaceId}/services/${id}`);
      expectError(anonymous, 401, 'UNAUTHORIZED');
      await remove(id);
    });

    test('are not deployed where the body is wrong', async () => {
      const { slug, api, publish } = await setUp('serve-wrong');
      await publish('bot', { 'server.js': app(1) });
      await publish('needy', { 'server.js': app(1) }, { required_secrets: ['DB_URL'] });
      const bot = { agent: `${slug}/bot` };
      const refusals: [object, string | RegExp][] = [
        [{ ...bot, env: { MY_API_KEY: 'x' } }, 'env: "MY_API_KEY" looks like a secret'],
        [{ ...bot, env: { my_password: 'x' } }, 'env: "my_password" looks like a secret'],
        [{ ...bot, env: { PORT: '1' } }, 'env: "PORT" is set by the platform'],
        [{ ...bot, env: { PLATFORM_X: '1' } }, 'env: "PLATFORM_X" is set by the platform'],
        [{ ...bot, env: { PLATFORM_HTTP_PORT: '8080' } }, 'must not be 8080'],
        [{ ...bot, agent_version: 'v7' }, 'has no version v7'],
        [{ ...bot, min_instances: 0 }, 'min_instances'],
        [{ ...bot, min_instances: 3, max_instances: 2 }, 'min_instances: 3 is more'],
        [{ ...bot, max_instances: 1000 }, 'max_instances'],
        [{ ...bot, max_restart_failures: 51 }, 'max_restart_failures'],
        [{ ...bot, args: ['x'] }, 'args'],
      ];
      for (const [body, message] of refusals) {
        const answer = await api('POST', '/services', body);
        expectError(answer, 400, 'INVALID_INPUT', message);
      }
      const needy = await api('POST', '/services', { agent: `${slug}/needy`, secret_names: ['NOT_THERE'] });
      expectError(needy, 400, 'MISSING_SECRETS', 'DB_URL, NOT_THERE');
      const unknown = await api('POST', '/services', { agent_id: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' });
      expectError(unknown, 404, 'NOT_FOUND');
      expect(expectOk(await api('GET', '/services'))).toEqual({ services: [], total: 0 });
    });
  });
}
