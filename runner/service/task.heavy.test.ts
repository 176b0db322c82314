import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { BootDocument } from '#core/ports/service-host.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { noContainer, type RunnerProcess, serveBlobs, startContainer, startRunner } from '#test/helpers/runner.ts';
import { INSTANCE_TOKEN, startServicePlatform, TASK_ID, UNAUTHORIZED } from '#test/helpers/service-platform.ts';
import { zip } from '#test/helpers/zip.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

const APP = `
const { closeSync, openSync, readdirSync, readFileSync } = require('node:fs');
const held = new Set();
process.on('SIGTERM', () => setInterval(() => held.size === 0 && process.exit(0), 20));
console.log('WARNING key ' + process.env.KEY);
require('node:http').createServer((request, response) => {
  const { method, url, headers } = request;
  if (url === '/crash') process.exit(7);
  if (url === '/kill-all') {
    try { process.kill(-1, 'SIGKILL'); } catch {}
    process.kill(process.pid, 'SIGKILL');
  }
  if (url === '/fill-memory') { const all = []; setInterval(() => all.push(Buffer.alloc(32e6, 1)), 5); return; }
  if (url === '/echo') return request.pipe(response);
  if (url === '/hold') { response.write('held '); held.add(response); return; }
  if (url === '/let-go') { for (const each of held) each.end('let go'); response.end(String(held.size)); return held.clear(); }
  if (url === '/events') { response.writeHead(200, { 'content-type': 'text/event-stream' }); response.write('data: 1\\n\\n'); held.add(response); return; }
  if (url === '/processes') {
    const seen = {};
    const attempts = [(path) => readFileSync(path + '/environ', 'latin1'), (path) => closeSync(openSync(path + '/mem', 'r')) ?? 'opened', (path) => readdirSync(path + '/fd').join()];
    for (const pid of readdirSync('/proc').filter((name) => /^\\d+$/.test(name))) {
      seen[pid] = attempts.map((attempt) => { try { return attempt('/proc/' + pid); } catch { return null; } });
    }
    return response.end(JSON.stringify({ env: process.env, own: process.pid, seen }));
  }
  response.end(JSON.stringify({ method, url, headers }));
}).on('upgrade', (request, socket, head) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nConnection: upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n');
  socket.pipe(socket);
}).listen(process.env.PORT);
`;

