import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { json, startRecorder } from './recorder.ts';

const SDK = fileURLToPath(new URL('../../sdk/python', import.meta.url));
const has = (program: string, ...args: string[]): boolean => spawnSync(program, args, { stdio: 'ignore' }).status === 0;
const OPENSSL = 'openssl';
const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

/** What a program prints as JSON. */
async function python(program: string, env: Readonly<Record<string, string>> = {}) {
  const child = spawn('python3', ['-S', '-c', `import json\n${program}`], {
    env: { PATH: process.env.PATH, PYTHONPATH: SDK, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return JSON.parse(await text(child.stdout));
}

const CALL = `
from agent_platform import AgentClient, PlatformError
try:
    outcome = AgentClient().call_sync("acme/other@v1", {"text": "a"}, timeout=10)
except PlatformError as error:
    outcome = [error.code, str(error)]
`;

async function gatewayOf() {
  const gateway = await startRecorder();
  cleanUps.push(() => gateway.close());
  gateway.answer = (_, response) => json(response, 200, { data: { sum: 3 }, metadata: {} });
  return { gateway, env: { PLATFORM_SERVICE_KEY: 'sk_agent_test', PLATFORM_GATEWAY_URL: gateway.url } };
}

/** A server of raw connections. */
async function rawServer(server: Server, serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.on(server.listenerCount('secureConnection') ? 'secureConnection' : 'connection', serve);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  cleanUps.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

describe.skipIf(!has('python3', '--version'))('the SDK for Python', () => {
  test('an import of a name, and a call, load nothing that is slow to load', async () => {
    const { env } = await gatewayOf();
    const slow = ['asyncio', 'concurrent', 'dataclasses', 'inspect', 'logging', 'subprocess', 'typing'];
    const loaded = await python(
      `${CALL}
outcomes = AgentClient().call_all([("acme/other@v1", None), ("acme/third@v1", {})])
import sys
print(json.dumps([outcome, outcomes, sorted({name.split(".")[0] for name in sys.modules})]))`,
      env,
    );
    expect(loaded.slice(0, 2)).toEqual([{ sum: 3 }, [{ sum: 3 }, { sum: 3 }]]);
    for (const name of slow) expect(loaded[2]).not.toContain(name);
  });

  test('every public name is there, however it is imported', async () => {
    const [names, listed, missing, star, later] = await python(`
import agent_platform
names = agent_platform.__all__
try:
    agent_platform.Absent
    missing = None
except AttributeError as error:
    missing = str(error)
space = {}
exec("from agent_platform import *", space)
later = [agent_platform.storage.get.__name__, agent_platform.agent_client.AgentClient is agent_platform.AgentClient]
print(json.dumps([names, dir(agent_platform), missing, sorted(space), later]))`);
    expect(names).toContain('AgentClient');
    expect(listed).toEqual(expect.arrayContaining(names));
    expect(star).toEqual(expect.arrayContaining(names));
    expect(missing).toContain("'Absent'");
    expect(later).toEqual(['get', true]);
  });

  test('a context has the members that the environment and the headers have', async () => {
    const [fields, names, context, same, client] = await python(
      `
import dataclasses
from agent_platform import AgentClient, CallContext, _context
context = CallContext(call_chain="acme/self@v1", deadline_ms="12")
print(json.dumps([
    [field.name for field in dataclasses.fields(CallContext)], _context.NAMES, context.to_headers(),
    CallContext.from_headers(context.to_headers()) == context and CallContext.from_environment().max_hops == "2",
    AgentClient(context=context)._context,
]))`,
      { PLATFORM_MAX_HOPS: '2' },
    );
    expect(names).toEqual(fields);
    expect(context).toEqual({ 'X-Platform-Call-Chain': 'acme/self@v1', 'X-Platform-Deadline-Ms': '12' });
    expect(same).toBe(true);
    expect(client).toEqual({ call_chain: 'acme/self@v1', deadline_ms: '12' });
  });

  test('calls made at once wait for each other, keep their order, and fail as the first one that failed', async () => {
    const { gateway, env } = await gatewayOf();
    const waiting: (() => void)[] = [];
    gateway.answer = ({ path }, response) => {
      const name = path.split('/')[2]!;
      waiting.unshift(() => {
        if (name.startsWith('bad')) json(response, 400, { error: { code: 'INVALID_INPUT', message: name } });
        else json(response, 200, { data: { name }, metadata: {} });
      });
      if (waiting.length === 5) for (const go of waiting.splice(0)) go();
    };
    const program = (names: readonly string[]) => `
from agent_platform import AgentClient, DependencyCallError
try:
    print(json.dumps(AgentClient().call_all((f"acme/{name}@v1", {}) for name in ${JSON.stringify(names)})))
except DependencyCallError as error:
    print(json.dumps(str(error)))`;
    const answers = await python(program(['a', 'b', 'c', 'd', 'e']), env);
    expect(answers).toEqual(['a', 'b', 'c', 'd', 'e'].map((name) => ({ name })));
    expect(await python(program(['a', 'bad-2', 'c', 'bad-4', 'e']), env)).toBe('bad-2');
    expect(
      await python('from agent_platform import AgentClient\nprint(json.dumps(AgentClient().call_all([])))'),
    ).toEqual([]);
  });

  test.each<[string, string, unknown]>([
    [
      'in chunks',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\n{"da\r\n9\r\nta": "é"\r\n1\r\n}\r\n0\r\nx: y\r\n\r\n',
      { data: 'é' },
    ],
    ['until the connection ends', 'HTTP/1.0 200 OK\r\n\r\n{"data": 1}', { data: 1 }],
    ['after an interim one', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n{}more', {}],
    ['without a body', 'HTTP/1.1 204 No Content\r\n\r\n', ''],
    ['cut off in its body', 'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}', ['NETWORK_ERROR', 'IncompleteRead']],
    [
      'cut off in a chunk',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}',
      ['NETWORK_ERROR', 'IncompleteRead'],
    ],
    [
      'cut off before the last chunk',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n',
      ['NETWORK_ERROR', 'IncompleteRead'],
    ],
    [
      'with a chunk of no length',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{}',
      ['NETWORK_ERROR', 'IncompleteRead'],
    ],
    [
      'without an end of its headers',
      `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(300)}\r\n`,
      ['NETWORK_ERROR', 'more than 100 headers'],
    ],
    ['with an endless line', `HTTP/1.1 200 OK\r\na: ${'b'.repeat(99_999)}`, ['NETWORK_ERROR', 'header line']],
    ['of another protocol', 'SSH-2.0-OpenSSH_9.9\r\n', ['NETWORK_ERROR', 'SSH-2.0']],
    ['of nothing', '', ['NETWORK_ERROR', 'without response']],
  ])('reads an answer %s', async (_, answer, expected) => {
    const port = await rawServer(createServer(), (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(answer));
    });
    const env = { PLATFORM_SERVICE_KEY: 'k', PLATFORM_GATEWAY_URL: `http://127.0.0.1:${port}` };
    const outcome = await python(`${CALL}\nprint(json.dumps(outcome))`, env);
    if (Array.isArray(expected)) expect(outcome).toEqual([expected[0], expect.stringContaining(expected[1])]);
    else expect(outcome).toEqual(expected);
  });

  test('a header of the caller takes the place of ours, and none can add a line', async () => {
    const { gateway, env } = await gatewayOf();
    const program = (headers: object) => `
from agent_platform import Platform
try:
    Platform("key", "${gateway.url}").call("acme/a", {}, headers=json.loads(${JSON.stringify(JSON.stringify(headers))}))
    print("null")
except ValueError as error:
    print(json.dumps(str(error)))`;
    expect(await python(program({ 'user-agent': 'mine', authorization: 'Bearer other' }), env)).toBeNull();
    expect(gateway.requests[0]!.headers).toMatchObject({ 'user-agent': 'mine', authorization: 'Bearer other' });
    for (const headers of [{ a: 'b\r\nc: d' }, { 'a\r\nb': 'c' }]) {
      expect(await python(program(headers), env)).toContain('Invalid header');
    }
    expect(gateway.requests).toHaveLength(1);
  });

  test('asks through a proxy, except what no_proxy names', async () => {
    const { gateway } = await gatewayOf();
    const env = {
      PLATFORM_SERVICE_KEY: 'k',
      PLATFORM_GATEWAY_URL: 'http://platform.test:8080/base',
      http_proxy: gateway.url.replace('//', '//us%65r:pass@'),
    };
    const program = `${CALL}\nprint(json.dumps(outcome))`;
    expect(await python(program, env)).toEqual({ sum: 3 });
    expect(gateway.requests).toMatchObject([
      {
        path: 'http://platform.test:8080/base/acme/other/v1/run',
        headers: {
          host: 'platform.test:8080',
          'proxy-authorization': `Basic ${Buffer.from('user:pass').toString('base64')}`,
        },
      },
    ]);
    for (const no_proxy of ['*', 'test', '.test', 'a.example, Platform.Test', 'platform.test:8080']) {
      expect(await python(program, { ...env, no_proxy })).toMatchObject(['NETWORK_ERROR', expect.anything()]);
    }
    for (const no_proxy of ['', 'platform.test:80', 'form.test', 'xplatform.test']) {
      expect(await python(program, { ...env, no_proxy })).toEqual({ sum: 3 });
    }
    // The variable that a web server's request could set (CGI).
    const { http_proxy, ...others } = env;
    expect(await python(program, { ...others, HTTP_PROXY: http_proxy })).toEqual({ sum: 3 });
    const cgi = { ...others, HTTP_PROXY: http_proxy, REQUEST_METHOD: 'GET' };
    expect(await python(program, cgi)).toMatchObject(['NETWORK_ERROR', expect.anything()]);
  });

  test.skipIf(!has(OPENSSL, 'version'))(
    'speaks TLS, through a proxy too, and with nobody whose certificate it cannot trust',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'sdk-tls-'));
      cleanUps.push(() => rmSync(folder, { recursive: true }));
      const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
      execFileSync(
        OPENSSL,
        ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'].concat([
          '-subj',
          '/CN=platform.test',
          '-addext',
          'subjectAltName=DNS:platform.test',
          '-keyout',
          key,
          '-out',
          cert,
        ]),
        { stdio: 'ignore' },
      );
      const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, () => {});
      const port = await rawServer(server, (socket) => {
        socket.on('error', () => {});
        socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"data": 1}'));
      });
      const tunnels: string[] = [];
      const proxy = await rawServer(createServer(), (socket) => {
        socket.on('error', () => {});
        socket.once('data', (head) => {
          tunnels.push(String(head).split('\r\n')[0]!);
          const upstream = connect(port, '127.0.0.1', () => {
            socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
            socket.pipe(upstream).pipe(socket);
          });
          upstream.on('error', () => socket.destroy());
        });
      });
      const env = {
        PLATFORM_SERVICE_KEY: 'k',
        PLATFORM_GATEWAY_URL: 'https://platform.test',
        HTTPS_PROXY: `http://127.0.0.1:${proxy}`,
        SSL_CERT_FILE: cert,
      };
      const program = `${CALL}\nprint(json.dumps(outcome))`;
      expect(await python(program, env)).toEqual({ data: 1 });
      expect(tunnels).toEqual([expect.stringMatching(/^CONNECT platform\.test:443 HTTP\//)]);
      const { SSL_CERT_FILE: _, ...distrusting } = env;
      expect(await python(program, distrusting)).toMatchObject([
        'NETWORK_ERROR',
        expect.stringContaining('CERTIFICATE'),
      ]);
      const other = { ...env, PLATFORM_GATEWAY_URL: 'https://other.test' };
      expect(await python(program, other)).toMatchObject(['NETWORK_ERROR', expect.stringContaining('CERTIFICATE')]);
      const direct = {
        PLATFORM_SERVICE_KEY: 'k',
        PLATFORM_GATEWAY_URL: `https://127.0.0.1:${port}`,
        SSL_CERT_FILE: cert,
      };
      expect(await python(program, direct)).toMatchObject(['NETWORK_ERROR', expect.stringContaining('CERTIFICATE')]);
    },
  );
});
