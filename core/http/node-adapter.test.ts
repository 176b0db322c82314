import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { hasCode } from '#core/base/errors.ts';
import { boundedChunks, readBounded } from '#core/http/body.ts';
import type { HttpRequest, HttpResponse, ResponseBody } from '#core/http/message.ts';
import { requestListener } from './node-adapter.ts';

/** Starts a server that responds with `answer`, and records the errors that could not be sent to a client. */
async function serve(
  answer: (request: HttpRequest, incoming: IncomingMessage) => Promise<ResponseBody | HttpResponse>,
  patience: { silenceMs?: number; bodyMs?: number } = {},
) {
  const errors: unknown[] = [];
  const listener = requestListener(
    async (request, incoming) => {
      const made = await answer(request, incoming);
      const isWhole = made !== null && typeof made === 'object' && 'status' in made;
      return isWhole ? made : { status: 200, headers: {}, body: made };
    },
    { onError: (error) => errors.push(error), ...patience },
  );
  const server = createServer({ joinDuplicateHeaders: true, keepAliveTimeout: 65_000 }, listener).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const open = async (...sent: (string | Buffer)[]): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    for (const part of sent) socket.write(part);
    return socket;
  };
  /** Returns the full response to a request that closes its connection. */
  const raw = async (head: string, body = '') =>
    text(await open(`${head}\r\nHost: x\r\nConnection: close\r\n\r\n${body}`));
  return { url: `http://127.0.0.1:${port}`, errors, open, raw };
}