const root = mkdtempSync(join(tmpdir(), 'service-task-test-'));
const blobs = new FolderBlobs(join(root, 'blobs'));
let links: Awaited<ReturnType<typeof serveBlobs>>;
const closing: (() => unknown)[] = [];
beforeAll(async () => {
  links = await serveBlobs(blobs);
  await blobs.put('bundles/app', zip([{ name: 'app.js', content: APP }]));
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => {
  links.close();
  rmSync(root, { recursive: true });
});

/**
 * Ways to start the runner: isolated like apps on the local host, and like the image on Fargate. The second needs
 * bubblewrap, and is skipped without it.
 */
const KINDS = [
  { kind: 'with namespaces', start: startRunner, egress: 'none', problem: undefined },
  { kind: 'in a container', start: startContainer, egress: 'open', problem: await noContainer() },
] as const;

const until = <T>(look: () => T) => expect.poll(look, { timeout: 60_000, interval: 20 });

async function startPlatform(document: Partial<BootDocument> = {}) {
  const platform = await startServicePlatform({
    bundle: { key: 'bundles/app', url: links.linkTo('bundles/app') },
    ...document,
  });
  closing.push(platform.close);
  return platform;
}

async function startTask(
  { env }: Awaited<ReturnType<typeof startPlatform>>,
  start: (typeof KINDS)[number]['start'] = startRunner,
): Promise<RunnerProcess> {
  const runner = await start(env);
  closing.push(() => runner.kill());
  return runner;
}

async function started({ start, egress }: Pick<(typeof KINDS)[number], 'start' | 'egress'> = KINDS[0]) {
  const platform = await startPlatform({ egress });
  const runner = await startTask(platform, start);
  await until(() => platform.last()?.phase).toBe('ready');
  return { platform, runner };
}

async function begin({ url }: RunnerProcess, path: string, options: RequestOptions = {}, body?: string) {
  const request = httpRequest(url + path, { agent: false, ...options });
  request.end(body);
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  return answer;
}

async function ask(...request: Parameters<typeof begin>) {
  const answer = await begin(...request);
  return { status: answer.statusCode, content: await text(answer) };
}

describe.each(KINDS.filter(({ problem }) => problem === undefined))(
  'an instance $kind',
  { timeout: 120_000 },
  (kind) => {
    test('boots, reports, and carries requests, streams and upgraded connections', async () => {
      const { platform, runner } = await started(kind);
      expect(platform.last()).toMatchObject({
        serviceId: platform.env.PLATFORM_RUNNER_SERVICE,
        instanceId: TASK_ID,
        revision: 4,
        isWorker: false,
        failures: 0,
      });
      expect(await ask(runner, '/health')).toEqual({ status: 200, content: '{"status":"ok"}' });
      expect(await ask(runner, '/health', { method: 'HEAD' })).toEqual({ status: 200, content: '' });
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
        const { content } = await ask(runner, '/health', { method });
        expect(JSON.parse(content)).toMatchObject({ method, url: '/health' });
      }

      const headers = {
        host: 'bot.example.com',
        'x-forwarded-for': '198.51.100.7, 203.0.113.9',
        'x-forwarded-proto': 'https',
      };
      const { content } = await ask(runner, '/a?b', { headers });
      expect(JSON.parse(content)).toMatchObject({
        url: '/a?b',
        headers: { ...headers, 'x-forwarded-host': 'bot.example.com' },
      });
      const direct = JSON.parse((await ask(runner, '/')).content).headers;
      expect(direct).toMatchObject({
        'x-forwarded-for': expect.stringContaining('127.0.0.1'),
        'x-forwarded-proto': 'http',
      });
      const long = 'x'.repeat(3_000_000);
      expect((await ask(runner, '/echo', { method: 'POST' }, long)).content).toBe(long);

      const events = await begin(runner, '/events');
      expect(String((await once(events, 'data'))[0])).toBe('data: 1\n\n');
      events.destroy();

      const socket = connect(Number(new URL(runner.url).port), '127.0.0.1');
      let received = '';
      socket.on('data', (chunk) => {
        received += chunk;
      });
      socket.write('GET /ws HTTP/1.1\r\nHost: bot\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
      await until(() => received).toContain('101 Switching Protocols');
      socket.write('hello');
      await until(() => received).toMatch(/hello$/);
      socket.destroy();

      const lines = runner.lines.map((line) => JSON.parse(line));
      expect(lines).toContainEqual({
        at: expect.any(Number),
        severity: 'WARNING',
        message: 'WARNING key [secret KEY]',
        source: 'app',
      });
      expect(lines[0]).toMatchObject({
        severity: 'INFO',
        message: expect.stringMatching(/^\[platform\]/),
        platform: true,
        source: 'platform',
      });
    });

    test('keeps its token from the app', async () => {
      const { runner } = await started(kind);
      const { env, own, seen } = JSON.parse((await ask(runner, '/processes')).content);
      expect(env).toMatchObject({ PORT: expect.any(String), KEY: 'made-up-secret' });
      expect(Object.keys(env).filter((name) => name.startsWith('PLATFORM_RUNNER') || name.startsWith('ECS_'))).toEqual(
        [],
      );
      const { [own]: itself, ...others } = seen;
      expect(itself).toEqual([expect.stringContaining('made-up-secret'), 'opened', expect.any(String)]);
      expect(Object.keys(others)).toContain('1');
      expect(new Set(Object.values(others).map(String))).toEqual(new Set([',,']));
      expect(runner.lines.join('\n')).not.toContain(INSTANCE_TOKEN);
    });

    test('starts a crashed app again, and answers for it meanwhile', async () => {
      const { platform, runner } = await started(kind);
      expect((await ask(runner, '/crash')).status).toBe(502);
      await until(() => platform.last()).toMatchObject({ phase: 'ready', restarts: 1, failures: 1 });
      expect(platform.last()!.lastEnd).toMatchObject({ exitCode: 7, message: expect.stringContaining('exit code 7') });
      expect((await ask(runner, '/')).status).toBe(200);
      const sequences = platform.reports.map(({ sequence }) => sequence);
      expect(sequences).toEqual([...new Set(sequences)].sort((a, b) => a - b));
    });

    test.each([
      ['/kill-all', /sandbox of the app ended|exit code 137/],
      ['/fill-memory', /more than its 256 MB of memory/],
    ])('opens another place in the same task after %s', async (path, message) => {
      const { platform, runner } = await started(kind);
      await ask(runner, path);
      await until(() => platform.last()).toMatchObject({
        phase: 'ready',
        instanceId: TASK_ID,
        restarts: 1,
        failures: 1,
      });
      expect(platform.last()!.lastEnd!.message).toMatch(message);
      expect((await ask(runner, '/echo', { method: 'POST' }, 'again')).content).toBe('again');
    });

    test('is told to end: requests that have begun are finished, and it ends without an error', async () => {
      const { platform, runner } = await started(kind);
      const held = await begin(runner, '/hold');
      process.kill(runner.pid, 'SIGTERM');
      await until(() => platform.last()?.phase).toBe('stopping');
      expect((await ask(runner, '/health')).status).toBe(503);
      expect(await ask(runner, '/let-go')).toEqual({ status: 200, content: '1' });
      expect(await text(held)).toBe('held let go');
      expect(await runner.ended).toBe(0);
    });
  },
);

describe('an instance in a task of its own', { timeout: 120_000 }, () => {
  test('asks until the platform answers, and reports what it could not report', async () => {
    const platform = await startPlatform();
    platform.boots.push({ status: 500 }, { status: 403, body: { message: 'of a firewall' } }, { status: 503 });
    const runner = await startTask(platform);
    expect((await ask(runner, '/')).status).toBe(503);
    expect((await ask(runner, '/health')).status).toBe(503);
    await until(() => platform.last()?.phase).toBe('ready');
    expect(platform.last()).toMatchObject({ failures: 0, restarts: 0, lastEnd: null });

    platform.refusal = { status: 503 };
    await ask(runner, '/crash');
    const reportsAsked = () => platform.requests.filter((url) => url.endsWith('/reports')).length;
    const before = reportsAsked();
    await until(reportsAsked).toBeGreaterThan(before + 1);
    await until(async () => (await ask(runner, '/')).status).toBe(200);
    platform.refusal = undefined;
    await until(() => platform.last()).toMatchObject({ phase: 'ready', restarts: 1, failures: 1 });
  });

  test('counts a refused document as a failed start, with the reason', async () => {
    const platform = await startPlatform();
    const error = { code: 'MISSING_SECRETS', message: 'The secret BOT_KEY is missing.', is_retryable: false };
    platform.boots.push({ status: 400, body: { error } });
    await startTask(platform);
    await until(() => platform.reports.find(({ phase }) => phase === 'waiting')).toMatchObject({
      revision: 0,
      failures: 1,
      lastEnd: { message: 'The instance did not start: The secret BOT_KEY is missing.' },
    });
    await until(() => platform.last()).toMatchObject({ phase: 'ready', revision: 4, failures: 1, restarts: 1 });
  });

  test('asks for the document again when a link is no longer good', async () => {
    const refusing = createServer((_, response) => response.writeHead(403).end());
    refusing.listen(0, '127.0.0.1');
    await once(refusing, 'listening');
    closing.push(() => void refusing.close().closeAllConnections());
    const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}/old?signature=made-up`;
    const platform = await startPlatform();
    platform.boots.push({ bundle: { key: 'bundles/app', url } });
    const runner = await startTask(platform);
    await until(() => platform.last()?.phase).toBe('ready');
    expect(platform.last()).toMatchObject({ failures: 0 });
    expect(runner.lines.join('\n')).not.toContain('signature');
  });

  test.each(['document', 'reports'])('ends when its token is refused for its %s', async (what) => {
    const platform = await startPlatform();
    if (what === 'document') platform.boots.push(UNAUTHORIZED);
    const runner = await startTask(platform);
    if (what === 'reports') {
      await until(() => platform.last()?.phase).toBe('ready');
      platform.refusal = UNAUTHORIZED;
      await ask(runner, '/crash');
    }
    expect(await runner.ended).toBe(0);
    expect(runner.lines.at(-1)).toContain('its token is no longer good');
  });

  test('is told to end before the platform has answered', async () => {
    const platform = await startPlatform();
    platform.boots.push(...Array.from({ length: 100 }, () => ({ status: 500 })));
    const runner = await startTask(platform);
    await until(() => platform.requests.length).toBeGreaterThan(1);
    process.kill(runner.pid, 'SIGTERM');
    expect(await runner.ended).toBe(0);
  });
});
