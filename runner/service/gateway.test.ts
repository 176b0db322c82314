import { once } from 'node:events';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type RequestListener,
  type RequestOptions,
  type Server,
} from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { ServiceGateway, type Via } from './gateway.ts';

const VIA: Via = { addresses: '192.0.2.7', client: '192.0.2.7', proto: 'https' };
const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;

async function listening<T extends { listen(port: number, host: string): T; close(): void }>(server: T): Promise<T> {
  server.listen(0, '127.0.0.1');
  await once(server as never, 'listening');
  open.push(server);
  return server;
}

/** Starts a gateway in front of `app`, and counts its connections. */
async function gatewayTo(app: Server | ReturnType<typeof createTcpServer> | undefined, via: Via = VIA) {
  const dialled: Socket[] = [];
  const gateway = new ServiceGateway({
    async connect() {
      if (!app) return undefined;
      const socket = connect(portOf(app), '127.0.0.1');
      dialled.push(socket);
      await once(socket, 'connect');
      return socket;
    },
    absence: () => 'The app has ended and is started again.',
  });
  const viaOf = ({ headers }: IncomingMessage) => ({ ...via, client: String(headers['x-test-client'] ?? via.client) });
  const front = await listening(
    createServer((request, response) => gateway.request(request, response, viaOf(request))),
  );
  front.on('upgrade', (request, socket, head) => gateway.upgrade(request, socket, head, viaOf(request)));
  open.push({ close: () => gateway.close() }, { close: () => front.closeAllConnections() });
  return { port: portOf(front), dialled, gateway };
}

const behind = async (handler: RequestListener, via?: Via) => gatewayTo(await listening(createServer(handler)), via);

function ask(port: number, options: RequestOptions = {}, body?: string): Promise<IncomingMessage> {
  const request = httpRequest({ port, host: '127.0.0.1', agent: false, ...options });
  request.end(body);
  return once(request, 'response').then(([answer]) => answer);
}

const headersOf = async (answer: IncomingMessage) => JSON.parse(await text(answer)) as Record<string, string>;

