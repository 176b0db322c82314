import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { HttpOutbound, type HttpOutboundOptions } from './http-outbound.ts';

const PUBLIC = '93.184.216.34';
const OWN = ['127.0.0.1'];
const BODY = '{"event":"test"}';

const outbound = (options: Partial<HttpOutboundOptions> = {}) =>
  new HttpOutbound({ clock: new SystemClock(), ownHosts: [], ...options });

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

interface Received {
  readonly method?: string;
  readonly url?: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** A receiver that answers with `answer`, by default 204. */
async function receiver(
  answer: (response: ServerResponse, request: IncomingMessage) => void = (response) => response.writeHead(204).end(),
) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request;
    received.push({ method, url, headers, body: Buffer.concat(await request.toArray()).toString() });
    answer(response, request);
  });
  const port = await listen(server);
  onTestFinished(() => server.closeAllConnections());
  return { server, received, port, url: `http://127.0.0.1:${port}/hook?x=1` };
}

test('POSTs the body with the headers', async () => {
  const { url, received, port } = await receiver();
  const headers = { 'webhook-id': 'msg_1' };
  expect(await outbound({ ownHosts: OWN }).post({ url, body: BODY, headers })).toEqual({ ok: true, status: 204 });
  expect(received).toMatchObject([
    {
      method: 'POST',
      url: '/hook?x=1',
      body: BODY,
      headers: {
        host: `127.0.0.1:${port}`,
        'webhook-id': 'msg_1',
        'content-type': 'application/json',
        'content-length': String(BODY.length),
      },
    },
  ]);
});

test('checks the certificate for the name, not for the address that it connects to', async () => {
  const fixture = (name: string) => readFileSync(join(import.meta.dirname, '../../test/fixtures/tls', name), 'utf8');
  const server = createSecureServer({ key: fixture('key.pem'), cert: fixture('certificate.pem') }, (_, response) =>
    response.writeHead(200).end(),
  );
  const port = await listen(server);
  const post = (host: string) =>
    outbound({ ownHosts: ['*.example.com'], resolve: async () => ['127.0.0.1'] }).post({
      url: `https://${host}:${port}/`,
      body: BODY,
    });
  expect(await post('hooks.example.com')).toMatchObject({ ok: false, problem: expect.stringContaining('SELF_SIGNED') });
  const before = getCACertificates('default');
  onTestFinished(() => setDefaultCACertificates(before));
  setDefaultCACertificates([...before, fixture('certificate.pem')]);
  expect(await post('hooks.example.com')).toEqual({ ok: true, status: 200 });
  expect(await post('other.example.com')).toMatchObject({ ok: false, problem: expect.stringContaining('ALTNAME') });
});

test.each([400, 401, 404, 410, 429, 500, 503])('an answer of %i is a failure that may be retried', async (status) => {
  const { url } = await receiver((response) => response.writeHead(status).end('a page with a secret'));
  expect(await outbound({ ownHosts: OWN }).post({ url, body: BODY })).toEqual({
    ok: false,
    problem: `it answered ${status}`,
    isFinal: false,
  });
});

test('a refused connection is a failure that may be retried', async () => {
  const { server, url } = await receiver();
  server.close();
  expect(await outbound({ ownHosts: OWN }).post({ url, body: BODY })).toEqual({
    ok: false,
    problem: 'it cannot be reached (ECONNREFUSED)',
    isFinal: false,
  });
});

test('an unknown name is a failure that may be retried', async () => {
  const resolve = () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' }));
  expect(await outbound({ resolve }).post({ url: 'https://gone.example.com/', body: BODY })).toEqual({
    ok: false,
    problem: 'it cannot be reached (ENOTFOUND)',
    isFinal: false,
  });
});

test.each([
  '127.0.0.1',
  '::1',
  '::ffff:127.0.0.1',
  '10.0.0.1',
  '172.16.0.1',
  '192.168.0.1',
  '100.64.0.1',
  '169.254.169.254',
  'fd00:ec2::254',
  '0.0.0.0',
])('a name that resolves to %s is refused, and nothing is connected to', async (address) => {
  const dial = vi.fn();
  const result = await outbound({ resolve: async () => [address], connect: dial }).post({
    url: 'https://hooks.example.com/',
    body: BODY,
  });
  expect(result).toEqual({
    ok: false,
    problem: 'hooks.example.com is not an address of the public internet',
    isFinal: true,
  });
  expect(dial).not.toHaveBeenCalled();
});

