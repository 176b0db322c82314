import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createClient } from './client.ts';

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}
let server: Server;
let baseUrl: string;
let seen: Seen[] = [];
let answer: { status: number; type: string; body: string };

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString();
    seen.push({ method: request.method!, url: request.url!, headers: request.headers, body });
    response.writeHead(answer.status, { 'content-type': answer.type }).end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => server.close());
beforeEach(() => {
  seen = [];
  answer = { status: 200, type: 'application/json', body: '{"ok":true}' };
});

const params = { org: 'a b', agent: 'x/../y', version: 'v1', endpoint: 'rün' };

test('fills the path, escaped, and the query', async () => {
  const client = createClient({ baseUrl, key: 'k', workspaceId: 'w' });
  await client.callAgent({
    params,
    query: { verbose: 'true' },
    body: { text: 'ü' },
    headers: { 'x-platform-tenant': 't' },
  });
  const [request] = seen;
  expect(request).toMatchObject({
    method: 'POST',
    url: '/a%20b/x%2F..%2Fy/v1/r%C3%BCn?verbose=true',
    body: '{"text":"ü"}',
  });
  expect(request!.headers).toMatchObject({
    authorization: 'Bearer k',
    'x-workspace-id': 'w',
    'content-type': 'application/json',
    'x-platform-tenant': 't',
  });
});

test.each(['', '.', '..'])('refuses the path parameter %j, which would lead elsewhere', async (id) => {
  await expect(createClient({ baseUrl }).getAgent({ params: { id } })).rejects.toThrow('the parameter "id"');
  expect(seen).toEqual([]);
});

test('sends no key, workspace or body that it does not have', async () => {
  await createClient({ baseUrl }).listPublicAgents({ query: { search: undefined, limit: 3 } });
  expect(seen[0]).toMatchObject({ method: 'GET', url: '/public/agents?limit=3', body: '' });
  for (const name of ['authorization', 'x-workspace-id', 'content-type'])
    expect(seen[0]!.headers).not.toHaveProperty(name);
});

test('sends a form as a form, and bytes as they are', async () => {
  const client = createClient({ baseUrl });
  const form = new FormData();
  form.set('file', new Blob(['zip']), 'bundle.zip');
  await client.uploadBundle({ params: { id: '1' }, body: form });
  expect(seen[0]!.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
  await client.callAgent({ params, body: new Uint8Array([65]), headers: { 'content-type': 'text/plain' } });
  expect(seen[1]).toMatchObject({ body: 'A', headers: { 'content-type': 'text/plain' } });
});

test('answers bytes as a response', async () => {
  answer = { status: 200, type: 'application/zip', body: 'PK' };
  const response = await createClient({ baseUrl }).downloadOwnBundle({ params: { id: '1' } });
  expect(await response.text()).toBe('PK');
});

test('an error answer is thrown, with everything it says', async () => {
  const error = { code: 'NOT_FOUND', message: 'There is no such agent.', is_retryable: false, hint: 'look again' };
  answer = {
    status: 404,
    type: 'application/json',
    body: JSON.stringify({ error, metadata: { request_id: 'req_1' } }),
  };
  await expect(createClient({ baseUrl }).getAgent({ params: { id: '1' } })).rejects.toMatchObject({
    name: 'ApiError',
    status: 404,
    code: 'NOT_FOUND',
    message: 'There is no such agent.',
    requestId: 'req_1',
    detail: error,
  });
});

test.each([
  ['text', 'text/html', '<h1>Bad gateway</h1>'],
  ['null', 'application/json', 'null'],
  ['what is not JSON after all', 'application/json', '<h1>'],
])('an error answer of something in between, %s, keeps its status', async (_, type, body) => {
  answer = { status: 502, type, body };
  await expect(createClient({ baseUrl }).getHealth({})).rejects.toMatchObject({
    status: 502,
    code: 'UNKNOWN',
    message: 'HTTP 502',
  });
});
