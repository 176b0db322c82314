import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type LocalTarget, startLocalTarget } from '#test/helpers/platform.ts';

/** Length above the limit of a management route. */
const LENGTH = 3_000_000;

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
});
afterAll(() => target.close());

/** Opens a connection that has sent the head of a request but nothing of its body. */
async function openRequest(length: number): Promise<Socket> {
  const { hostname, port } = new URL(target.url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.write(
    [
      'PATCH /org HTTP/1.1',
      'Host: x',
      `Authorization: Bearer ${target.key}`,
      'Content-Type: application/json',
      `Content-Length: ${length}`,
      '\r\n',
    ].join('\r\n'),
  );
  return socket;
}

async function nextText(socket: Socket): Promise<string> {
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  return chunk.toString();
}

test('after a body that is too large, the connection serves the next request', async () => {
  const socket = await openRequest(LENGTH);
  socket.write(Buffer.alloc(LENGTH, 'x'));
  expect(await nextText(socket)).toMatch(/^HTTP\/1\.1 413 (?![\s\S]*\r\nconnection: close\r\n)/i);
  socket.write('GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /);
});

test('a body without a declared length that is too large does not delay its answer', async () => {
  const { hostname, port } = new URL(target.url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  const head = [
    'PATCH /org HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${target.key}`,
    'Content-Type: application/json',
  ];
  socket.write([...head, 'Transfer-Encoding: chunked', '\r\n'].join('\r\n'));
  socket.write(`${LENGTH.toString(16)}\r\n`);
  socket.write(Buffer.alloc(LENGTH, 'x'));
  socket.write('\r\n0\r\n\r\n');
  // The connection stays open, so the whole body was read.
  expect(await nextText(socket)).toMatch(/^HTTP\/1\.1 413 (?![\s\S]*\r\nconnection: close\r\n)/i);
  socket.destroy();
});

test('a client that never sends its body gets the answer, which says that the connection ends', async () => {
  const socket = await openRequest(LENGTH);
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 413 [\s\S]*\r\nconnection: close\r\n/i);
});

test('a client that leaves in the middle of its body harms no other request', async () => {
  const socket = await openRequest(LENGTH);
  socket.write('{"name": "');
  socket.destroy();
  expect((await fetch(`${target.url}/health`)).status).toBe(200);
});