test('of a name with public and private addresses only the public ones are tried', async () => {
  const tried: string[] = [];
  const dial = (address: string) => {
    tried.push(address);
    // No server listens there.
    return connect({ host: '127.0.0.1', port: 1 });
  };
  const resolve = async () => ['10.0.0.1', PUBLIC, '127.0.0.1', '2606:4700:4700::1111'];
  await outbound({ resolve, connect: dial }).post({ url: 'https://hooks.example.com/', body: BODY });
  expect(tried).toEqual([PUBLIC, '2606:4700:4700::1111']);
});

/** A DNS server that answers successive A queries with the next of `addresses`, and repeats the last one. */
async function dnsServer(addresses: readonly string[]) {
  const socket = createSocket('udp4');
  let asked = 0;
  socket.on('message', (question, from) => {
    const address = addresses[Math.min(asked++, addresses.length - 1)]!;
    const head = Buffer.from([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]);
    const end = question.indexOf(0, 12) + 5;
    socket.send(Buffer.concat([question.subarray(0, 2), head, question.subarray(12, end), answer]), from.port);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  onTestFinished(() => void socket.close());
  const resolver = new Resolver();
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  return { resolve: (host: string) => resolver.resolve4(host), asked: () => asked };
}

test('a name is resolved once a try, so a name that turns private after the check leads to the checked address', async () => {
  const { received, port } = await receiver();
  const dns = await dnsServer([PUBLIC, '127.0.0.1']);
  const tried: string[] = [];
  const dial = (address: string) => {
    tried.push(address);
    return connect({ host: '127.0.0.1', port: 1 });
  };
  const target = { url: `https://rebind.example.com:${port}/`, body: BODY };
  const client = outbound({ resolve: dns.resolve, connect: dial });
  expect(await client.post(target)).toMatchObject({ ok: false, isFinal: false });
  expect([tried, dns.asked()]).toEqual([[PUBLIC], 1]);
  // The next attempt resolves the name again, to the private address.
  expect(await client.post(target)).toMatchObject({ ok: false, isFinal: true });
  expect([tried, dns.asked(), received]).toEqual([[PUBLIC], 2, []]);
});

test('a connection whose peer is not public is closed before anything is sent', async () => {
  const { received, port, server } = await receiver();
  const heard: Buffer[] = [];
  server.on('connection', (socket) => socket.on('data', (chunk: Buffer) => heard.push(chunk)));
  const closed = once(server, 'connection').then(([socket]) => once(socket, 'close'));
  const result = await outbound({
    resolve: async () => [PUBLIC],
    // Simulates a network that rewrites addresses.
    connect: () => connect({ host: '127.0.0.1', port }),
  }).post({ url: 'https://hooks.example.com/', body: BODY });
  expect(result).toEqual({
    ok: false,
    problem: 'hooks.example.com led to an address that is not of the public internet',
    isFinal: true,
  });
  await closed;
  expect([received, heard]).toEqual([[], []]);
});

test('follows a redirect that repeats the POST', async () => {
  const end = await receiver();
  const start = await receiver((response) => response.writeHead(307, { location: end.url }).end());
  expect(await outbound({ ownHosts: OWN }).post({ url: start.url, body: BODY })).toEqual({ ok: true, status: 204 });
  expect(end.received).toMatchObject([{ method: 'POST', body: BODY }]);
});

test.each([301, 302, 303])('does not follow a redirect of %i, which would turn the POST into a GET', async (status) => {
  const end = await receiver();
  const start = await receiver((response) => response.writeHead(status, { location: end.url }).end());
  expect(await outbound({ ownHosts: OWN }).post({ url: start.url, body: BODY })).toEqual({
    ok: false,
    problem: `it answered ${status}`,
    isFinal: false,
  });
  expect(end.received).toEqual([]);
});

test.each([
  ['a private address', 'https://10.0.0.1/'],
  ['metadata', 'http://169.254.169.254/latest/meta-data/'],
  ['IPv6 loopback', 'https://[::1]/'],
  ['a name that is private', 'https://inside.example.com/'],
  ['a host that is not the operator’s, in plain', 'http://hooks.example.com/'],
  ['a file', 'file:///etc/passwd'],
])('does not follow a redirect to %s', async (_, location) => {
  const { url } = await receiver((response) => response.writeHead(307, { location }).end());
  const dialled: string[] = [];
  const result = await outbound({
    ownHosts: OWN,
    resolve: async () => ['10.0.0.1'],
    connect: (host, port) => {
      dialled.push(host);
      return connect({ host, port });
    },
  }).post({ url, body: BODY });
  expect(result).toMatchObject({ ok: false, isFinal: true });
  expect(dialled).toEqual(['127.0.0.1']);
});

test('endless redirects are a failure', async () => {
  const { url, received } = await receiver((response, { url: path }) =>
    response.writeHead(308, { location: path }).end(),
  );
  const result = await outbound({ ownHosts: OWN }).post({ url, body: BODY });
  expect(result).toMatchObject({ ok: false, problem: 'it redirected too often' });
  expect(received).toHaveLength(4);
});

test('an endless body is not read, and its connection is closed', async () => {
  const closed = Promise.withResolvers<void>();
  const { url } = await receiver((response) => {
    response.writeHead(200);
    const pour = () => {
      while (response.write('x'.repeat(65_536)));
      response.once('drain', pour);
    };
    response.on('close', closed.resolve);
    pour();
  });
  expect(await outbound({ ownHosts: OWN }).post({ url, body: BODY })).toEqual({ ok: true, status: 200 });
  await closed.promise;
});

test('endless headers are a failure', async () => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.write(`HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(100_000)}`);
  });
  const port = await listen(server);
  expect(await outbound({ ownHosts: OWN }).post({ url: `http://127.0.0.1:${port}/`, body: BODY })).toMatchObject({
    ok: false,
    problem: 'it cannot be reached (HPE_HEADER_OVERFLOW)',
  });
});

