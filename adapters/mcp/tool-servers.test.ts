import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { describe, expect, onTestFinished, test } from 'vitest';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { ToolServerSession } from '#core/ports/tool-servers.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { type ScriptedMcpOptions, startScriptedMcp } from '#test/helpers/scripted-mcp.ts';
import { createMcpToolServers } from './tool-servers.ts';

const clock = new SystemClock();
const servers = createMcpToolServers({ outbound: new HttpOutbound({ clock, ownHosts: ['127.0.0.1'] }), clock });
const never = () => new AbortController().signal;
const ADD = {
  name: 'add',
  description: 'Adds two numbers.',
  inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
};

async function scripted(options: ScriptedMcpOptions = {}) {
  const server = await startScriptedMcp({ tools: [ADD], ...options });
  onTestFinished(() => server.close());
  return server;
}

async function open(url: string, headers: Record<string, string> = {}): Promise<ToolServerSession> {
  const session = await servers.open({ url, headers }, never());
  onTestFinished(() => session.close());
  return session;
}

const EVERY_SERVER = (['modern', 'session'] as const).flatMap((revision) =>
  (['json', 'sse'] as const).map((answers) => ({ revision, answers })),
);

describe.each(EVERY_SERVER)('a server of revision $revision that answers with $answers', (options) => {
  test('is opened, asked for its tools once, called and left', async () => {
    const server = await scripted({ ...options, authorization: 'Bearer s3cret' });
    const session = await open(server.url, { authorization: 'Bearer s3cret' });
    expect(session.tools).toEqual([ADD]);
    const text = '{"a":1,"b":2}';
    expect(await session.call(session.tools[0]!, { a: 1, b: 2 }, never())).toEqual({
      isError: false,
      parts: [{ type: 'text', text }],
    });
    await session.close();
    expect(server.methods).toEqual(
      options.revision === 'modern'
        ? ['server/discover', 'tools/list', 'tools/call']
        : ['server/discover', 'initialize', 'notifications/initialized', 'tools/list', 'tools/call', 'DELETE'],
    );
  });

  test('lists its tools page by page', async () => {
    const tools = [1, 2, 3, 4, 5].map((n) => ({ ...ADD, name: `add${n}` }));
    const { url } = await scripted({ ...options, tools, pageSize: 2 });
    expect((await open(url)).tools).toEqual(tools);
  });

  test('keeps the list of the beginning when the server changes it', async () => {
    const server = await scripted(options);
    const session = await open(server.url);
    server.setTools([{ ...ADD, name: 'remove', description: 'Removes everything.' }]);
    await expect(session.call(session.tools[0]!, { a: 1, b: 2 }, never())).rejects.toThrow(
      'it answered with the error -32602: Unknown tool: add',
    );
    expect(session.tools).toEqual([ADD]);
    expect(server.methods.filter((method) => method === 'tools/list')).toHaveLength(1);
  });

  test.each(['sampling/createMessage', 'elicitation/create'] as const)('gets no answer to %s', async (ask) => {
    const server = await scripted(options);
    const session = await open(server.url);
    server.fault('tools/call', { ask });
    const called = session.call(session.tools[0]!, { a: 1, b: 2 }, never());
    if (options.revision === 'modern') {
      await expect(called).rejects.toThrow(
        'it asks for further input from a person or a model, which a run cannot give',
      );
    } else {
      expect((await called).parts).toEqual([{ type: 'text', text: 'The client said: Method not found' }]);
    }
    expect(server.methods.filter((method) => method === 'tools/call')).toHaveLength(1);
  });

  test.each([
    [{ breakOff: 'end' }, 'its answer ended without the result', true],
    [{ breakOff: 'reset' }, 'its answer broke off', true],
    [{ huge: 7_000_000 }, 'it answered more than 6,291,456 bytes', false],
    [{ status: 503 }, 'it answered 503', true],
    [{ status: 404 }, 'it answered 404', false],
    [{ status: 403 }, 'it answered 403: it refuses the headers', false],
    [
      { status: 307, headers: { location: '/elsewhere' } },
      /^it redirects \(status 307\), which is not followed: name the address that it leads to$/,
      false,
    ],
    [
      { status: 200, headers: { 'content-type': 'text/html' }, body: '<p>Hi' },
      /^its answer is none of the Model Context Protocol/,
      false,
    ],
    [
      { status: 200, headers: { 'content-type': 'application/json' }, body: '{"jsonrpc' },
      /^its answer is none of the Model Context Protocol/,
      false,
    ],
    [
      {
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: '{"jsonrpc":"2.0","id":"other","result":{"content":[]}}',
      },
      'it answered a different request',
      false,
    ],
    [
      {
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
      },
      'it answered with several messages at once',
      false,
    ],
    [
      { error: { code: -32602, message: `a must be a number${'!'.repeat(2000)}` } },
      /^it answered with the error -32602: .{500}$/,
      false,
    ],
  ] as const)('that meets a call with %j is left alone: the call is sent once', async (fault, message, isTransient) => {
    const server = await scripted(options);
    const session = await open(server.url);
    server.fault('tools/call', fault);
    const failure = await session.call(session.tools[0]!, { a: 1, b: 2 }, never()).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'TOOL_SERVER_FAILED', isTransient, message: expect.stringMatching(message) });
    expect(server.methods.filter((method) => method === 'tools/call')).toHaveLength(1);
    expect(server.methods).not.toContain('GET');
    // The session continues.
    server.fault('tools/call', { status: 500 }, 0);
    expect((await session.call(session.tools[0]!, { a: 1, b: 2 }, never())).isError).toBe(false);
  });

  test.each([{ hang: true }, { hangAfter: [] }] as const)(
    'that meets a call with %j is stopped by the signal',
    async (fault) => {
      const server = await scripted(options);
      const session = await open(server.url);
      server.fault('tools/call', fault);
      const stop = new AbortController();
      const asked = server.asked('tools/call');
      const called = session.call(session.tools[0]!, { a: 1, b: 2 }, stop.signal);
      await asked;
      // In the current revision a closed connection signals the cancellation.
      const told = options.revision === 'session' ? server.asked('notifications/cancelled') : undefined;
      stop.abort(new Error('enough'));
      await expect(called).rejects.toThrow('enough');
      if (told !== undefined) expect((await told).body.params.requestId).toBe((await asked).body.id);
      await session.close();
      await expect.poll(() => server.connections()).toBe(0);
    },
  );
});

