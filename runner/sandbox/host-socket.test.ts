import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HostSocket } from './host-socket.ts';

let folder: string;
let path: string;
let hostSocket: HostSocket;
const dialled: Socket[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'host-socket-test-'));
  path = join(folder, 'host.sock');
  hostSocket = await HostSocket.open(path);
});
afterEach(() => {
  vi.useRealTimers();
  for (const socket of dialled.splice(0)) socket.destroy();
  hostSocket.close();
  rmSync(folder, { recursive: true, force: true });
});

async function dial(text?: string): Promise<Socket> {
  const socket = connect({ path, allowHalfOpen: true }).on('error', () => {});
  dialled.push(socket);
  await once(socket, 'connect');
  if (text !== undefined) socket.write(text);
  return socket.resume();
}

const greeted = (greeting: string): Promise<Socket> =>
  new Promise((resolve) => {
    hostSocket.on(greeting, resolve);
  });

test('a greeting leads to its callback, in pieces and with what follows it', async () => {
  const accepted = greeted('init abc');
  const socket = await dial('in');
  socket.write('it abc\nfirst');
  const [data] = await once(await accepted, 'data');
  expect(String(data)).toBe('first');
});

test('a wrong greeting, a too long one and an end without one close the connection', async () => {
  for (const text of ['init wrong\n', 'x'.repeat(200)]) await once(await dial(text), 'end');
  const silent = await dial();
  silent.end();
  await once(silent, 'end');
});

test('a connection without a greeting is closed after five seconds, one with a greeting stays', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const accepted = greeted('exec abc');
  const [silent, half] = [await dial(), await dial('exec ab')];
  await dial('exec abc\n');
  const kept = await accepted;
  await vi.advanceTimersByTimeAsync(4900);
  expect([silent.readableEnded, half.readableEnded]).toEqual([false, false]);
  const ends = [once(silent, 'end'), once(half, 'end')];
  await vi.advanceTimersByTimeAsync(200);
  await Promise.all(ends);
  expect(kept.destroyed).toBe(false);
});

test('of many silent connections the oldest are closed, and a new one is heard', async () => {
  const silent: Socket[] = [];
  let closed = 0;
  for (let count = 0; count < 300; count++) {
    const socket = await dial();
    socket.on('end', () => closed++);
    silent.push(socket);
  }
  const accepted = greeted('exec abc');
  await dial('exec abc\n');
  await accepted;
  await expect.poll(() => closed).toBeGreaterThanOrEqual(172);
  expect(silent.at(-1)!.readableEnded).toBe(false);
});