test('an answer that is not HTTP is a failure', async () => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.end('220 mail.example.com ESMTP\r\n');
  });
  const port = await listen(server);
  expect(await outbound({ ownHosts: OWN }).post({ url: `http://127.0.0.1:${port}/`, body: BODY })).toMatchObject({
    ok: false,
    isFinal: false,
  });
});

test.each([
  ['does not answer', () => {}],
  ['greets on and on', (socket: Socket) => socket.write('HTTP/1.1 102 Processing\r\n\r\n')],
])('a server that %s is given up after 10 seconds', async (_, greet) => {
  const connected = Promise.withResolvers<void>();
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    greet(socket);
    connected.resolve();
  });
  const port = await listen(server);
  const clock = new ManualClock();
  const result = outbound({ ownHosts: OWN, clock }).post({ url: `http://127.0.0.1:${port}/`, body: BODY });
  await connected.promise;
  await clock.advance(9_999);
  expect(clock.sleepers).toBe(1);
  await clock.advance(1);
  expect(await result).toEqual({ ok: false, problem: 'it did not answer within 10 seconds', isFinal: false });
  expect(clock.sleepers).toBe(0);
});

test('a try ends after 10 seconds if the resolver does not answer', async () => {
  const clock = new ManualClock();
  const result = outbound({ clock, resolve: () => new Promise(() => {}) }).post({
    url: 'https://hooks.example.com/',
    body: BODY,
  });
  await clock.advance(10_000);
  expect(await result).toMatchObject({ ok: false, problem: 'it did not answer within 10 seconds' });
});

test('a body over the limit throws', async () => {
  await expect(outbound().post({ url: 'https://hooks.example.com/', body: 'x'.repeat(65_537) })).rejects.toThrow(
    '65536',
  );
});

