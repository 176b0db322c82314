import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type RequestListener } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { mayUpgrade, ServiceGateway } from './gateway.ts';

// Each test starts processes that wait for one another.
vi.setConfig({ testTimeout: 60_000 });

/* Faults of apps and clients and their outcomes (`docs/interface/service-instances.md#gateway`). */

const open: { close(): void }[] = [];
afterEach(() => {
  vi.useRealTimers();
  for (const each of open.splice(0)) each.close();
});

const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;

async function listening<T extends { listen(port: number, host: string): T; close(): void }>(server: T): Promise<T> {
  server.listen(0, '127.0.0.1');
  await once(server as never, 'listening');
  open.push(server);
  return server;
}

/** Starts a gateway in front of `app`. */
async function gatewayTo(app: { address(): unknown }) {
  const dialled: Socket[] = [];
  const gateway = new ServiceGateway({
    async connect() {
      const socket = connect(portOf(app), '127.0.0.1');
      dialled.push(socket);
      await once(socket, 'connect');
      return socket;
    },
    absence: () => 'The app has ended.',
  });
  const viaOf = ({ headers }: IncomingMessage) => {
    const client = String(headers['x-test-client'] ?? '192.0.2.7');
    return { addresses: client, client, proto: 'http' } as const;
  };
  const front = await listening(
    createServer({ shouldUpgradeCallback: mayUpgrade }, (request, response) =>
      gateway.request(request, response, viaOf(request)),
    ),
  );
  front.on('upgrade', (request, socket, head) => gateway.upgrade(request, socket, head, viaOf(request)));
  open.push({ close: () => gateway.close() }, { close: () => front.closeAllConnections() });
  return { port: portOf(front), dialled, gateway };
}
const behind = async (handler: RequestListener) => {
  const app = await listening(createServer(handler));
  open.push({ close: () => app.closeAllConnections() });
  return gatewayTo(app);
};
/** An app that misuses a connection once data has arrived. */
const wild = async (behave: (socket: Socket) => void) =>
  gatewayTo(
    await listening(
      createTcpServer((socket) => {
        socket.on('error', () => {}).once('data', () => behave(socket));
        open.push({ close: () => socket.destroy() });
      }),
    ),
  );

async function ask(port: number, path = '/', headers: Record<string, string> = {}) {
  const request = httpRequest({ port, host: '127.0.0.1', path, headers, agent: false });
  request.end();
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  const content = await text(answer);
  return { status: answer.statusCode, content, code: content.startsWith('{') ? JSON.parse(content).error?.code : '' };
}

/** Opens a raw client connection. */
function dial(port: number) {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {});
  open.push({ close: () => socket.destroy() });
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk;
  });
  return { socket, received: () => received };
}

/** Sends the head of a request and `begin`, the start of its body. */
function half(port: number, begin: string, client = '192.0.2.7') {
  const dialled = dial(port);
  dialled.socket.write(
    `POST / HTTP/1.1\r\nHost: a\r\nX-Test-Client: ${client}\r\nContent-Length: 1000000\r\n\r\n${begin}`,
  );
  return dialled;
}

const until = <T>(look: () => T) => expect.poll(look, { timeout: 20_000 });