describe('a request', () => {
  test('reaches the app as it was sent, but for headers of the connection and of its way', async () => {
    const { port } = await behind(({ method, url, rawHeaders }, response) =>
      response.end(JSON.stringify({ method, url, rawHeaders })),
    );
    const headers = [
      ...[
        'Host',
        'bot.example.org',
        'X-Mixed',
        'One',
        'X-Mixed',
        'Two',
        'Connection',
        'close, X-Secret',
        'X-Secret',
        '1',
      ],
      ...['Keep-Alive', 'timeout=9', 'Proxy-Authorization', 'x', 'Te', 'trailers', 'Forwarded', 'for=6.6.6.6'],
      ...['X-Forwarded-For', '6.6.6.6', 'X-Forwarded-Prefix', '/evil', 'Authorization', 'Bearer app'],
    ];
    const answer = await ask(port, {
      method: 'PATCH',
      path: '/a/../b?x=%2F',
      headers: headers as never,
      setHost: false,
    });
    expect(JSON.parse(await text(answer))).toEqual({
      method: 'PATCH',
      url: '/a/../b?x=%2F',
      rawHeaders: [
        ...[
          'Host',
          'bot.example.org',
          'X-Mixed',
          'One',
          'X-Mixed',
          'Two',
          'Te',
          'trailers',
          'Authorization',
          'Bearer app',
        ],
        ...['x-forwarded-for', '192.0.2.7', 'x-forwarded-proto', 'https', 'x-forwarded-host', 'bot.example.org'],
        // The client announces a chunked body and sends an empty one.
        ...['transfer-encoding', 'chunked', 'Connection', 'keep-alive'],
      ],
    });
  });

  test("tells no address or host of its own as the platform's, in whichever spelling", async () => {
    const { port } = await behind((request, response) => response.end(JSON.stringify(Object.keys(request.headers))));
    const strange = {
      'x-forwarded-for': '10.0.0.1',
      X_Forwarded_For: '10.0.0.1',
      'X-Forwarded_Host': 'a',
      Forwarded: 'for=a',
    };
    const names = JSON.parse(await text(await ask(port, { headers: { ...strange, 'x-real_ip': 'kept' } })));
    const forwarded = names.filter((name: string) => name.includes('forwarded'));
    expect(forwarded.sort()).toEqual(['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto']);
    expect(names).toContain('x-real_ip');
  });

  test('is answered as the app answers', async () => {
    const { port } = await behind((_, response) => {
      response.writeHead(418, 'Short and stout', [
        ...['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'Keep-Alive', 'timeout=1', 'Connection', 'X-Own', 'X-Own', 'x'],
      ]);
      response.end('tea');
    });
    const answer = await ask(port);
    expect([answer.statusCode, answer.statusMessage]).toEqual([418, 'Short and stout']);
    expect(answer.headers['set-cookie']).toEqual(['a=1', 'b=2']);
    expect(answer.headers).not.toHaveProperty('x-own');
    expect(await text(answer)).toBe('tea');
  });

  test.each(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'POST'])('%s needs no body, and gets none', async (method) => {
    const { port } = await behind(async (request, response) => response.end(JSON.stringify(await text(request))));
    const answer = await ask(port, { method });
    expect([answer.statusCode, await text(answer)]).toEqual([200, method === 'HEAD' ? '' : '""']);
  });

  test('and its answer are carried as they come, with their trailers', async () => {
    const { port } = await behind((request, response) => {
      response.setHeader('trailer', 'x-sum');
      request.on('data', (chunk) => response.write(chunk));
      request.on('end', () => {
        response.addTrailers({ 'x-sum': `${request.trailers['x-in']}!` });
        response.end();
      });
    });
    const request = httpRequest({ port, method: 'POST', headers: { trailer: 'x-in', te: 'trailers' } });
    for (const part of ['one', 'two']) {
      request.write(part);
      const answer: IncomingMessage = await (part === 'one' ? once(request, 'response').then(([it]) => it) : answered!);
      answered = answer;
      const [echo] = await once(answer, 'data');
      expect(String(echo)).toBe(part);
    }
    request.addTrailers({ 'x-in': '7' });
    request.end();
    answered!.resume();
    await once(answered!, 'end');
    expect(answered!.trailers).toEqual({ 'x-sum': '7!' });
  });
  let answered: IncomingMessage | undefined;

  test('of many megabytes is carried without keeping them', async () => {
    const CHUNK = Buffer.alloc(1024 * 1024, 'x');
    const { port } = await behind(async (request, response) => {
      let bytes = 0;
      for await (const chunk of request) bytes += chunk.length;
      response.write(String(bytes));
      for (let i = 0; i < 24; i++) if (!response.write(CHUNK)) await once(response, 'drain');
      response.end();
    });
    const request = httpRequest({ port, method: 'PUT' });
    for (let i = 0; i < 24; i++) if (!request.write(CHUNK)) await once(request, 'drain');
    request.end();
    const [answer] = await once(request, 'response');
    const before = process.memoryUsage().arrayBuffers;
    // Not read for a while, so that the app's data must wait in the app.
    await sleep(200);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(12 * 1024 * 1024);
    let bytes = 0;
    for await (const chunk of answer) bytes += chunk.length;
    expect(bytes).toBe(24 * CHUNK.length + String(24 * CHUNK.length).length);
  });

  test('that its client breaks off breaks off in the app', async () => {
    const begun = Promise.withResolvers<IncomingMessage>();
    const { port } = await behind((request) => begun.resolve(request));
    const request = httpRequest({ port, method: 'POST' }).on('error', () => {});
    request.write('half');
    const seen = await begun.promise;
    request.destroy();
    await expect(text(seen)).rejects.toThrow('aborted');
  });

  test('uses a connection again', async () => {
    const { port, dialled } = await behind((_, response) => response.end('ok'));
    for (let i = 0; i < 5; i++) expect(await text(await ask(port))).toBe('ok');
    expect(dialled).toHaveLength(1);
  });

  test('is sent again where the app closed a kept connection unseen, unless it has a body or must not count twice', async () => {
    let served = 0;
    const app = await listening(
      createTcpServer((socket) => {
        socket.on('error', () => {});
        let first = true;
        socket.on('data', () => {
          if (!first) return socket.resetAndDestroy();
          first = false;
          served += 1;
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
        });
      }),
    );
    const { port } = await gatewayTo(app);
    expect((await ask(port)).resume().statusCode).toBe(200);
    expect((await ask(port)).resume().statusCode).toBe(200);
    expect(served).toBe(2);
    expect((await ask(port, { method: 'POST' }, 'x')).resume().statusCode).toBe(502);
    expect(served).toBe(2);
    // An app that crashes while it handles the request closes the connection the same way.
    for (const method of ['POST', 'PATCH']) {
      expect((await ask(port)).resume().statusCode).toBe(200);
      const before = served;
      const answer = await ask(port, { method, headers: { 'content-length': '0' } });
      expect([answer.resume().statusCode, served]).toEqual([502, before]);
    }
  });
});