const head = (length: number, more = '') => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n${more}\r\n`;
const body = async (request: HttpRequest) => Buffer.from(await request.bytes()).toString();
const codeOf = (error: unknown): ResponseBody => {
  if (hasCode(error, 'INVALID_INPUT')) return 'INVALID_INPUT';
  throw error;
};

test('a request has its method, target and headers as they were sent', async () => {
  const { raw } = await serve(async ({ method, url, headers }) =>
    JSON.stringify([method, url, headers.get('X-One'), headers.get('X-None'), headers.has('x-ONE'), headers.get('a')]),
  );
  const answer = await raw('DELETE /a%20b/../c?d=%20 HTTP/1.1\r\nx-one:  1 \r\nA: x\r\na: y');
  expect(answer).toMatch(/\r\n\r\n\["DELETE","\/a%20b\/..\/c\?d=%20","1",null,true,"x, y"\]$/);
  expect(await raw('GET http://other.example/x HTTP/1.1')).toContain('["GET","http://other.example/x",');
});

test('a header that may stand once does not lose its second value, which makes it invalid', async () => {
  const { raw } = await serve(async ({ headers }) => headers.get('authorization')!);
  expect(await raw('GET / HTTP/1.1\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b')).toMatch(
    /Bearer a, Bearer b$/,
  );
});

test.each([
  ['nothing', 'GET / HTTP/1.1', '', 'null'],
  ['no bytes', 'POST / HTTP/1.1\r\nContent-Length: 0', '', 'null'],
  ['bytes', 'POST / HTTP/1.1\r\nContent-Length: 5', 'hello', 'hello'],
  ['chunks', 'POST / HTTP/1.1\r\nTransfer-Encoding: chunked', '2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n', 'hello'],
  ['no chunks', 'POST / HTTP/1.1\r\nTransfer-Encoding: chunked', '0\r\n\r\n', ''],
])('a body of %s is read at once or in chunks', async (_, start, sent, expected) => {
  const { raw } = await serve(async (request) => {
    if (request.url === '/') return request.body === null ? 'null' : body(request);
    return request.body === null ? 'null' : Buffer.concat(await Array.fromAsync(request.body));
  });
  expect(await raw(start, sent)).toMatch(new RegExp(`\r\n\r\n${expected}$`));
  expect(await raw(start.replace('/ ', '/chunks '), sent)).toMatch(new RegExp(`\r\n\r\n${expected}$`));
});

test('a body that comes in parts is whole, and a client that waits for 100 Continue is told to go on', async () => {
  const { open } = await serve((request) => body(request));
  const socket = await open(head(6, 'Expect: 100-continue\r\n'));
  expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1.1 100 /);
  socket.write('abc');
  await new Promise((resolve) => setTimeout(resolve, 10));
  socket.write('def');
  expect(String(await once(socket, 'data'))).toMatch(/\r\n\r\nabcdef$/);
  socket.destroy();
});

test('large bodies pass in both directions', async () => {
  const { url } = await serve(async (request) => Readable.from(await Array.fromAsync(request.body!)));
  const bytes = Buffer.alloc(20_000_000, 'x');
  bytes.write('end', bytes.length - 3);
  const answer = await fetch(url, { method: 'POST', body: bytes });
  expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true);
});

test('a sender that leaves in the middle of its body is told apart from a fault', async () => {
  const seen: unknown[] = [];
  const { open } = await serve(async (request) => {
    const read = request.headers.has('x-chunks') ? Array.fromAsync(request.body!) : request.bytes();
    const result = await read.then(() => 'whole', codeOf);
    seen.push(result);
    return result;
  });
  for (const more of ['', 'X-Chunks: 1\r\n']) {
    const socket = await open(head(10, more), 'abc');
    await new Promise((resolve) => setTimeout(resolve, 10));
    socket.destroy();
  }
  await expect.poll(() => seen).toEqual(['INVALID_INPUT', 'INVALID_INPUT']);
});

test('a sender that leaves after its body is served all the same', async () => {
  const left = Promise.withResolvers<void>();
  const seen: string[] = [];
  const { open, errors } = await serve(async (request, incoming) => {
    incoming.socket.once('close', () => left.resolve());
    await left.promise;
    seen.push(await body(request));
    return 'nobody reads it';
  });
  (await open(head(3), 'abc')).end();
  await expect.poll(() => seen).toEqual(['abc']);
  expect(errors).toEqual([]);
});

test('a sender that falls silent in the middle of its body loses its connection', async () => {
  const { open } = await serve((request) => body(request).catch(codeOf), { silenceMs: 30 });
  const socket = await open(head(10), 'abc');
  expect(await text(socket)).toBe('');
});

test('a client that sends a byte now and then is cut off', async () => {
  const { open } = await serve((request) => body(request).catch(codeOf), { bodyMs: 200 });
  const socket = await open(head(1_000_000));
  const answered: unknown[] = [];
  socket.on('data', (part) => answered.push(part));
  // Its next byte may hit a closed connection.
  socket.on('error', () => {});
  const drip = setInterval(() => socket.write('a'), 10);
  await new Promise((resolve) => socket.once('close', resolve));
  clearInterval(drip);
  expect(answered).toEqual([]);
});

test('a slow reader of a body is no silent sender', async () => {
  const { open } = await serve(
    async (request) => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of request.body!) {
        chunks.push(chunk);
        if (chunks.length === 1) await new Promise((resolve) => setTimeout(resolve, 700));
      }
      return String(Buffer.concat(chunks).length);
    },
    { silenceMs: 500 },
  );
  const socket = await open(head(2_000_000), Buffer.alloc(2_000_000));
  expect(String(await once(socket, 'data'))).toMatch(/\r\n\r\n2000000$/);
  socket.destroy();
});

test.each([
  ['at once', (request: HttpRequest) => readBounded(request, { bytes: 10 })],
  ['in chunks', (request: HttpRequest) => Array.fromAsync(boundedChunks(request, { bytes: 10 }))],
  ['not at all', async () => {}],
])('after an answer to a body that was read %s in part, the connection goes on', async (_, read) => {
  const { open } = await serve((request) =>
    read(request).then(
      () => 'read',
      () => 'refused',
    ),
  );
  const socket = await open('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
  for (let i = 0; i < 50; i++) socket.write(`10000\r\n${'x'.repeat(0x10000)}\r\n`);
  socket.write('0\r\n\r\n');
  const first = String(await once(socket, 'data'));
  expect(first).toMatch(/^HTTP\/1.1 200 /);
  expect(first).not.toMatch(/connection: close/i);
  socket.end('GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  expect(await text(socket)).toMatch(/^HTTP\/1.1 200 /);
});

test('requests that are sent together are answered in their order', async () => {
  const later = Promise.withResolvers<void>();
  const { open } = await serve(async ({ url }) => {
    if (url === '/1') await later.promise;
    else later.resolve();
    return Readable.from([Buffer.from(url), Buffer.from('.')]);
  });
  const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
  const answers = await text(await open(get('/1') + get('/2') + get('/3', 'Connection: close\r\n')));
  expect([...answers.matchAll(/\n(\/\d)/g)].map(([, path]) => path)).toEqual(['/1', '/2', '/3']);
});

test('answers have a length, and streams are chunked', async () => {
  const bodies: ResponseBody[] = ['ü', Buffer.from([1, 2, 3]), Readable.from([Buffer.from('ab')]), ''];
  const { raw } = await serve(async ({ url }) => bodies[Number(url.slice(1))]!);
  expect(await raw('GET /0 HTTP/1.1')).toMatch(/\r\ncontent-length: 2\r\n[\s\S]*\r\n\r\nü$/);
  expect(await raw('GET /1 HTTP/1.1')).toMatch(/\r\ncontent-length: 3\r\n/);
  expect(await raw('GET /2 HTTP/1.1')).toMatch(/\r\nTransfer-Encoding: chunked\r\n[\s\S]*\r\n2\r\nab\r\n0\r\n\r\n$/);
  expect(await raw('GET /3 HTTP/1.1')).toMatch(/\r\ncontent-length: 0\r\n/);
});

test('an answer without a body has none', async () => {
  const { raw } = await serve(async () => ({ status: 204, headers: { 'x-a': 'b' }, body: null }));
  expect(await raw('OPTIONS / HTTP/1.1')).toMatch(/^HTTP\/1.1 204 [\s\S]*x-a: b[\s\S]*\r\n\r\n$/);
});

test('the status of a stream arrives before its first chunk', async () => {
  const first = Promise.withResolvers<void>();
  const { url } = await serve(async () =>
    (async function* () {
      await first.promise;
      yield Buffer.from('x');
    })(),
  );
  const answer = await fetch(url);
  first.resolve();
  expect(await answer.text()).toBe('x');
});

test('a stream waits for its reader, and ends when the reader leaves', async () => {
  let chunks = 0;
  let isEnded = false;
  const { open } = await serve(async () =>
    (async function* () {
      try {
        for (; chunks < 10_000; chunks++) yield Buffer.alloc(100_000);
      } finally {
        isEnded = true;
      }
    })(),
  );
  const socket = await open('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  // A turn of the event loop without a chunk means that the buffers of both ends are full.
  let before = -1;
  await expect
    .poll(() => {
      const isWaiting = chunks > 0 && chunks === before;
      before = chunks;
      return isWaiting;
    })
    .toBe(true);
  expect(chunks).toBeLessThan(1_000);
  expect(isEnded).toBe(false);
  socket.destroy();
  await expect.poll(() => isEnded).toBe(true);
});

test('a stream whose reader left before it began is closed', async () => {
  const left = Promise.withResolvers<void>();
  const stream = Readable.from([Buffer.from('x'), Buffer.from('y')]);
  const { open } = await serve(async (_, incoming) => {
    incoming.socket.once('close', () => setImmediate(left.resolve));
    await left.promise;
    return stream;
  });
  (await open('GET / HTTP/1.1\r\nHost: x\r\n\r\n')).destroy();
  await expect.poll(() => stream.destroyed).toBe(true);
});

test('a stream that fails cuts its answer off', async () => {
  const { url, errors } = await serve(async () =>
    (async function* () {
      yield Buffer.from('x');
      throw new Error('broken');
    })(),
  );
  const answer = await fetch(url);
  await expect(answer.text()).rejects.toThrow();
  expect(errors).toEqual([new Error('broken')]);
});

test('an answer that cannot be sent is an error of the server', async () => {
  const { url, errors } = await serve(async ({ url }) => {
    if (url === '/throws') throw new Error('no answer');
    return { status: 200, headers: { 'x-a': 'a\nb' }, body: 'x' };
  });
  expect((await fetch(`${url}/throws`)).status).toBe(500);
  expect((await fetch(`${url}/header`)).status).toBe(500);
  expect(errors).toMatchObject([{ message: 'no answer' }, { code: 'ERR_INVALID_CHAR' }]);
});
