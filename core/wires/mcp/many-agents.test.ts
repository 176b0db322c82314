import { expect, onTestFinished, test } from 'vitest';
import { headKey, idKey, versionKey } from '#core/agents/record.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { getAll, type Item } from '#core/ports/table.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

const MODERN = '2026-07-28';
const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
};

interface Tool {
  readonly name: string;
}

/** A workspace, the slug of which is so long that names of tools are cut, and what counts the operations on its table. */
async function start() {
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const memory = memoryDeps({ anthropicUrl: `${llm.url}/anthropic/v1` });
  const counter = new OperationCounter();
  const deps = { ...memory, main: counter.count(memory.main, 'main') };
  const app = createWebApp(deps, routes, allHandlers(deps));
  const { key, workspaceId, slug } = await addUser(memory, 'the-workspace-of-many');
  const send = async (method: string, path: string, body: object, more: Record<string, string> = {}) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more };
    const response = await app(
      new Request(`http://platform.test${path}`, { method, headers, body: JSON.stringify(body) }),
    );
    // biome-ignore lint/suspicious/noExplicitAny: answers of several shapes.
    return (await response.json()) as any;
  };
  const rpc = (method: string, params: object) =>
    send(
      'POST',
      '/mcp',
      { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } },
      {
        ...{ accept: 'application/json', 'mcp-protocol-version': MODERN, 'mcp-method': method },
        ...('name' in params && { 'mcp-name': String(params.name) }),
      },
    );
  await send('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' });
  const publish = (name: string) =>
    send('POST', '/agents', {
      ...{ name, type: 'prompt', description: 'Says it.', prompt: 'Say it.', supported_providers: ['anthropic'] },
    });
  /** Stores copies of a version, which is faster than to publish each. */
  const copy = async (name: string, copies: readonly { readonly name: string; readonly version: number }[]) => {
    const keys = [versionKey({ workspaceId, name, version: 1 }), headKey(workspaceId, name)];
    const [item, head] = await getAll(memory.main, keys);
    const created = Date.parse((item as Item).created_at as string);
    for (const [index, { name, version }] of copies.entries()) {
      const id = crypto.randomUUID();
      const at = new Date(created + (index + 1) * 1000).toISOString();
      await memory.main.put({
        ...(item as Item),
        ...versionKey({ workspaceId, name, version }),
        ...{ id, name, version, created_at: at, updated_at: at, gsi1sk: `${at}#${id}` },
      });
      await memory.main.put({ ...idKey(id), workspace_id: workspaceId, name, version });
      await memory.main.put({ ...(head as Item), ...headKey(workspaceId, name), current: version, assigned: version });
    }
  };
  /** Asks for all pages; the operations of each are counted. */
  const listAll = async (): Promise<{ readonly tools: Tool[]; readonly pages: PageCost[] }> => {
    const tools: Tool[] = [];
    const pages: PageCost[] = [];
    let cursor: string | undefined;
    do {
      const before = { operations: counter.operations.length, items: counter.items };
      const { result } = await rpc('tools/list', cursor === undefined ? {} : { cursor });
      const operations = counter.operations.slice(before.operations).filter(({ method }) => method !== 'get');
      pages.push({
        tools: result.tools.length,
        requests: operations.length,
        items: operations.reduce((sum, { items }) => sum + items, 0),
      });
      tools.push(...result.tools);
      cursor = result.nextCursor;
    } while (cursor !== undefined);
    return { tools, pages };
  };
  return { ...{ slug, publish, copy, listAll, rpc, counter } };
}

interface PageCost {
  readonly tools: number;
  readonly requests: number;
  readonly items: number;
}

const MANY = 10_000;

test('10,000 agents are listed in pages of bounded cost, searched and called', { timeout: 60_000 }, async () => {
  const { slug, publish, copy, listAll, rpc, counter } = await start();
  const last = 'a'.repeat(50);
  await publish(last);
  await copy(
    last,
    Array.from({ length: MANY - 1 }, (_, n) => ({ name: `agent-${n}`, version: 1 })),
  );

  const { tools, pages } = await listAll();
  const own = tools.map(({ name }) => name).filter((name) => !name.startsWith('platform_'));
  expect(new Set(own).size).toBe(MANY);
  expect(own.slice(0, 2)).toEqual([`${slug}__agent-9998`, `${slug}__agent-9997`]);
  for (const page of pages) {
    expect(page.tools).toBeLessThanOrEqual(100);
    // A page of the index, and the heads of its agents.
    expect(page.requests).toBeLessThanOrEqual(2);
    expect(page.items).toBeLessThanOrEqual(200);
  }

  const callOf = async (name: string, args: object = {}) => {
    const before = counter.items;
    const { result } = await rpc('tools/call', { name, arguments: args });
    return { result, items: counter.items - before };
  };
  // The last of the list, whose name was cut.
  expect(own.at(-1)).toMatch(/^the-w-[0-9a-f]{6}__a{50}$/);
  const called = await callOf(own.at(-1)!);
  expect(called.result).toMatchObject({ content: [{ type: 'text' }], _meta: { 'platform/version': 'v1' } });
  expect(called.result.isError).toBeUndefined();
  expect(called.items).toBeLessThan(20);
  const ran = await callOf('platform_run_agent', { agent: 'agent-0' });
  expect(ran.result.structuredContent).toMatchObject({ metadata: { agent: `${slug}/agent-0` } });
  expect(ran.items).toBeLessThan(20);

  const listed = await callOf('platform_list_agents');
  expect(listed.result.structuredContent.output).toHaveLength(500);
  expect(listed.items).toBeLessThan(1100);
  const found = await callOf('platform_list_agents', { search: 'AAAAA' });
  expect(found.result.structuredContent.output).toMatchObject([{ agent: last, version: 'v1' }]);
});

test('an agent with thousands of versions is one tool, and no page looks through them all', async () => {
  const { slug, publish, copy, listAll } = await start();
  for (const name of ['first', 'second']) await publish(name);
  await copy(
    'second',
    Array.from({ length: 2_500 }, (_, n) => ({ name: 'second', version: n + 2 })),
  );
  const { tools, pages } = await listAll();
  expect(tools.map(({ name }) => name).filter((name) => name.startsWith(slug))).toEqual([
    `${slug}__second`,
    `${slug}__first`,
  ]);
  expect(pages.length).toBe(3);
  for (const { requests } of pages) expect(requests).toBeLessThanOrEqual(26);
});
