import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import { readJson } from '#core/http/body.ts';
import { MEMORY_PER_BODY_BYTE } from '#core/http/body-budget.ts';
import type { HttpResponse } from '#core/http/message.ts';
import type { Incoming } from '#core/http/route.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { createCallServer, fieldsOfRequest } from './call-server.ts';
import { rowsOf, toRequest } from './lambda.ts';

const MB = 1024 ** 2;
const TOKEN = 'token-of-the-gateway';
const [callRow] = rowsOf(['calls']).filter(({ operationId }) => operationId === 'receiveWebhook');

interface Started {
  readonly url: string;
  readonly passed: object[];
  readonly lines: object[];
}

/** Starts the server with one row, webhooks, whose callers need no key, and this handler in place of its own. */
async function start(
  handle: (incoming: Incoming, deps: { background(work: Promise<void>): unknown }) => Promise<unknown>,
  { memory = 1024 * MB, passCall }: { memory?: number; passCall?: (event: object) => Promise<HttpResponse> } = {},
): Promise<Started> {
  const lines: object[] = [];
  const passed: object[] = [];
  const base = memoryDeps();
  const log = Object.fromEntries(
    ['debug', 'info', 'warn', 'error'].map((level) => [
      level,
      (message: string) => lines.push({ level, message, ...fieldsOfRequest() }),
    ]),
  ) as unknown as typeof base.log;
  const config = { ...base.config, gatewayToken: TOKEN, maxDirectBodyBytes: 4 * MB, addressRequestsPerMinute: 100_000 };
  const deps = { ...base, config, log, settled: async () => {} };
  const listener = createCallServer(deps, {
    rows: [callRow!],
    handlersOf: (own) =>
      ({
        receiveWebhook: async (incoming: Incoming) => ({ status: 200, body: await handle(incoming, own) }),
      }) as never,
    needsFunction: async (_, __, { request }) => request.headers.has('prefer'),
    passCall: async (event) => {
      passed.push(event);
      return (await passCall?.(event)) ?? { status: 202, headers: { 'content-type': 'application/json' }, body: '{}' };
    },
    bodyMemoryBytes: memory,
  });
  const server = createServer({ joinDuplicateHeaders: true }, listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, passed, lines };
}

const answer = (text: string) => ({
  ...{ run_id: crypto.randomUUID(), status: 'success', duration_ms: 1, output: { text } },
  ...{ error: null, deduplicated: false },
});
const errorOf = async (response: Response) => ((await response.json()) as { error: { code: string } }).error;
const post = ({ url }: Started, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
  fetch(`${url}/webhooks/${crypto.randomUUID()}/secret?x=1&x=2`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-platform-gateway': TOKEN,
      'x-platform-source': '203.0.113.7',
      'x-platform-gateway-id': 'gateway-1',
      ...headers,
    },
    body,
  });

