import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type EgressPolicy, EgressProxy } from './egress-proxy.ts';

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** A service that responds to each connection with 200. */
const service = () =>
  listening(createServer((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')));

/** Returns the status of each request to the proxy: as a tunnel, and as plain HTTP. */
async function asker(policy: EgressPolicy) {
  const proxy = new EgressProxy(policy);
  onTestFinished(() => proxy.close());
  const port = await listening(createServer((socket) => proxy.accept(socket)));
  const ask = async (text: string) => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8');
    socket.write(text);
    let answer = '';
    for await (const chunk of socket) {
      answer += chunk;
      if (answer.includes('\r\n\r\n')) break;
    }
    return { status: answer.split(' ')[1], answer };
  };
  return async (target: string) => {
    const tunnel = await ask(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    const plain = await ask(`GET http://${target}/ HTTP/1.1\r\nHost: ${target}\r\nConnection: close\r\n\r\n`);
    return { statuses: [tunnel.status, plain.status], answer: plain.answer };
  };
}

test('a registry is reached at its own port alone, even at a private address', async () => {
  const [registry, other] = [await service(), await service()];
  const ask = await asker({ egress: { allow: [] }, allowHosts: [`127.0.0.1:${registry}`] });
  expect((await ask(`127.0.0.1:${registry}`)).statuses).toEqual(['200', '200']);
  expect((await ask(`127.0.0.1:${other}`)).statuses).toEqual(['403', '403']);
});

test('a registry without a port is reached at port 443', async () => {
  const port = await service();
  const ask = await asker({ egress: { allow: [] }, allowHosts: ['127.0.0.1', '*.registry.invalid', '[::1]:8081'] });
  expect((await ask(`127.0.0.1:${port}`)).statuses).toEqual(['403', '403']);
  expect((await ask('127.0.0.1:443')).statuses).not.toContain('403');
  expect((await ask('npm.registry.invalid:443')).statuses).not.toContain('403');
  expect((await ask('npm.registry.invalid:80')).statuses).toEqual(['403', '403']);
  expect((await ask('[::1]:8081')).statuses).not.toContain('403');
});

test('everything else is reached at the ports of HTTP and HTTPS', async () => {
  const gateway = { host: '127.0.0.1', port: await service() };
  for (const egress of ['open', { allow: ['mail.invalid'] }] as const) {
    const ask = await asker({ egress, gateway });
    for (const port of [22, 25, 465, 3306, 8443]) {
      const { statuses, answer } = await ask(`mail.invalid:${port}`);
      expect(statuses).toEqual(['403', '403']);
      expect(answer).toContain(`port ${port}`);
      expect(answer).toContain('80 (HTTP) and 443 (HTTPS)');
    }
    for (const port of [80, 443]) expect((await ask(`mail.invalid:${port}`)).statuses).toEqual(['502', '502']);
    expect((await ask(`127.0.0.1:${gateway.port}`)).statuses).toEqual(['200', '200']);
  }
});

test('a connection that sends no whole request within a minute is closed, at first and between requests', async () => {
  // Other timers stay real, because sockets use them.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const answers = createServer((socket) => {
    socket.on('data', (data) => {
      if (!String(data).includes('/slow')) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    });
  });
  const gateway = { host: '127.0.0.1', port: await listening(answers) };
  const proxy = new EgressProxy({ egress: 'open', gateway });
  onTestFinished(() => proxy.close());
  let accepted = 0;
  const port = await listening(
    createServer((socket) => {
      proxy.accept(socket);
      accepted += 1;
    }),
  );
  const closed: string[] = [];
  const open = async (name: string, text = '', answered = false) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => {}).on('close', () => closed.push(name));
    const count = accepted + 1;
    if (answered) await once(socket, 'data');
    else await vi.waitUntil(() => accepted === count, { timeout: 20_000 });
    return socket;
  };
  const get = (path: string) => `GET http://127.0.0.1:${gateway.port}${path} HTTP/1.1\r\nHost: x\r\n`;
  await open('silent');
  await open('half', get('/'));
  const idle = await open('idle', `${get('/')}\r\n`, true);
  await open('slow', `${get('/slow')}\r\n`);
  await open('pipelined', `${get('/')}\r\n${get('/slow')}\r\n`, true);
  await open('tunnel', `CONNECT 127.0.0.1:${gateway.port} HTTP/1.1\r\n\r\n`, true);
  await vi.advanceTimersByTimeAsync(40_000);
  idle.write(`${get('/')}\r\n`);
  await once(idle, 'data');
  await vi.advanceTimersByTimeAsync(30_000);
  await vi.waitUntil(() => closed.length >= 2, { timeout: 20_000 });
  expect(closed.sort()).toEqual(['half', 'silent']);
  await vi.advanceTimersByTimeAsync(40_000);
  await vi.waitUntil(() => closed.length >= 3, { timeout: 20_000 });
  expect(closed).toEqual(['half', 'silent', 'idle']);
});

