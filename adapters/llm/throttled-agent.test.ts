import { once } from 'node:events';
import { Agent, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { throttleConnects } from './throttled-agent.ts';

const REQUESTS = 450;

/** Creates an agent whose connections the test opens manually, and requests through it. */
function prepare(port: number) {
  const agent = new Agent({ keepAlive: true });
  const creator = agent as unknown as { createConnection: (options: object) => Socket };
  const create = creator.createConnection.bind(agent);
  let opening = 0;
  let most = 0;
  creator.createConnection = (options) => {
    most = Math.max(most, ++opening);
    const socket = create(options);
    return socket.once('connect', () => opening--).once('error', () => opening--);
  };
  throttleConnects(agent);
  onTestFinished(() => agent.destroy());
  const ask = () =>
    new Promise<string>((resolve) => {
      const sent = get({ agent, port, host: '127.0.0.1' }, (answer) => {
        answer.resume().once('end', () => resolve('answered'));
      });
      sent.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code!));
    });
  return { ask, most: () => most };
}

test('connections are opened a limited number at once, and all of them stay open', async () => {
  const open: Socket[] = [];
  const server = createServer((socket) => {
    open.push(socket);
    socket.on('error', () => {});
    if (open.length < REQUESTS) return;
    for (const each of open) each.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
  }).listen({ port: 0, host: '127.0.0.1', backlog: 4096 });
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { ask, most } = prepare((server.address() as AddressInfo).port);
  const answers = await Promise.all(Array.from({ length: REQUESTS }, ask));
  // No request was answered before all connections were open.
  expect(new Set(answers)).toEqual(new Set(['answered']));
  expect(open).toHaveLength(REQUESTS);
  expect(most()).toBe(200);
});

test('those that cannot be opened make room for others', async () => {
  const { ask } = prepare(1);
  const answers = await Promise.all(Array.from({ length: REQUESTS }, ask));
  expect(new Set(answers)).toEqual(new Set(['ECONNREFUSED']));
});
