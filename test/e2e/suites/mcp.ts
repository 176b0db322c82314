import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { clientOf, needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const limit = { timeout: 180_000 };
const MODERN = '2026-07-28';
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
};
const INPUT = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };
const OUTPUT = { type: 'object', properties: { words: { type: 'integer' } }, required: ['words'] };

/** Clients of the Model Context Protocol (`docs/interface/mcp.md`). */
export function mcpSuite(target: () => Target): void {
  let user: TestUser;
  let other: TestUser;

  const publish = (of: TestUser, name: string, turns: readonly ScriptedTurn[], manifest: object = {}) => {
    const prompt = `Work on {{text}}. [[llm ${JSON.stringify(turns)}]]`;
    const json = { name, type: 'prompt', description: `Does ${name}.`, required_secrets: [], prompt, ...manifest };
    return request(target(), 'POST', '/agents', { key: of.key, json });
  };
  /** Sends a request of the newest revision. */
  const rpc = async (
    method: string,
    params: Record<string, unknown> = {},
    {
      key = user.key,
      path = '/mcp',
      headers = {},
    }: { key?: string; path?: string; headers?: Record<string, string> } = {},
  ) => {
    const { _meta = {}, ...rest } = params as { _meta?: object };
    const answer = await request(target(), 'POST', path, {
      key,
      json: { jsonrpc: '2.0', id: 7, method, params: { ...rest, _meta: { ...ENVELOPE, ..._meta } } },
      headers: {
        ...{ accept: 'application/json, text/event-stream', 'mcp-protocol-version': MODERN, 'mcp-method': method },
        ...(params.name !== undefined && { 'mcp-name': String(params.name) }),
        ...headers,
      },
    });
    const messages = typeof answer.body === 'string' ? messagesOf(answer.body) : [answer.body];
    return { ...answer, notifications: messages.slice(0, -1), message: messages.at(-1) };
  };
  const call = async (name: string, args: object, more: object = {}, options: Parameters<typeof rpc>[2] = {}) =>
    (await rpc('tools/call', { name, arguments: args, ...more }, options)).message;
  const namesOf = async (options: Parameters<typeof rpc>[2] = {}) =>
    (await rpc('tools/list', {}, options)).message.result.tools.map(({ name }: { name: string }) => name) as string[];
  const runOf = async (id: string) =>
    expectOk(await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs/${id}`, { key: user.key }));

  beforeAll(async () => {
    needsModel(target());
    [user, other] = [await target().addUser('mcp-user'), await target().addUser('mcp-other')];
    for (const { key, workspaceId } of [user, other]) {
      const json = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-mcp-0123456789' };
      expectOk(await request(target(), 'PUT', `/workspaces/${workspaceId}/secrets`, { key, json }));
    }
    expectOk(await publish(user, 'echo', [{ text: 'Hello there.' }], { input_schema: INPUT }), 201);
    const counts = { input_schema: INPUT, output_schema: OUTPUT };
    expectOk(await publish(user, 'count', [{ text: '{"words":2}' }], counts), 201);
    expectOk(await publish(other, 'public', [{ text: 'Hi.' }], { is_public: true, tags: ['mcp-suite'] }), 201);
    expectOk(await publish(other, 'private', [{ text: 'Hi.' }]), 201);
  });

  describe('MCP', () => {
    test('tells what it is, and lists the agents of the workspace after the tools of the platform', limit, async () => {
      const { message } = await rpc('server/discover');
      expect(message.result).toMatchObject({ resultType: 'complete', capabilities: { tools: {} } });
      const { result } = (await rpc('tools/list')).message;
      expect(result).toMatchObject({ ttlMs: 60_000, cacheScope: 'private' });
      const tools = new Map<string, object>(result.tools.map((tool: { name: string }) => [tool.name, tool]));
      expect([...tools.keys()].slice(0, 3)).toEqual([
        ...['platform_search_agents', 'platform_list_agents', 'platform_run_agent'],
      ]);
      expect(tools.get('mcp-user__count')).toMatchObject({
        title: 'count',
        description: expect.stringMatching(/^Does count\.\n\nv1 · at most \d+ s$/),
        inputSchema: INPUT,
        outputSchema: OUTPUT,
        annotations: { readOnlyHint: false, openWorldHint: true },
      });
      expect(tools.has('mcp-other__public')).toBe(false);
      expect((await rpc('tools/list')).message.result.tools).toEqual(result.tools);
    });

    test('calls an agent as an ordinary call, with text, structure and the run', limit, async () => {
      const { result } = await call('mcp-user__echo', { text: 'Ada' });
      expect(result).toMatchObject({
        content: [{ type: 'text', text: '{"result":"Hello there."}' }],
        structuredContent: { result: 'Hello there.' },
      });
      const run = await runOf(result._meta['platform/run_id']);
      expect(run).toMatchObject({ status: 'completed', trigger_source: 'mcp', input_data: { text: 'Ada' } });
      const counted = await call('mcp-user__count', { text: 'Ada Bob' });
      expect(counted.result).toMatchObject({
        content: [{ type: 'text', text: '{"words":2}' }],
        structuredContent: { words: 2 },
      });
    });

    test('what a model can react to is a result, and what it cannot is an error', limit, async () => {
      const wrong = await call('mcp-user__echo', { text: 7 });
      expect(wrong.result).toMatchObject({ isError: true });
      expect(JSON.parse(wrong.result.content[0].text)).toMatchObject({ code: 'INVALID_INPUT' });
      expect((await call('mcp-user__absent', {})).error).toMatchObject({ code: -32602 });
      expect((await call('platform_absent', {})).error).toMatchObject({ code: -32602 });
      const refused = await call('mcp-other__private', { text: 'x' });
      expect(JSON.parse(refused.result.content[0].text)).toMatchObject({ code: 'FORBIDDEN' });
      expect((await rpc('tools/list', { cursor: 'made-up' })).message.error).toMatchObject({ code: -32602 });
      expect((await rpc('made/up')).message.error).toMatchObject({ code: -32601 });
    });

    test('an agent that fails says why, and names its run', limit, async () => {
      expectOk(await publish(user, 'fails', [{ status: 400, message: 'made up' }]), 201);
      const { result } = await call('mcp-user__fails', { text: 'x' });
      expect(result).toMatchObject({ isError: true });
      expect(JSON.parse(result.content[0].text)).toMatchObject({
        code: 'LLM_ERROR',
        is_retryable: expect.any(Boolean),
      });
      expect(await runOf(result._meta['platform/run_id'])).toMatchObject({ status: 'failed' });
    });

    test('agents of others are tools if the address names them, and are found and run', limit, async () => {
      const path = '/mcp?tools=mcp-other/public,mcp-other/private,made-up/absent';
      const names = await namesOf({ path });
      expect(names).toContain('mcp-other__public');
      expect(names).not.toContain('mcp-other__private');
      const { result } = await call('mcp-other__public', { text: 'x' }, {}, { path });
      expect(result.structuredContent).toEqual({ result: 'Hi.' });
      const found = await call('platform_search_agents', { tags: 'mcp-suite' });
      expect(found.result.structuredContent.output).toMatchObject([{ org: 'mcp-other', agent: 'public' }]);
      const ran = await call('platform_run_agent', { org: 'mcp-other', agent: 'public', input: { text: 'x' } });
      expect(ran.result.structuredContent).toMatchObject({
        data: { result: 'Hi.' },
        metadata: { agent: 'mcp-other/public' },
      });
      const many = Array.from({ length: 21 }, (_, n) => `a/b${n}`).join(',');
      expectError(await rpc('tools/list', {}, { path: `/mcp?tools=${many}` }), 400, 'INVALID_INPUT');
    });

    test('one agent has an address of its own, with nothing else', limit, async () => {
      const path = '/mcp-other/public/mcp';
      expect(await namesOf({ path })).toEqual(['mcp-other__public']);
      expect((await call('mcp-other__public', { text: 'x' }, {}, { path })).result.structuredContent).toEqual({
        result: 'Hi.',
      });
      expect((await call('platform_list_runs', {}, {}, { path })).error).toMatchObject({ code: -32602 });
      expect((await call('mcp-user__echo', { text: 'x' }, {}, { path })).error).toMatchObject({ code: -32602 });
      expectError(await rpc('tools/list', {}, { path: '/mcp-other/private/mcp' }), 403, 'FORBIDDEN');
      expectError(await rpc('tools/list', {}, { path: '/mcp-other/absent/mcp' }), 404, 'NOT_FOUND');
    });

    test('the tools of the platform keep tasks, messages, schedules and runs', limit, async () => {
      const use = async (name: string, args: object = {}) => (await call(`platform_${name}`, args)).result;
      const made = await use('create_task', { title: 'Look at it' });
      expect(made.isError, made.content[0].text).toBeUndefined();
      const { tasks } = (await use('list_tasks', { status: 'open' })).structuredContent;
      expect(tasks).toMatchObject([{ title: 'Look at it' }]);
      await use('update_task', { task_id: tasks[0].id, status: 'done' });
      expect((await use('delete_task', { task_id: 'Look at it' })).isError).toBeUndefined();
      await use('send_message', { title: 'Done', body: 'All of it' });
      expect((await use('list_messages')).structuredContent.messages).toMatchObject([{ title: 'Done' }]);
      const schedule = { agent: 'mcp-user/echo', cron_expression: '0 9 * * *', input_data: { text: 'Bob' } };
      expect((await use('create_schedule', schedule)).isError).toBeUndefined();
      expect((await use('list_schedules')).structuredContent.schedules).toHaveLength(1);
      expect(JSON.stringify(await use('trigger_schedule', { schedule: 'echo' }))).toContain('Hello there.');
      expect((await use('list_runs', { agent_name: 'echo', limit: 1 })).structuredContent.runs).toHaveLength(1);
      expect((await use('get_run_logs', { run: 'echo' })).structuredContent).toMatchObject({ agent_name: 'echo' });
      expect((await use('get_trace', { run: 'echo' })).structuredContent).toMatchObject({
        trace: { status: 'completed' },
      });
      const wrong = await use('create_task', {});
      expect(JSON.parse(wrong.content[0].text)).toMatchObject({ code: 'INVALID_INPUT' });
      const elsewhere = await use('list_tasks', { workspace_id: other.workspaceId });
      expect(JSON.parse(elsewhere.content[0].text)).toMatchObject({ code: 'FORBIDDEN' });
    });

    test('a key uses what its scope and its workspace allow', limit, async () => {
      const make = async (body: object) => (await clientOf(target(), user.key).createApiKey({ body } as never)).key;
      const runs = await make({ name: 'mcp runs', scope: 'run', workspace_id: user.workspaceId });
      const names = await namesOf({ key: runs });
      expect(names).toContain('mcp-user__echo');
      expect(names).not.toContain('platform_create_schedule');
      const refused = await call('platform_create_schedule', {}, {}, { key: runs });
      expect(JSON.parse(refused.result.content[0].text)).toMatchObject({
        code: 'FORBIDDEN',
        message: expect.stringContaining('scope'),
      });
      const reads = await make({ name: 'mcp reads', scope: 'read' });
      expectError(await rpc('tools/list', {}, { key: reads }), 403, 'FORBIDDEN');
      expectError(await rpc('tools/list', {}, { key: 'sk_live_made_up' }), 401, 'UNAUTHORIZED');
      const headers = { 'x-workspace-id': other.workspaceId };
      expectError(await rpc('tools/list', {}, { key: runs, headers }), 403, 'FORBIDDEN');
    });

    test('tells the progress of a loop if it is asked to', limit, async () => {
      const submit = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
      const prompt = `Work. [[llm ${JSON.stringify([submit])}]]`;
      expectOk(await publish(user, 'loop', [], { type: 'agent', prompt }), 201);
      const params = { name: 'mcp-user__loop', arguments: {} };
      const { notifications, message } = await rpc('tools/call', { ...params, _meta: { progressToken: 'p1' } });
      expect(message.result.isError, JSON.stringify(message.result.content)).toBeUndefined();
      const progress = notifications.map(({ method, params: told }: { method: string; params: object }) => {
        expect(method).toBe('notifications/progress');
        return told;
      });
      expect(progress[0]).toMatchObject({ progressToken: 'p1', progress: 1 });
      expect(progress).toContainEqual(expect.objectContaining({ message: expect.stringMatching(/^Turn 1 of/) }));
      expect((await rpc('tools/call', params)).notifications).toEqual([]);
    });

    test('a client that leaves cancels the run, where the host learns of it', limit, async () => {
      expectOk(await publish(user, 'waits', [{ text: 'late', waitFor: 'mcp-never' }]), 201);
      const leaving = new AbortController();
      const params = { name: 'mcp-user__waits', arguments: { text: 'x' }, _meta: ENVELOPE };
      const answer = await fetch(`${target().url}/mcp`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${user.key}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': MODERN,
          'mcp-method': 'tools/call',
          'mcp-name': params.name,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
        signal: leaving.signal,
      });
      expect(answer.headers.get('content-type')).toContain('text/event-stream');
      const newest = async () =>
        expectOk(
          await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs?agent_name=waits&limit=1`, {
            key: user.key,
          }),
        ).runs[0];
      await vi.waitFor(async () => expect(await newest()).toMatchObject({ status: 'running' }), limit);
      leaving.abort();
      if (target().seesClientsLeave === false) {
        const { id, status } = await newest();
        expect(status).toBe('running');
        expectOk(await request(target(), 'DELETE', `/workspaces/${user.workspaceId}/runs/${id}`, { key: user.key }));
      }
      await vi.waitFor(async () => expect(await newest()).toMatchObject({ status: 'cancelled' }), limit);
    });

    test('a client of an older revision cancels by a message, and only its own calls', limit, async () => {
      const connect = async () => {
        const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
        const requestInit = { headers: { authorization: `Bearer ${user.key}` } };
        await client.connect(new StreamableHTTPClientTransport(new URL(`${target().url}/mcp`), { requestInit }));
        return client;
      };
      const clients = [await connect(), await connect()];
      const statuses = async () => {
        const path = `/workspaces/${user.workspaceId}/runs?agent_name=waits&limit=2`;
        const { runs } = expectOk(await request(target(), 'GET', path, { key: user.key }));
        return runs.map(({ status }: { status: string }) => status);
      };
      const leaving = clients.map(() => new AbortController());
      const calls = clients.map((client, index) =>
        client
          .callTool({ name: 'mcp-user__waits', arguments: { text: 'x' } }, { signal: leaving[index]!.signal })
          .catch((error: unknown) => String(error)),
      );
      await vi.waitFor(async () => expect(await statuses()).toEqual(['running', 'running']), limit);
      leaving[0]!.abort();
      await calls[0];
      await vi.waitFor(async () => expect((await statuses()).sort()).toEqual(['cancelled', 'running']), limit);
      leaving[1]!.abort();
      await vi.waitFor(async () => expect(await statuses()).toEqual(['cancelled', 'cancelled']), limit);
      await Promise.all(clients.map((client) => client.close()));
    });

    test('refuses what the protocol refuses', limit, async () => {
      const raw = (body: string, headers: Record<string, string> = {}) =>
        request(target(), 'POST', '/mcp', {
          key: user.key,
          body,
          headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
        });
      expect((await raw('{')).body).toMatchObject({ error: { code: -32700 } });
      expect((await raw('{')).status).toBe(400);
      expect((await raw(JSON.stringify(Array(21).fill({})))).body).toMatchObject({ error: { code: -32600 } });
      expect((await raw('{}', { 'content-type': 'text/plain' })).status).toBe(415);
      const mismatch = await rpc('tools/list', {}, { headers: { 'mcp-method': 'tools/call' } });
      expect([mismatch.status, mismatch.message.error.code]).toEqual([400, -32020]);
      const foreign = await rpc('tools/list', {}, { headers: { origin: 'https://attacker.example.com' } });
      expectError(foreign, 403, 'FORBIDDEN');
      expectError(await rpc('tools/list', {}, { headers: { origin: 'null' } }), 403, 'FORBIDDEN');
      for (const method of ['GET', 'DELETE']) {
        const refused = await request(target(), method, '/mcp', { key: user.key });
        expectError(refused, 405, 'METHOD_NOT_ALLOWED');
        expect(refused.headers.get('allow')).toBe('POST');
      }
    });

    test.each([{ pin: MODERN }, 'legacy'] as const)("the SDK's client of %j lists and calls", limit, async (mode) => {
      const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
      const requestInit = { headers: { authorization: `Bearer ${user.key}` } };
      await client.connect(new StreamableHTTPClientTransport(new URL(`${target().url}/mcp`), { requestInit }));
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toContain('mcp-user__count');
      const result = await client.callTool({ name: 'mcp-user__count', arguments: { text: 'Ada Bob' } });
      expect(result.structuredContent).toEqual({ words: 2 });
      const told: unknown[] = [];
      const options = { onprogress: (progress: unknown) => told.push(progress) };
      await client.callTool({ name: 'mcp-user__loop', arguments: {} }, options);
      expect(told).toContainEqual(expect.objectContaining({ progress: 1 }));
      await client.close();
    });
  });
}

/** Returns the messages of an event stream. */
// biome-ignore lint/suspicious/noExplicitAny: messages of several shapes.
const messagesOf = (text: string): any[] =>
  text.split('\n').flatMap((line) => (line.startsWith('data: ') && line.length > 6 ? [JSON.parse(line.slice(6))] : []));