describe('GET', () => {
  const read = (url: string, maxBytes = 100, options: Partial<HttpOutboundOptions> = { ownHosts: OWN }) =>
    outbound(options).get(url, maxBytes);

  test('returns the body, after any redirect', async () => {
    const { url, received } = await receiver((response, { url: path }) => {
      if (path === '/hook?x=1') response.writeHead(301, { location: '/there' }).end('moved');
      else response.writeHead(200).end('{"ä": 1}');
    });
    expect(await read(url)).toBe('{"ä": 1}');
    expect(received.map(({ method, url: path, body }) => [method, path, body])).toEqual([
      ['GET', '/hook?x=1', ''],
      ['GET', '/there', ''],
    ]);
    expect(received[0]!.headers).not.toHaveProperty('content-length');
  });

  test('refuses a body that is too long, without reading its end', async () => {
    const { url } = await receiver((response) => {
      response.writeHead(200);
      response.write('x'.repeat(101));
    });
    await expect(read(url)).rejects.toThrow('its answer is longer than 100 bytes');
  });

  test('a body that breaks off is a failure', async () => {
    const { url } = await receiver((response) => {
      response.writeHead(200, { 'content-length': '50' });
      response.write('half', () => response.destroy());
    });
    await expect(read(url)).rejects.toThrow('it cannot be reached (ECONNRESET)');
  });

  test('other answers are failures, without their text', async () => {
    const { url } = await receiver((response) => response.writeHead(403).end('a page with a secret'));
    await expect(read(url)).rejects.toThrow(/^it answered 403$/);
  });

  test('a redirect to a private address is refused', async () => {
    const { url } = await receiver((response) => response.writeHead(302, { location: 'https://10.0.0.1/' }).end());
    await expect(read(url)).rejects.toThrow('10.0.0.1 is not an address of the public internet');
  });

  test('what does not end is given up after ten seconds', async () => {
    const clock = new ManualClock();
    const { url, received } = await receiver((response) => {
      response.writeHead(200);
      response.write('{');
    });
    const reading = read(url, 100, { ownHosts: OWN, clock });
    const failed = expect(reading).rejects.toThrow('it did not answer within 10 seconds');
    await expect.poll(() => received.length).toBe(1);
    await clock.advance(10_000);
    await failed;
    expect(clock.sleepers).toBe(0);
  });
});

describe('an exchange', () => {
  const exchange = (url: string, options: Partial<HttpOutboundOptions> = {}, signal = new AbortController().signal) =>
    outbound({ ownHosts: OWN, ...options }).exchange({
      method: 'POST',
      url,
      headers: { 'x-a': '1' },
      body: BODY,
      signal,
    });
  const textOf = async (body: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(body)).toString();

  test('returns the answer, whatever its status', async () => {
    const { url, received } = await receiver((response) => response.writeHead(418, { 'X-B': ['1', '2'] }).end('short'));
    const { status, headers, body } = await exchange(url);
    expect({ status, text: await textOf(body) }).toEqual({ status: 418, text: 'short' });
    expect(headers).toMatchObject({ 'x-b': '1, 2' });
    expect(received).toMatchObject([{ method: 'POST', body: BODY, headers: { 'x-a': '1' } }]);
  });

  test('does not follow redirects', async () => {
    const target = await receiver();
    const { url } = await receiver((response) => response.writeHead(307, { location: target.url }).end());
    expect((await exchange(url)).status).toBe(307);
    expect(target.received).toEqual([]);
  });

  test.each([
    ['http://example.com/', {}, 'must begin with https://'],
    ['https://10.0.0.1/', {}, '10.0.0.1 is not an address of the public internet'],
    [
      'https://example.com/',
      { resolve: async () => ['127.0.0.1'] },
      'example.com is not an address of the public internet',
    ],
  ])('with %s is refused', async (url, options, message) => {
    await expect(exchange(url, options)).rejects.toMatchObject({
      code: 'OUTBOUND_FAILED',
      isFinal: true,
      message: expect.stringContaining(message),
    });
  });

  test('that breaks off says so while its body is read', async () => {
    const { url } = await receiver((response) => response.write('first', () => response.destroy()));
    const { body } = await exchange(url);
    await expect(textOf(body)).rejects.toMatchObject({ code: 'OUTBOUND_FAILED', isFinal: false });
  });

  test.each(['before the answer', 'in the answer'])('is ended by the signal %s', async (when) => {
    const stop = new AbortController();
    const { url, server } = await receiver((response) => {
      if (when === 'in the answer') response.write('first');
      else stop.abort(new Error('enough'));
    });
    const reading = exchange(url, {}, stop.signal).then(async ({ body }) => {
      for await (const _ of body) stop.abort(new Error('enough'));
    });
    await expect(reading).rejects.toThrow('enough');
    const connections = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    await expect.poll(connections).toBe(0);
  });

  test('whose body is not read to its end closes its connection', async () => {
    const { url, server } = await receiver((response) => response.write('x'.repeat(100_000)));
    for await (const _ of (await exchange(url)).body) break;
    const connections = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    await expect.poll(connections).toBe(0);
  });
});