/** A proxy with these addresses of names; every connection leads to a server that sends back what it gets. */
async function targetProxy(addresses: string[], policy: Partial<EgressPolicy> = {}) {
  const echo = await listening(createServer((socket) => socket.on('error', () => {}).pipe(socket)));
  const connected: string[] = [];
  let isOpen = true;
  const ways = {
    resolve: async () => [...addresses],
    connect: (address: string, port: number) => {
      connected.push(`${address}:${port}`);
      return connect(isOpen ? echo : 1, '127.0.0.1');
    },
  };
  const egressTargets = { targets: ['db.example.com:5432'], privateRanges: ['10.20.0.0/16', 'fd12::/32'] };
  const all: EgressPolicy = { egress: 'open', egressTargets, ways, ...policy };
  const proxy = new EgressProxy(all);
  onTestFinished(() => proxy.close());
  const target = { host: 'db.example.com', port: 5432 };
  const port = await listening(createServer((socket) => void proxy.acceptForTarget(socket, target)));
  const open = async () => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    onTestFinished(() => void socket.destroy());
    socket.write('hello');
    const isAnswered = await Promise.race([
      once(socket, 'data').then(() => true),
      once(socket, 'close').then(() => false),
    ]);
    return { socket, isAnswered };
  };
  const shut = () => {
    isOpen = false;
  };
  return { open, connected, shut, ask: await asker(all) };
}

test.each([
  ['a public address', ['93.184.216.34'], '93.184.216.34:5432'],
  ['an address of a private range', ['10.20.3.4'], '10.20.3.4:5432'],
  ['an IPv6 address of a private range', ['fd12::5'], 'fd12::5:5432'],
  ['the allowed one of several addresses', ['127.0.0.1', '10.0.0.1', '10.20.3.4'], '10.20.3.4:5432'],
])('a target is connected to at %s', async (_, addresses, expected) => {
  const { open, connected, ask } = await targetProxy(addresses);
  expect((await open()).isAnswered).toBe(true);
  expect(connected).toEqual([expected]);
  // Clients of HTTP use the proxy.
  expect((await ask('db.example.com:5432')).statuses[0]).toBe('200');
});

test.each([
  ...['127.0.0.1', '0.0.0.0', '10.0.0.1', '10.21.0.1', '172.16.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1'],
  ...[
    '::1',
    '::',
    '::ffff:127.0.0.1',
    '::ffff:10.20.3.4',
    '64:ff9b::a14:304',
    'fe80::1',
    'fd00:ec2::254',
    'fd13::1',
    '',
  ],
])('a target whose name leads to %o is not connected to, and the proxy tells why', async (address) => {
  const { open, connected, ask } = await targetProxy([address]);
  expect((await open()).isAnswered).toBe(false);
  expect(connected).toEqual([]);
  const { statuses, answer } = await ask('db.example.com:5432');
  expect(statuses).toEqual(['403', '403']);
  expect(answer).toContain('PLATFORM_EGRESS_PRIVATE_RANGES');
});

test('a name that later leads elsewhere is checked again, and each connection goes to the address that was checked', async () => {
  const addresses = ['93.184.216.34'];
  const { open, connected } = await targetProxy(addresses);
  expect((await open()).isAnswered).toBe(true);
  addresses.splice(0, 1, '127.0.0.1');
  expect((await open()).isAnswered).toBe(false);
  addresses.splice(0, 1, '169.254.169.254', '93.184.216.35');
  expect((await open()).isAnswered).toBe(true);
  expect(connected).toEqual(['93.184.216.34:5432', '93.184.216.35:5432']);
});

test('only the target itself is open: no other port or host, and no private address without a range', async () => {
  const { connected, ask } = await targetProxy(['10.20.3.4']);
  for (const other of ['db.example.com:5433', 'other.example.com:5432', 'db.example.com:443', '10.20.3.4:5432']) {
    expect((await ask(other)).statuses).toEqual(['403', '403']);
  }
  expect(connected).toEqual([]);
  const closed = { targets: ['db.example.com:5432'], privateRanges: [] };
  expect((await (await targetProxy(['10.20.3.4'], { egressTargets: closed })).open()).isAnswered).toBe(false);
  const listed = await targetProxy(['93.184.216.34'], { egress: { allow: ['api.example.com'] } });
  expect((await listed.open()).isAnswered).toBe(false);
});

test('a sandbox has at most 100 connections to targets at once, and those that fail do not count', async () => {
  const { open, shut, connected } = await targetProxy(['93.184.216.34']);
  const opened = await Promise.all(Array.from({ length: 100 }, open));
  expect(opened.map(({ isAnswered }) => isAnswered)).toEqual(Array(100).fill(true));
  expect((await open()).isAnswered).toBe(false);
  expect(connected).toHaveLength(100);
  opened[0]!.socket.destroy();
  await vi.waitUntil(async () => (await open()).isAnswered, { timeout: 20_000 });
  opened[1]!.socket.destroy();
  shut();
  await vi.waitUntil(async () => (await open()) && connected.length > 110, { timeout: 20_000 });
});
