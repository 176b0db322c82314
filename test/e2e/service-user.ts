import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, vi } from 'vitest';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { expectOk } from './expect.ts';

/** Limit for the start of an instance, which may be a process on a busy machine or a task in a cloud. */
const START_LIMIT_MS = 90_000;

/**
 * App that describes itself; at `/events` it sends an event stream whose second event waits for a request to `/next`;
 * it echoes WebSocket messages of less than 126 bytes and exits at `/end`.
 */
export const app = (version: number): string => `
const { createHash } = require('node:crypto');
const http = require('node:http');
const own = Object.keys(process.env).filter((name) => name.startsWith('PLATFORM_')).sort();
const instance = Math.random().toString(36);
const key = process.env.BOT_KEY ?? '';
let next = () => {};
console.log('INFO version ${version} with ' + key);
console.log('WARNING something is odd');
console.error('it failed');
const server = http.createServer((request, response) => {
  if (request.url === '/end') process.exit(1);
  if (request.url === '/next') next();
  if (request.url === '/events') {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: first\\n\\n');
    next = () => response.end('data: second\\n\\n');
    return;
  }
  let bytes = 0;
  request.on('data', (chunk) => { bytes += chunk.length; });
  request.on('end', () => response.end(JSON.stringify({
    version: ${version}, instance, own, bytes, word: process.env.WORD, key: key.length, url: request.url,
    host: request.headers.host, proto: request.headers['x-forwarded-proto'], from: request.headers['x-forwarded-for'],
  })));
});
server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1').update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11');
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept.digest('base64') + '\\r\\n\\r\\n');
  socket.on('error', () => {});
  socket.on('data', (frame) => {
    const body = frame.subarray(6).map((byte, index) => byte ^ frame[2 + index % 4]);
    socket.write(Buffer.concat([Buffer.from([0x81, body.length]), body]));
  });
});
server.listen(process.env.PORT);`;

/** Retries until nothing is thrown. */
export const until = (look: () => Promise<unknown>) => vi.waitFor(look, { timeout: START_LIMIT_MS, interval: 200 });
/** Polls until the result has these fields. */
export const shows = (look: () => Promise<unknown>, members: object) =>
  until(async () => expect(await look()).toMatchObject(members));

let users = 0;

/** Creates a user with a personal workspace and helpers for its services. */
export async function serviceUser(target: Target, name: string) {
  users += 1;
  // A retried test needs a new user.
  const user = await target.addUser(`${name}-${users}`);
  const { slug } = user;
  const api = (method: string, path: string, json?: unknown, key = user.key) =>
    request(target, method, `/workspaces/${user.workspaceId}${path}`, { key, json });
  const setSecret = (name: string, value: string) => api('PUT', '/secrets', { name, value });
  const publish = (name: string, files: Record<string, string>, manifest: object = {}) =>
    publishCode(clientOf(target, user.key), name, files, {
      run_mode: 'always_on',
      runtime: { command: 'node server.js' },
      ...manifest,
    });
  const deploy = async (json: object): Promise<string> =>
    expectOk(await api('POST', '/services', json), 201).service.id;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  const read = async (id: string): Promise<any> => expectOk(await api('GET', `/services/${id}`)).service;
  const addressOf = async (id: string): Promise<string> => {
    await shows(() => read(id), { service_url: expect.stringMatching(/^https?:\/\/[^/]+$/) });
    return (await read(id)).service_url;
  };
  const logs = async (
    id: string,
    query = '',
  ): Promise<{ timestamp: string; severity: string; message: string; source?: string }[]> =>
    expectOk(await api('GET', `/services/${id}/logs${query}`)).logs;
  const messagesOf = async (id: string) => (await logs(id)).map(({ message }) => message);
  const remove = async (id: string) => expectOk(await api('DELETE', `/services/${id}`));
  return { user, slug, api, setSecret, publish, deploy, read, addressOf, logs, messagesOf, remove };
}

/** Connects as an internet client does: the host name resolves to the platform's load balancer. */
export function open(target: Target, address: string, path: string, { headers, ...options }: RequestOptions = {}) {
  const url = new URL(path, address);
  const { host, port } = target.services!.connection(url);
  const all = { ...headers, host: url.host };
  return httpRequest({ host, port, path, agent: false, ...options, headers: all });
}
/** Returns the answer of {@link app}, or of the server in its place. */
export async function ask(
  target: Target,
  address: string,
  path = '/',
  options: RequestOptions = {},
  body?: Uint8Array,
) {
  const asked = open(target, address, path, options);
  asked.end(body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  const content = await text(answer);
  return { ...(content.startsWith('{') && JSON.parse(content)), status: answer.statusCode };
}
