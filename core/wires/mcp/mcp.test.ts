import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { openApiDocument } from '#core/api/openapi.ts';
import { routes } from '#core/api/routes.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

const MODERN = '2026-07-28';

function start() {
  const deps = memoryDeps({ baseUrl: 'http://platform.test' });
  const app = createWebApp(deps, routes, allHandlers(deps));
  const send = (key: string, method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
    app(
      new Request(`http://platform.test${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        ...(body && { body: JSON.stringify(body) }),
      }),
    );
  /** Sends a request of the newest revision. */
  const rpc = async (key: string, method: string, params: object = {}, more: Record<string, string> = {}) => {
    const { path = '/mcp', ...headers } = more;
    const response = await send(key, 'POST', path, modern(method, params), {
      ...{ accept: 'application/json', 'mcp-protocol-version': MODERN, 'mcp-method': method },
      ...('name' in params && { 'mcp-name': String(params.name) }),
      ...headers,
    });
    // biome-ignore lint/suspicious/noExplicitAny: results of several shapes.
    return { status: response.status, ...((await response.json()) as any) };
  };
  const publish = async (key: string, manifest: object) => {
    const response = await send(key, 'POST', '/agents', {
      ...{ type: 'prompt', description: 'Says it.', prompt: 'Say {{text}}.', supported_providers: ['any'] },
      ...manifest,
    });
    expect(response.status, await response.clone().text()).toBe(201);
  };
  return { deps, app, send, rpc, publish };
}

const modern = (method: string, params: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: {
    ...params,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    },
  },
});

const SCHEMA = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };

test('discovers the server and lists its tools, by the newest revision and the ones before', async () => {
  const { deps, app, rpc, publish } = start();
  const ann = await addUser(deps, 'ann');
  await publish(ann.key, { name: 'echo', input_schema: SCHEMA });
  const discovered = await rpc(ann.key, 'server/discover');
  expect(discovered.result).toMatchObject({ capabilities: { tools: {} } });
  const { result } = await rpc(ann.key, 'tools/list');
  expect(result).toMatchObject({ ttlMs: 60_000, cacheScope: 'private' });
  const names = result.tools.map(({ name }: { name: string }) => name);
  expect(names).toContain('platform_run_agent');
  expect(result.tools.at(-1)).toEqual({
    name: 'ann__echo',
    title: 'echo',
    description: 'Says it.\n\nv1 · at most 300 s',
    inputSchema: SCHEMA,
    annotations: { readOnlyHint: false, openWorldHint: true },
  });
  for (const mode of [{ pin: MODERN }, 'legacy'] as const) {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    const fetch = (url: URL | string, init?: RequestInit) => app(new Request(url, init));
    const transport = new StreamableHTTPClientTransport(new URL('http://platform.test/mcp'), {
      fetch,
      requestInit: { headers: { authorization: `Bearer ${ann.key}` } },
    });
    await client.connect(transport);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(names);
    await client.close();
  }
});

test('pages have a hundred tools, each agent once, in the order of their publication', async () => {
  const { deps, rpc, publish } = start();
  const ann = await addUser(deps, 'ann');
  for (let n = 0; n < 100; n++) {
    await publish(ann.key, { name: `agent-${n}` });
    await deps.clock.advance(1000);
  }
  const names: string[] = [];
  let cursor: string | undefined;
  do {
    const { result } = await rpc(ann.key, 'tools/list', cursor === undefined ? {} : { cursor });
    expect(result.tools.length).toBeLessThanOrEqual(100);
    names.push(...result.tools.map(({ name }: { name: string }) => name));
    cursor = result.nextCursor;
  } while (cursor !== undefined);
  const agents = names.filter((name) => name.startsWith('ann__'));
  expect(agents).toEqual(Array.from({ length: 100 }, (_, n) => `ann__agent-${99 - n}`));
  expect(new Set(names).size).toBe(names.length);
});

test('an agent with a hostile schema is a tool, and the others are, too', async () => {
  const { deps, rpc, publish } = start();
  const ann = await addUser(deps, 'ann');
  const hostile = { type: 'object', properties: { text: { type: 'string', 'x-mcp-header': 'authorization' } } };
  await publish(ann.key, { name: 'hostile', input_schema: hostile });
  await publish(ann.key, { name: 'harmless', input_schema: SCHEMA });
  const { result } = await rpc(ann.key, 'tools/list');
  const schemas = new Map(
    result.tools.map((tool: { name: string; inputSchema: object }) => [tool.name, tool.inputSchema]),
  );
  expect(schemas.get('ann__hostile')).toEqual({ type: 'object' });
  expect(schemas.get('ann__harmless')).toEqual(SCHEMA);
});

test.each([{}, { path: '/ann/echo/mcp' }])(
  'subscriptions end at once, so that nobody holds connections with them: %j',
  async (where) => {
    const { deps, send, publish } = start();
    const ann = await addUser(deps, 'ann');
    await publish(ann.key, { name: 'echo' });
    const listen = {
      notifications: {
        ...{ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true },
        resourceSubscriptions: ['skill://ann/v1/echo/SKILL.md'],
      },
    };
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const response = await send(ann.key, 'POST', where.path ?? '/mcp', modern('subscriptions/listen', listen), {
          ...{ accept: 'application/json, text/event-stream', 'mcp-protocol-version': MODERN },
          'mcp-method': 'subscriptions/listen',
        });
        return response.text();
      }),
    );
    for (const answer of answers) {
      expect(answer).toContain('"notifications/subscriptions/acknowledged","params":{"notifications":{}');
      expect(answer).toContain('"resultType":"complete"');
    }
  },
);

test('the description has the statuses of the protocol', async () => {
  const { deps, send, publish } = start();
  const ann = await addUser(deps, 'ann');
  await publish(ann.key, { name: 'echo' });
  const legacy = { jsonrpc: '2.0', method: 'notifications/initialized' };
  const initialize = { ...legacy, id: 1, method: 'initialize', params: {} };
  for (const path of ['/mcp', '/ann/echo/mcp']) {
    const post = async (body: object, headers: Record<string, string>) => {
      const response = await send(ann.key, 'POST', path, body, headers);
      return [response.status, (await response.text()) !== ''];
    };
    const both = { accept: 'application/json, text/event-stream' };
    const statuses = [
      [202, false, await post(legacy, both)],
      [406, true, await post(initialize, { accept: 'application/json' })],
      [
        404,
        true,
        await post(modern('unknown/method', {}), {
          ...both,
          'mcp-protocol-version': MODERN,
          'mcp-method': 'unknown/method',
        }),
      ],
    ] as const;
    for (const [status, hasBody, answer] of statuses) expect(answer, path).toEqual([status, hasBody]);
  }
  const document = openApiDocument() as { paths: Record<string, { post: { responses: object } }> };
  for (const path of ['/mcp', '/{org}/{agent}/mcp']) {
    expect(Object.keys(document.paths[path]!.post.responses)).toEqual(
      expect.arrayContaining(['200', '202', '404', '406']),
    );
  }
});

test('a caller never sees agents of another workspace in the list', async () => {
  const { deps, rpc, publish } = start();
  const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
  await publish(ann.key, { name: 'secretive' });
  const path = '/mcp?tools=ann/secretive';
  for (const result of [await rpc(bob.key, 'tools/list', {}, { path }), await rpc(bob.key, 'tools/list')]) {
    expect(JSON.stringify(result)).not.toContain('secretive');
  }
});

test('pages of other sites are refused, also those of the same machine', async () => {
  const { deps, rpc } = start();
  const ann = await addUser(deps, 'ann');
  const from = async (origin: string) => (await rpc(ann.key, 'tools/list', {}, { origin })).status;
  expect(await from('http://attacker.test')).toBe(403);
  expect(await from('null')).toBe(403);
});