describe('the gateway itself answers', () => {
  test('503 while the app does not listen', async () => {
    const { port } = await gatewayTo(undefined);
    const answer = await ask(port, { method: 'POST' }, 'x'.repeat(100_000));
    expect(answer.statusCode).toBe(503);
    expect(answer.headers['retry-after']).toBe('2');
    expect(await headersOf(answer)).toMatchObject({
      error: { code: 'SERVICE_UNAVAILABLE', message: 'The app has ended and is started again.', is_retryable: true },
      metadata: { request_id: expect.stringMatching(/^req_[0-9a-f]{32}$/) },
    });
  });

  test.each([
    ['closes the connection', (socket: Socket) => socket.destroy()],
    ['answers garbage', (socket: Socket) => socket.end('hello there\r\n\r\n')],
    ['answers half a header', (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-le')],
    ['answers a status that is none', (socket: Socket) => socket.end('HTTP/1.1 42 Odd\r\n\r\n')],
  ])('502 if the app %s', async (_, behave) => {
    const app = await listening(
      createTcpServer((socket) => void socket.once('data', () => behave(socket)).on('error', () => {})),
    );
    const { port } = await gatewayTo(app);
    const answer = await ask(port);
    expect([answer.statusCode, (await headersOf(answer)).error]).toEqual([
      502,
      expect.objectContaining({ code: 'SERVICE_ERROR', is_retryable: false }),
    ]);
  });

  test('nothing more where the app ends in the middle of its answer: the client sees that it is not whole', async () => {
    const { port } = await behind((_, response) => {
      response.write('half');
      setTimeout(() => response.destroy(), 20);
    });
    const answer = await ask(port);
    await expect(text(answer)).rejects.toThrow('aborted');
  });

  test('503 to more connections than an instance may have', async () => {
    const waiting: (() => void)[] = [];
    const { port } = await behind((_, response) => waiting.push(() => response.end('ok')));
    const calls = Array.from({ length: 201 }, (_, index) =>
      ask(port, { headers: { 'x-test-client': `192.0.2.${index % 4}` } }),
    );
    await expect.poll(() => waiting.length).toBe(200);
    const refused = await Promise.race(calls);
    expect(refused.statusCode).toBe(503);
    for (const end of waiting) end();
    const statuses = await Promise.all(calls.map(async (call) => (await call).resume().statusCode));
    expect(statuses.filter((status) => status === 200)).toHaveLength(200);
  });
});

describe('an upgraded connection', () => {
  const echo = async () => {
    const app = await listening(createServer());
    app.on('upgrade', (request, socket: Socket, head) => {
      if (request.url === '/no') return socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno');
      if (request.url === '/gone') return socket.destroy();
      socket.on('error', () => {});
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: ${request.headers.upgrade}\r\nX-For: ${request.headers['x-forwarded-for']}\r\n\r\nwelcome `,
      );
      socket.write(head);
      socket.pipe(socket);
    });
    return gatewayTo(app);
  };
  const dial = async (port: number, path: string) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\nfirst `);
    return { socket, received: () => received };
  };

  test('of any protocol is carried in both directions', async () => {
    const { port } = await echo();
    const { socket, received } = await dial(port, '/');
    await expect.poll(received).toContain('welcome first ');
    expect(received()).toMatch(/^HTTP\/1.1 101 Switching Protocols\r\n/);
    expect(received()).toContain('X-For: 192.0.2.7\r\n');
    expect(received()).toContain('upgrade: chat/2\r\n');
    socket.write('second');
    await expect.poll(received).toContain('first second');
    socket.end();
    await once(socket, 'close');
  });

  test('that the app declines is answered so', async () => {
    const { port } = await echo();
    const { socket, received } = await dial(port, '/no');
    await once(socket, 'close');
    expect(received()).toMatch(/^HTTP\/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno$/);
  });

  test('is answered 502 or 503 where the app is not there', async () => {
    for (const [{ port }, status] of [
      [await echo(), 502],
      [await gatewayTo(undefined), 503],
    ] as const) {
      const { socket, received } = await dial(port, '/gone');
      await once(socket, 'close');
      expect(received()).toContain(`HTTP/1.1 ${status} `);
      expect(received()).toContain('"code":"SERVICE_');
    }
  });

  test('ends with its client, and with the gateway', async () => {
    const { port, dialled, gateway } = await echo();
    const [one, other] = [await dial(port, '/'), await dial(port, '/')];
    await expect.poll(() => one.received() && other.received()).toContain('welcome');
    one.socket.destroy();
    await expect.poll(() => dialled.filter((socket) => socket.destroyed).length).toBe(1);
    gateway.close();
    await once(other.socket, 'close');
  });
});