test.each([
  [
    'requests',
    Array.from({ length: 51 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' })),
    'it sent more than 50 requests in an answer',
  ],
  ['messages', Array(10_001).fill({ jsonrpc: '2.0', method: 'a' }), 'it sent more than 10,000 messages in an answer'],
  ['events that are no messages', Array(10_001).fill(1), 'it sent more than 10,000 messages in an answer'],
])('a server that floods its client with %s is not heard again in this session', async (_, events, message) => {
  const server = await scripted({ revision: 'session' });
  const session = await open(server.url);
  // The server never accepts a response, so that each one holds its connection.
  server.fault('answer', { hang: true });
  server.fault('tools/call', { hangAfter: events }, 1);
  const call = () => session.call(session.tools[0]!, { a: 1, b: 2 }, never());
  await expect(call()).rejects.toThrow(message);
  await expect(call()).rejects.toThrow(message);
  expect(server.methods.filter((method) => method === 'tools/call')).toHaveLength(1);
  expect(server.methods.filter((method) => method === 'answer').length).toBeLessThanOrEqual(50);
  await expect.poll(() => server.connections()).toBe(0);
});

test('an answer is not inflated: its bytes count as they were sent', async () => {
  const server = await scripted();
  const session = await open(server.url);
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
  server.fault('tools/call', { status: 200, headers, body: gzipSync(Buffer.alloc(7_000_000)) });
  await expect(session.call(session.tools[0]!, { a: 1, b: 2 }, never())).rejects.toThrow(
    'its answer is none of the Model Context Protocol',
  );
});

test('requests of a server count for one call, as long as it takes the answers', async () => {
  const server = await scripted({ revision: 'session', answers: 'sse' });
  const session = await open(server.url);
  const pings = Array.from({ length: 30 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }));
  for (const calls of [1, 2]) {
    const stop = new AbortController();
    server.fault('tools/call', { hangAfter: pings }, 1);
    const called = session.call(session.tools[0]!, { a: 1, b: 2 }, stop.signal);
    await expect.poll(() => server.methods.filter((method) => method === 'answer').length).toBe(calls * 30);
    // Only the connections of the calls themselves remain.
    await expect.poll(() => server.connections()).toBe(calls);
    stop.abort(new Error('enough'));
    await expect(called).rejects.toThrow('enough');
  }
});

describe('opening a server', () => {
  test.each([
    ['server/discover', { status: 401 }, 'it answered 401: it refuses the headers', false],
    ['server/discover', { status: 502 }, 'it answered 502', true],
    ['server/discover', { breakOff: 'reset' }, 'it cannot be reached', true],
    ['server/discover', { status: 308, headers: { location: '/mcp/' } }, /^it redirects \(status 308\)/, false],
    ['tools/list', { status: 500 }, 'it answered 500', true],
    ['tools/list', { huge: 3_000_000 }, 'it answered more than', false],
    [
      'tools/list',
      { error: { code: -32603, message: 'no database' } },
      'it answered with the error -32603: no database',
      false,
    ],
    [
      'tools/list',
      { status: 200, headers: { 'content-type': 'application/json' }, body: '{"tools":[]}' },
      /^its answer is none/,
      false,
    ],
  ] as const)('that meets %s with %j', async (rpc, fault, message, isTransient) => {
    const server = await scripted();
    server.fault(rpc, fault);
    await expect(servers.open({ url: server.url, headers: {} }, never())).rejects.toMatchObject({
      code: 'TOOL_SERVER_FAILED',
      isTransient,
      message: expect.stringMatching(message),
    });
    await expect.poll(() => server.connections()).toBe(0);
  });

  test('whose list has no end', async () => {
    const tools = Array.from({ length: 30 }, (_, n) => ({ ...ADD, name: `add${n}` }));
    const { url } = await scripted({ tools, pageSize: 1 });
    await expect(open(url)).rejects.toThrow('its list of tools has more than 10 pages');
  });

  test.each(['server/discover', 'tools/list'])('that does not answer %s, until the signal ends it', async (rpc) => {
    const server = await scripted();
    server.fault(rpc, { hang: true });
    const stop = new AbortController();
    const asked = server.asked(rpc);
    const opened = servers.open({ url: server.url, headers: {} }, stop.signal);
    await asked;
    stop.abort(new Error('enough'));
    await expect(opened).rejects.toThrow('enough');
    await expect.poll(() => server.connections()).toBe(0);
  });

  test('that is not there, or at a private address', async () => {
    await expect(open('http://127.0.0.1:9/mcp')).rejects.toMatchObject({
      isTransient: true,
      message: expect.stringMatching(/^it cannot be reached/),
    });
    const { url } = await scripted();
    const strict = createMcpToolServers({ outbound: new HttpOutbound({ clock, ownHosts: [] }), clock });
    await expect(strict.open({ url, headers: {} }, never())).rejects.toMatchObject({
      isTransient: false,
      message: expect.stringMatching('must begin with https://'),
    });
  });
});

describe('a server of the revision 2024-11-05', () => {
  const sse = (options: Parameters<typeof scripted>[0] = {}) => scripted({ revision: 'sse', ...options });
  const add = (session: ToolServerSession) => session.call(session.tools[0]!, { a: 1, b: 2 }, never());

  test.each([undefined, 'sse'] as const)('is found with the transport %s', async (transport) => {
    const server = await sse();
    const session = await servers.open({ url: server.url, headers: { 'x-own': '1' }, transport }, never());
    expect(session.tools).toMatchObject([{ name: 'add' }]);
    expect(await Promise.all([add(session), add(session)])).toMatchObject([{ isError: false }, { isError: false }]);
    expect(server.requests.every(({ headers }) => headers['x-own'] === '1')).toBe(true);
    expect(server.methods.includes('server/discover')).toBe(transport === undefined);
    await session.close();
    await expect.poll(() => server.connections()).toBe(0);
  });

  test('is not tried where the manifest names the other transport, or the server is no old one', async () => {
    const old = await sse();
    const open = servers.open({ url: old.url, headers: {}, transport: 'streamable-http' }, never());
    await expect(open).rejects.toThrow('it answered 405');
    const other = await scripted({ revision: 'session' });
    other.fault('server/discover', { status: 404 });
    other.fault('initialize', { status: 404 });
    await expect(servers.open({ url: other.url, headers: {} }, never())).rejects.toThrow('it answered 404');
    expect(other.methods).toContain('GET');
  });

  test('that refuses the headers, or is none, is named', async () => {
    const { url } = await sse({ authorization: 'Bearer x' });
    await expect(servers.open({ url, headers: {}, transport: 'sse' }, never())).rejects.toThrow('it answered 401');
    const modern = await scripted();
    await expect(servers.open({ url: modern.url, headers: {}, transport: 'sse' }, never())).rejects.toThrow(
      'it answered 405',
    );
  });

  test('that names an address of another host gets no message there', async () => {
    const other = await scripted();
    const { url } = await sse({ endpoint: other.url });
    await expect(servers.open({ url, headers: {}, transport: 'sse' }, never())).rejects.toThrow(
      'Endpoint origin does not match',
    );
    expect(other.requests).toEqual([]);
  });

  test('that ends its stream ends the calls, and is not asked again', async () => {
    const server = await sse();
    const session = await servers.open({ url: server.url, headers: {} }, never());
    server.fault('tools/call', { status: 202 });
    const asked = server.asked('tools/call');
    const called = add(session).catch((error: Error) => error.message);
    await asked;
    server.breakStreams();
    expect(await called).toBe('its event stream ended');
    await expect(add(session)).rejects.toThrow('its event stream ended');
    expect(server.methods.filter((method) => method === 'GET')).toHaveLength(1);
  });

  test('that answers too much is left', async () => {
    const server = await sse();
    const session = await servers.open({ url: server.url, headers: {} }, never());
    server.fault('tools/call', { huge: 5_000_000 }, 1);
    expect((await add(session)).parts).toHaveLength(1);
    server.fault('tools/call', { huge: 7_000_000 });
    await expect(add(session)).rejects.toThrow('it sent more on its event stream than its answers may have');
    await expect.poll(() => server.connections()).toBe(0);
  });

  test('that does not answer is left when the signal says so', async () => {
    const server = await sse();
    const session = await servers.open({ url: server.url, headers: {} }, never());
    server.fault('tools/call', { status: 202 });
    const stop = new AbortController();
    const asked = server.asked('tools/call');
    const called = session.call(session.tools[0]!, {}, stop.signal);
    await asked;
    stop.abort(new Error('enough'));
    await expect(called).rejects.toThrow('enough');
    await expect.poll(() => server.methods).toContain('notifications/cancelled');
    await session.close();
  });
});

test('the end of a session waits two seconds for a server that does not answer', async () => {
  const server = await scripted({ revision: 'session' });
  const manual = new ManualClock();
  const outbound = new HttpOutbound({ clock: manual, ownHosts: ['127.0.0.1'] });
  const session = await createMcpToolServers({ outbound, clock: manual }).open(
    { url: server.url, headers: {} },
    never(),
  );
  server.fault('DELETE', { hang: true });
  const asked = server.asked('DELETE');
  const closed = session.close();
  await asked;
  await manual.advance(2000);
  await closed;
  await expect.poll(() => server.connections()).toBe(0);
});

test('results of every kind', async () => {
  const png = Buffer.from([0x89, 0x50, 0x4e, 0x47]);
  const content = [
    { type: 'text', text: 'See:' },
    { type: 'image', data: png.toString('base64'), mimeType: 'image/png' },
    { type: 'resource_link', name: 'Report', uri: 'https://example.com/report' },
    { type: 'resource', resource: { uri: 'file:///a.txt', text: 'A' } },
    { type: 'resource', resource: { uri: 'file:///b.pdf', blob: 'JVBERg==', mimeType: 'application/pdf' } },
  ];
  const tools = [
    { name: 'mixed', result: { content, isError: true } },
    // The result does not match the schema, which the platform ignores.
    {
      name: 'structured',
      outputSchema: { type: 'object', required: ['m'] },
      result: { content: [], structuredContent: { n: 5 } },
    },
  ];
  const session = await open((await scripted({ tools })).url);
  const [mixed, structured] = session.tools;
  expect(await session.call(mixed!, {}, never())).toEqual({
    isError: true,
    parts: [
      { type: 'text', text: 'See:' },
      { type: 'file', mediaType: 'image/png', bytes: png },
      { type: 'text', text: 'Report: https://example.com/report' },
      { type: 'text', text: 'file:///a.txt:\nA' },
      { type: 'file', mediaType: 'application/pdf', bytes: Buffer.from('%PDF') },
    ],
  });
  expect((await session.call(structured!, {}, never())).parts).toEqual([{ type: 'text', text: '{"n":5}' }]);
});

test.each(['stateless', 'reject'] as const)(
  "a server of the protocol's own SDK, which treats older clients by '%s'",
  async (legacy) => {
    const handler = createMcpHandler(
      () => {
        const server = new McpServer({ name: 'sdk', version: '1.0.0' });
        const inputSchema = fromJsonSchema<{ a: number; b: number }>(ADD.inputSchema as never);
        server.registerTool('add', { description: ADD.description, inputSchema }, ({ a, b }) => ({
          content: [{ type: 'text', text: String(a + b) }],
        }));
        return server;
      },
      { legacy },
    );
    const http = createServer(async (request, response) => {
      const body = Buffer.concat(await request.toArray());
      const answer = await handler.fetch(
        new Request(`http://127.0.0.1${request.url}`, {
          method: request.method,
          headers: request.headers as Record<string, string>,
          ...(body.length > 0 && { body }),
        }),
      );
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      for await (const piece of answer.body ?? []) response.write(piece);
      response.end();
    });
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    onTestFinished(() => {
      http.close();
      http.closeAllConnections();
    });
    const session = await open(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`);
    expect(session.tools).toMatchObject([{ name: 'add', description: ADD.description }]);
    expect((await session.call(session.tools[0]!, { a: 1, b: 2 }, never())).parts).toEqual([
      { type: 'text', text: '3' },
    ]);
    const refused = await session.call(session.tools[0]!, { a: 'one' }, never()).catch((error: Error) => error);
    expect(JSON.stringify(refused instanceof Error ? refused.message : refused)).toMatch(/number/);
  },
);