describe('the server of calls', () => {
  test('refuses requests without the token of the gateway, and reads nothing of them', async () => {
    const handle = vi.fn();
    const server = await start(handle);
    for (const headers of [{ 'x-platform-gateway': '' }, { 'x-platform-gateway': `${TOKEN}x` }]) {
      const response = await post(server, '{}', headers);
      expect([response.status, (await errorOf(response)).code]).toEqual([403, 'FORBIDDEN']);
    }
    expect(handle).not.toHaveBeenCalled();
    expect(server.passed).toEqual([]);
  });

  test('does not start without a token', () => {
    const deps = { ...memoryDeps(), settled: async () => {} };
    expect(() =>
      createCallServer(deps as never, { rows: [], handlersOf: () => ({}), needsFunction: vi.fn(), passCall: vi.fn() }),
    ).toThrow('PLATFORM_GATEWAY_TOKEN');
  });

  test('log lines of requests at once have the id of their own request', async () => {
    const server = await start(async (_, deps) => {
      await setTimeout(20);
      void deps.background(Promise.resolve());
      throw new Error('broken');
    });
    const ids = ['a', 'b', 'c', 'd'];
    await Promise.all(ids.map((id) => post(server, '{}', { 'x-platform-gateway-id': id })));
    const told = server.lines.filter((line) => 'level' in line && line.level === 'error');
    expect(told.map((line) => ('gateway_request_id' in line ? line.gateway_request_id : '')).sort()).toEqual(ids);
  });

  test('bodies wait for room: what does not fit is told to come again, before it is read', async () => {
    const gate = Promise.withResolvers<void>();
    let reading = 0;
    const server = await start(
      async ({ request }) => {
        const body = await readJson(request, { bytes: 4 * MB });
        reading += 1;
        await gate.promise;
        return answer(String(JSON.stringify(body).length));
      },
      { memory: 8 * MB * MEMORY_PER_BODY_BYTE },
    );
    const text = JSON.stringify({ text: 'x'.repeat(3 * MB) });
    const held = [post(server, text), post(server, text)];
    await expect.poll(() => reading).toBe(2);
    const refused = await post(server, text);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '2']);
    expect(await errorOf(refused)).toMatchObject({ code: 'RATE_LIMITED', is_retryable: true });
    expect(reading).toBe(2);
    gate.resolve();
    for (const response of await Promise.all(held)) expect(response.status).toBe(200);
    // Their room is free once their connections have their answers.
    await expect.poll(async () => (await post(server, text)).status).toBe(200);
  });

  test('a body keeps its room while its work outlives the client', async () => {
    const gate = Promise.withResolvers<void>();
    const server = await start(
      async ({ request }, deps) => {
        await readJson(request, { bytes: 4 * MB });
        void deps.background(gate.promise);
        return answer('early');
      },
      { memory: 4 * MB * MEMORY_PER_BODY_BYTE },
    );
    const text = JSON.stringify({ text: 'x'.repeat(3 * MB) });
    expect((await post(server, text)).status).toBe(200);
    expect((await post(server, text)).status).toBe(429);
    gate.resolve();
    await expect.poll(async () => (await post(server, text)).status).toBe(200);
  });

  test('a call that does not wait is passed on as the event of the gateway, with its bytes', async () => {
    const handle = vi.fn();
    const server = await start(handle);
    const response = await post(server, '{"text":"Ünïcode"}', {
      prefer: 'respond-async',
      'x-forwarded-for': '1.2.3.4',
    });
    expect(response.status).toBe(202);
    expect(handle).not.toHaveBeenCalled();
    const [event] = server.passed as Parameters<typeof toRequest>[0][];
    expect(event!.requestContext).toEqual({ requestId: 'gateway-1', identity: { sourceIp: '203.0.113.7' } });
    const request = toRequest(event!);
    expect(request.method).toBe('POST');
    expect(request.url).toMatch(/^\/webhooks\/[\w-]+\/secret\?x=1&x=2$/);
    expect(request.headers.get('prefer')).toBe('respond-async');
    expect(Buffer.from(await request.bytes()).toString()).toBe('{"text":"Ünïcode"}');
  });

  test.each([
    [new PlatformError('NOT_FOUND', 'nothing'), 404, 'NOT_FOUND'],
    [new Error('secret detail'), 500, 'INTERNAL_ERROR'],
  ])('the error %s of passing a call on is answered', async (error, status, code) => {
    const server = await start(vi.fn(), { passCall: () => Promise.reject(error) });
    const response = await post(server, '{}', { prefer: 'respond-async' });
    const text = await response.text();
    expect([response.status, JSON.parse(text).error.code]).toEqual([status, code]);
    expect(text).not.toContain('secret detail');
  });

  test('a call that does not wait and is too large is not passed on', async () => {
    const server = await start(vi.fn());
    const response = await post(server, Buffer.alloc(5 * MB, ' '), { prefer: 'respond-async' });
    expect([response.status, (await errorOf(response)).code]).toEqual([413, 'DOCUMENT_TOO_LARGE']);
    expect(server.passed).toEqual([]);
  });
});