describe('an app that', () => {
  test('does not answer is given up after 60 seconds, its other requests go on', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const reached = Promise.withResolvers<void>();
    const { port } = await behind((request, response) => {
      if (request.url === '/quick') return response.end('ok');
      return reached.resolve();
    });
    const slow = ask(port, '/slow');
    await reached.promise;
    expect((await ask(port, '/quick')).content).toBe('ok');
    vi.advanceTimersByTime(60_000);
    expect(await slow).toMatchObject({ status: 504, code: 'TIMEOUT' });
  });

  test('half-closes before its answer is whole is seen to have broken off', async () => {
    const { port } = await wild((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'));
    await expect(ask(port)).rejects.toThrow('aborted');
  });

  test('ends its answer by closing the connection, as old ones do, has answered', async () => {
    const { port } = await wild((socket) => socket.end('HTTP/1.0 200 OK\r\n\r\nall of it'));
    expect(await ask(port)).toMatchObject({ status: 200, content: 'all of it' });
  });

  test('answers twice has answered once', async () => {
    const one = 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none';
    const { port } = await wild((socket) => socket.write(one + one.replace('one', 'two')));
    for (let i = 0; i < 3; i++) expect(await ask(port)).toMatchObject({ status: 200, content: 'one' });
  });

  test.each([
    ['headers of 64 KB', `HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(64 * 1024)}\r\n\r\n`],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd'],
    ['a length and chunks', 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['bytes that are no text', '\x00\xff\x16\x03\x01\x02'],
  ])('answers with %s is answered for with 502', async (_, answer) => {
    const { port } = await wild((socket) => socket.write(answer, 'latin1'));
    expect(await ask(port)).toMatchObject({ status: 502, code: 'SERVICE_ERROR' });
  });

  test('answers without end serves others meanwhile, and is broken off with the gateway', async () => {
    const { port, gateway } = await behind((request, response) => {
      if (request.url === '/quick') return response.end('ok');
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
        if (!response.destroyed) response.once('drain', more);
      };
      return more();
    });
    const { socket, received } = dial(port);
    socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(() => received().length).toBeGreaterThan(100_000);
    expect((await ask(port, '/quick')).content).toBe('ok');
    const closed = once(socket, 'close');
    gateway.close();
    socket.end();
    await closed;
  });

  test('sends chunks of one byte is carried in few pieces', async () => {
    const count = 10_000;
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
    const { port } = await wild((socket) => socket.write(`${head}${'1\r\nx\r\n'.repeat(count)}0\r\n\r\n`));
    const { socket, received } = dial(port);
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(received).toMatch(/\r\n0\r\n\r\n$/);
    const [, ...pieces] = received().split(/\r\n[0-9a-f]+\r\n/);
    expect(pieces.join('').replaceAll('\r\n', '')).toBe('x'.repeat(count));
    expect(pieces.length).toBeLessThan(count / 10);
  });

  test('switches protocols where nothing asked for it is answered for with 502', async () => {
    const { port } = await wild((socket) =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    );
    expect(await ask(port)).toMatchObject({ status: 502, code: 'SERVICE_ERROR' });
  });
});

describe('a client that', () => {
  test('sends nothing holds no connection of the app', async () => {
    const { port, dialled } = await behind((_, response) => response.end('ok'));
    const idle = Array.from({ length: 300 }, () => dial(port));
    await Promise.all(idle.map(({ socket }) => once(socket, 'connect')));
    expect((await ask(port)).content).toBe('ok');
    expect(dialled).toHaveLength(1);
  });

  test('sends half of a body is answered 408, and others meanwhile', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { port } = await behind((request, response) => {
      request.on('error', () => {}).resume();
      request.once('end', () => response.end('0'));
    });
    const { socket, received } = dial(port);
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf');
    expect((await ask(port)).content).toBe('0');
    await vi.waitFor(async () => {
      vi.advanceTimersByTime(60_000);
      await new Promise((resolve) => setImmediate(resolve));
      expect(received()).toContain('HTTP/1.1 408 ');
    });
  });

  test('sends nothing of its body holds no connection of the app, and is answered 408', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { port, dialled } = await behind(
      (request, response) => void request.resume().on('end', () => response.end()),
    );
    const held = Array.from({ length: 210 }, () => half(port, ''));
    await Promise.all(held.map(({ socket }) => once(socket, 'connect')));
    expect((await ask(port)).status).toBe(200);
    expect(dialled).toHaveLength(1);
    await vi.waitFor(() => {
      vi.advanceTimersByTime(60_000);
      expect(held.every(({ received }) => received().includes('HTTP/1.1 408 '))).toBe(true);
    });
  });

  test('sends many half bodies keeps out nobody else, and is answered 429', async () => {
    const { port, dialled } = await behind(
      (request, response) => void request.resume().on('end', () => response.end()),
    );
    const held = Array.from({ length: 210 }, () => half(port, 'h'));
    await until(() => held.filter(({ received }) => received().includes('HTTP/1.1 429 ')).length).toBe(110);
    expect(held.find(({ received }) => received() !== '')!.received()).toMatch(/retry-after: 2\r\n.*"RATE_LIMITED"/s);
    expect((await ask(port, '/', { 'x-test-client': '192.0.2.8' })).status).toBe(200);
    expect(dialled).toHaveLength(101);
    expect(await ask(port)).toMatchObject({ status: 429, code: 'RATE_LIMITED' });
  });

  test('has a network of its own in version 6 of IP has one share', async () => {
    const { port } = await behind((request, response) => void request.resume().on('end', () => response.end()));
    const held = Array.from({ length: 101 }, (_, index) => half(port, 'h', `2001:db8:1:2::${index.toString(16)}`));
    await until(() => held.filter(({ received }) => received().includes('HTTP/1.1 429 ')).length).toBe(1);
    expect((await ask(port, '/', { 'x-test-client': '2001:db8:1:3::1' })).status).toBe(200);
  });

  test('sends or reads too slowly loses its place once places are scarce, and not before', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const endless = Buffer.alloc(64 * 1024);
    const { port, dialled } = await behind((request, response) => {
      if (request.url !== '/endless') return void request.resume().on('end', () => response.end('ok'));
      const more = (): void => {
        while (!response.destroyed && response.write(endless));
        if (!response.destroyed) response.once('drain', more);
      };
      return more();
    });
    const unread = dial(port);
    unread.socket.pause();
    unread.socket.write('GET /endless HTTP/1.1\r\nHost: a\r\nX-Test-Client: 192.0.2.9\r\n\r\n');
    const few = Array.from({ length: 40 }, () => half(port, 'h'));
    await until(() => dialled.length).toBe(41);
    vi.advanceTimersByTime(600_000);
    expect([...few, unread].some(({ socket }) => socket.destroyed)).toBe(false);

    // Neither clients that only wait for the app nor one that sends enough are closed.
    const upgraded = dial(port);
    upgraded.socket.write('GET /quiet HTTP/1.1\r\nHost: a\r\nX-Test-Client: 192.0.2.9\r\n\r\n');
    const steady = half(port, 'h', '192.0.2.10');
    const more = ['192.0.2.7', '192.0.2.11'].flatMap((client) =>
      Array.from({ length: 45 }, () => half(port, 'h', client)),
    );
    await until(() => dialled.length).toBe(132);
    for (let second = 0; second < 125; second++) {
      steady.socket.write('x'.repeat(600));
      await until(() => steady.socket.bytesWritten).toBeGreaterThanOrEqual(600 * second);
      await new Promise((resolve) => setImmediate(resolve));
      vi.advanceTimersByTime(1000);
    }
    const refused = () => [...few, ...more].filter(({ received }) => received().includes('HTTP/1.1 408 ')).length;
    await until(refused).toBeGreaterThan(30);
    expect(refused()).toBeLessThan(80);
    expect(steady.received()).toBe('');
    steady.socket.destroy();
  });

  test('half-closes has left: its request is broken off in the app, too', async () => {
    const left = Promise.withResolvers<void>();
    const { port } = await behind((request) => void request.once('close', () => left.resolve()));
    const { socket, received } = dial(port);
    socket.end('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await left.promise;
    await until(() => socket.readableEnded).toBe(true);
    expect(received()).toBe('');
  });

  test('reads nothing makes the app wait, and keeps nothing back from others', async () => {
    let written = 0;
    let waits = false;
    const { port } = await behind((request, response) => {
      if (request.url === '/quick') return response.end('ok');
      const more = (): void => {
        waits = false;
        while (!waits && !response.destroyed) {
          written += 64 * 1024;
          waits = !response.write(Buffer.alloc(64 * 1024));
        }
        response.once('drain', more);
      };
      return more();
    });
    const { socket } = dial(port);
    socket.pause();
    socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n');
    let before = -1;
    // The buffers of sockets and streams on the way fill up eventually.
    await until(() => {
      const isStill = waits && written > 0 && written === before;
      before = written;
      return isStill;
    }).toBe(true);
    expect(written).toBeLessThan(64 * 1024 ** 2);
    expect((await ask(port, '/quick')).content).toBe('ok');
  });

  test('sends headers of 64 KB is answered 431, and the app sees nothing of it', async () => {
    const seen: string[] = [];
    const { port } = await behind((request, response) => {
      seen.push(request.url!);
      response.end('ok');
    });
    const { socket, received } = dial(port);
    socket.write(`GET /long HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(64 * 1024)}\r\n\r\n`);
    await until(received).toContain('HTTP/1.1 431 ');
    expect((await ask(port, '/next')).content).toBe('ok');
    expect(seen).toEqual(['/next']);
  });

  test.each(['GET', 'DELETE', 'OPTIONS', 'POST'])(
    'hides the length of its body behind "Connection" smuggles no second request in: %s',
    async (method) => {
      const seen: string[] = [];
      const { port } = await behind(async (request, response) => {
        const { host, 'content-length': length } = request.headers;
        const body = await text(request);
        seen.push(`${request.method} ${request.url} ${host} ${length} ${body.length}`);
        response.end('ok');
      });
      const inner = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';
      const { socket, received } = dial(port);
      socket.write(
        `${method} / HTTP/1.1\r\nHost: a\r\nConnection: content-length, host\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
      );
      await until(received).toContain('ok');
      // Sent on the same connection to the app: a smuggled request would be answered first.
      expect((await ask(port, '/next')).content).toBe('ok');
      expect(seen).toEqual([
        `${method} / a ${inner.length} ${inner.length}`,
        `GET /next 127.0.0.1:${port} undefined 0`,
      ]);
    },
  );

  test('offers an upgrade with a body gets no part of the next request for it', async () => {
    const seen: string[] = [];
    const { port, dialled } = await behind((request, response) => {
      seen.push(`${request.method} ${request.url}`);
      // Many apps respond without reading the body.
      response.end('ok');
    });
    const { socket, received } = dial(port);
    const body = 'x'.repeat(30);
    socket.write(
      `POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await until(received).toContain('ok');
    expect((await ask(port, '/next')).content).toBe('ok');
    expect([seen, dialled.length]).toEqual([['POST /', 'GET /next'], 1]);
  });

  test.each(['sends', 'gets'] as const)(
    'upgrades and %s a frame without end is held back by who does not read it, and nothing of it is kept',
    async (direction) => {
      const app = await listening(createServer());
      let appSocket: Socket | undefined;
      app.on('upgrade', (_, socket: Socket) => {
        appSocket = socket.on('error', () => {}).pause();
        open.push({ close: () => socket.destroy() });
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n');
      });
      const { port } = await gatewayTo(app);
      const { socket, received } = dial(port);
      socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      await until(received).toContain('101 Switching');
      socket.pause();
      const [from, to] = direction === 'sends' ? [socket, appSocket!] : [appSocket!, socket];
      // First fragment of a compressed message of 2^62 bytes, masked with zeros.
      from.write(Buffer.from([0x41, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
      const piece = Buffer.alloc(64 * 1024);
      let written = 0;
      const more = (): void => {
        while (from.writableLength === 0 && !from.destroyed) {
          written += piece.length;
          from.write(piece);
        }
      };
      from.on('drain', more);
      more();
      let before = -1;
      await until(() => {
        const isStill = from.writableLength > 0 && written === before;
        before = written;
        return isStill;
      }).toBe(true);
      expect(written).toBeLessThan(64 * 1024 ** 2);
      // All of it arrives at a reader.
      let read = 0;
      to.on('data', (chunk: Buffer) => {
        read += chunk.length;
      });
      from.off('drain', more);
      to.resume();
      await until(() => read).toBeGreaterThanOrEqual(written);
    },
  );

  test('upgrades and leaves takes its connection to the app along', async () => {
    const app = await listening(createServer());
    let ended = 0;
    app.on('upgrade', (_, socket: Socket) => {
      socket
        .on('error', () => {})
        .once('close', () => {
          ended += 1;
        });
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n');
      socket.resume();
      socket.once('end', () => socket.end());
    });
    const { port, dialled } = await gatewayTo(app);
    for (let i = 0; i < 250; i++) {
      const { socket, received } = dial(port);
      socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n');
      // Includes clients that disconnect before the response.
      if (i % 2 === 0) await until(received).toContain('101 Switching');
      socket.resetAndDestroy();
    }
    await until(() => [dialled.every(({ destroyed }) => destroyed), ended >= 125]).toEqual([true, true]);
    // Closed connections do not hold any of the instance's 200 slots.
    const { socket, received } = dial(port);
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n');
    await until(received).toContain('101 Switching');
  });
});
