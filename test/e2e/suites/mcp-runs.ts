import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectOk } from '../expect.ts';

const limit = { timeout: 180_000 };
const TASKS = 'io.modelcontextprotocol/tasks';
const PROTOCOL = '2026-07-28';
const FORMS = { elicitation: {} };
const TASK_CLIENT = { ...FORMS, extensions: { [TASKS]: {} } };
const submit: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'It is done.' } }] };
const question = (text: string, more: object = {}) => ({ name: 'ask_human', input: { question: text, ...more } });
const accept = (content: object) => ({ action: 'accept', content });

interface Sending {
  readonly key?: string;
  readonly path?: string;
  readonly capabilities?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Runs as tasks, questions of runs, and skills, by MCP (`docs/interface/mcp.md`). */
export function mcpRunsSuite(target: () => Target): void {
  let user: TestUser;
  let stranger: TestUser;

  /** Sends a request of MCP. Returns its `result` or `error`, and the status. */
  async function send(
    method: string,
    params: object,
    { key, path = '/mcp', capabilities = {}, headers }: Sending = {},
  ) {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': PROTOCOL,
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    };
    const named = params as { readonly name?: string; readonly taskId?: string; readonly uri?: string };
    const name = named.name ?? named.taskId ?? (method === 'resources/read' ? named.uri : undefined);
    const response = await fetch(target().url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key ?? user.key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': PROTOCOL,
        'mcp-method': method,
        ...(name !== undefined && { 'mcp-name': name }),
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } }),
    });
    const text = await response.text();
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    const last = text.split('\n').findLast((line) => line.startsWith('data: '));
    // biome-ignore lint/suspicious/noExplicitAny: results of every method.
    const answer = JSON.parse(isStream ? last!.slice('data: '.length) : text) as any;
    return { status: response.status, ...answer };
  }
  const call = (agent: string, more: object = {}, sending: Sending = {}) =>
    send('tools/call', { name: `mcp-runs-user__${agent}`, arguments: {}, ...more }, sending);
  const task = (method: string, taskId: string, sending: Sending = {}, more: object = {}) =>
    send(`tasks/${method}`, { taskId, ...more }, { capabilities: TASK_CLIENT, ...sending });
  async function begun(agent: string, sending: Sending = {}): Promise<string> {
    const { result } = await call(agent, {}, { capabilities: TASK_CLIENT, ...sending });
    expect(result).toMatchObject({ resultType: 'task', status: expect.stringMatching(/^(working|input_required)$/) });
    return result.taskId;
  }
  const stateOf = (taskId: string) => expect.poll(async () => (await task('get', taskId)).result, { timeout: 60_000 });

  const publish = (name: string, turns: readonly ScriptedTurn[], manifest: object = {}) => {
    const prompt = `Do it. [[llm ${JSON.stringify(turns)}]]`;
    const json = { name, type: 'agent', description: 'x', required_secrets: [], prompt, ...manifest };
    return request(target(), 'POST', '/agents', { key: user.key, json });
  };

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('mcp-runs-user');
    stranger = await target().addUser('mcp-runs-stranger');
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-mcp-runs-0123456789' };
    expectOk(
      await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json: secret }),
    );
    const asks = { loop: { tools: ['ask_human'] } };
    const colors = question('Which color?', { options: ['red', 'blue'] });
    expectOk(await publish('worker', [submit], { durable: true }), 201);
    expectOk(await publish('failing', [{ status: 400, message: 'no' }], { durable: true }), 201);
    expectOk(await publish('slow', [{ waitFor: 'never: mcp', ...submit }], { durable: true }), 201);
    expectOk(await publish('asker', [{ toolCalls: [colors] }, submit], asks), 201);
    const two = [{ toolCalls: [colors, question('How many?', { schema: { type: 'integer' } })] }, submit];
    expectOk(await publish('twice', two, asks), 201);
    const files = [{ path: 'words.txt', content: 'plain' }];
    const skill = { name: 'tone', type: 'skill', description: 'How we write', prompt: 'Be brief.', skill_files: files };
    expectOk(await request(target(), 'POST', '/agents', { key: user.key, json: skill }), 201);
  }, 180_000);

  describe('a task', () => {
    test('is the run of a durable agent, under its id', limit, async () => {
      const taskId = await begun('worker');
      await stateOf(taskId).toMatchObject({ status: 'completed', resultType: 'complete', taskId });
      const { result } = await task('get', taskId);
      expect(result).toMatchObject({
        result: { content: [{ type: 'text', text: expect.stringContaining('It is done.') }] },
        ttlMs: expect.any(Number),
        pollIntervalMs: 1000,
      });
      const run = await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs/${taskId}`, { key: user.key });
      expect(run.body).toMatchObject({ id: taskId, status: 'completed', trigger_source: 'mcp' });
    });

    test('of a run that failed is completed, with an error for the model', limit, async () => {
      const taskId = await begun('failing');
      await stateOf(taskId).toMatchObject({ status: 'completed', result: { isError: true } });
    });

    test('is cancelled, once', limit, async () => {
      const taskId = await begun('slow');
      expect((await task('cancel', taskId)).result).toMatchObject({ resultType: 'complete' });
      target().llm.release('never: mcp');
      await stateOf(taskId).toMatchObject({ status: 'cancelled' });
      expect((await task('cancel', taskId)).result).toMatchObject({ resultType: 'complete' });
    });

    test('asks people, and takes answers one by one', limit, async () => {
      const taskId = await begun('twice');
      await stateOf(taskId).toMatchObject({
        status: 'input_required',
        inputRequests: { [`${taskId}.1.1`]: { method: 'elicitation/create' }, [`${taskId}.1.2`]: {} },
      });
      const answer = (inputResponses: object) => task('update', taskId, {}, { inputResponses });
      expect((await answer({ [`${taskId}.1.1`]: accept({ answer: 'green' }) })).error).toMatchObject({ code: -32602 });
      expect((await answer({ [`${taskId}.1.1`]: accept({ answer: 'blue' }), other: accept({}) })).result).toBeDefined();
      const { inputRequests } = (await task('get', taskId)).result;
      expect(Object.keys(inputRequests)).toEqual([`${taskId}.1.2`]);
      expect((await answer({ [`${taskId}.1.2`]: accept({ answer: 3 }) })).result).toBeDefined();
      await stateOf(taskId).toMatchObject({ status: 'completed', result: {} });
    });

    test('needs a client that declares the extension with the request', limit, async () => {
      for (const capabilities of [{}, { extensions: {} }, { extensions: { other: {} } }]) {
        const { result } = await call('worker', {}, { capabilities });
        expect(result).toMatchObject({ resultType: 'complete', content: [{ type: 'text' }] });
        const { status, error } = await task('get', crypto.randomUUID(), { capabilities });
        expect(error).toMatchObject({
          code: -32021,
          data: { requiredCapabilities: { extensions: { [TASKS]: {} } } },
        });
        expect(status).toBe(400);
      }
    });

    test('of another workspace, tenant or agent is unknown, and so is a run that is none', limit, async () => {
      const taskId = await begun('worker', { headers: { 'x-platform-tenant': 'one' } });
      const byApi = await request(target(), 'POST', '/mcp-runs-user/worker/latest/run', { key: user.key, json: {} });
      const others: readonly (readonly [string, Sending])[] = [
        [taskId, { key: stranger.key }],
        [taskId, { headers: { 'x-platform-tenant': 'two' } }],
        [taskId, { path: '/mcp-runs-user/asker/mcp' }],
        [byApi.headers.get('x-run-id')!, {}],
        [crypto.randomUUID(), {}],
        ['../runs', {}],
        ['x'.repeat(1000), {}],
      ];
      for (const [id, sending] of others) {
        for (const method of ['get', 'cancel', 'update']) {
          const { error } = await task(method, id, sending, method === 'update' ? { inputResponses: {} } : {});
          expect(error).toEqual({ code: -32602, message: `There is no task "${id.slice(0, 64)}".` });
        }
      }
      expect((await task('get', taskId, { headers: { 'x-platform-tenant': 'one' } })).result).toMatchObject({ taskId });
      expect((await task('get', taskId, { path: '/mcp-runs-user/worker/mcp' })).result).toMatchObject({ taskId });
      const other = await task('get', taskId, { headers: { 'mcp-name': 'another' } });
      expect(other).toMatchObject({ status: 400, error: { code: -32020 } });
    });
  });

  describe('a question', () => {
    const asked = async (agent = 'asker', sending: Sending = {}) => {
      const { result } = await call(agent, {}, { capabilities: FORMS, ...sending });
      expect(result).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
      const [id] = Object.keys(result.inputRequests);
      return { id: id!, requestState: result.requestState as string, inputRequests: result.inputRequests };
    };

    test('is a form, and the same call with the answer goes on', limit, async () => {
      const { id, requestState, inputRequests } = await asked();
      expect(inputRequests[id].params).toMatchObject({
        message: 'Which color?',
        requestedSchema: { properties: { answer: { enum: ['red', 'blue'] } }, required: ['answer'] },
      });
      const inputResponses = { [id]: accept({ answer: 'blue' }) };
      const { result } = await call('asker', { requestState, inputResponses }, { capabilities: FORMS });
      expect(result).toMatchObject({
        resultType: 'complete',
        content: [{ text: expect.stringContaining('It is done.') }],
      });
      const { body } = await request(target(), 'GET', `/workspaces/${user.workspaceId}/approvals/${id}`, {
        key: user.key,
      });
      expect(body).toMatchObject({ status: 'answered', answer: 'blue', decided_by: user.userId });
      // A client whose connection broke sends the same again; other answers come too late.
      const again = await call('asker', { requestState, inputResponses }, { capabilities: FORMS });
      expect(again.result).toMatchObject({ resultType: 'complete' });
      const changed = { [id]: accept({ answer: 'red' }) };
      const late = await call('asker', { requestState, inputResponses: changed }, { capabilities: FORMS });
      expect(late.error).toMatchObject({ code: -32602, message: expect.stringContaining('A decision is final.') });
    });

    test('is asked again as far as it is open', limit, async () => {
      const { id, requestState } = await asked('twice');
      const inputResponses = { [id]: accept({ answer: 'red' }) };
      const { result } = await call('twice', { requestState, inputResponses }, { capabilities: FORMS });
      expect(result).toMatchObject({ resultType: 'input_required' });
      expect(Object.keys(result.inputRequests)).toEqual([id.replace(/1$/, '2')]);
    });

    test('whose form is closed stays open', limit, async () => {
      const { id, requestState } = await asked();
      const inputResponses = { [id]: { action: 'cancel' } };
      const { result } = await call('asker', { requestState, inputResponses }, { capabilities: FORMS });
      expect(result).toMatchObject({ resultType: 'complete', isError: true });
      const { body } = await request(target(), 'GET', `/workspaces/${user.workspaceId}/approvals/${id}`, {
        key: user.key,
      });
      expect(body).toMatchObject({ status: 'waiting' });
    });

    test('is for clients with forms and callers who may decide; others learn that the run waits', limit, async () => {
      const json = { name: 'runner', scope: 'run' };
      const { body } = await request(target(), 'POST', '/api-keys', { key: user.key, json });
      const cases: readonly Sending[] = [
        { capabilities: {} },
        { capabilities: { elicitation: { url: {} } } },
        { capabilities: FORMS, key: body.key },
      ];
      for (const sending of cases) {
        const { result } = await call('asker', {}, sending);
        expect(result).toMatchObject({
          resultType: 'complete',
          isError: true,
          _meta: { 'platform/run_id': expect.any(String) },
        });
      }
      const { id, requestState } = await asked();
      const inputResponses = { [id]: accept({ answer: 'red' }) };
      const { result } = await call('asker', { requestState, inputResponses }, { capabilities: FORMS, key: body.key });
      expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('FORBIDDEN') }] });
    });

    test('has a state that is worth nothing elsewhere', limit, async () => {
      const { id, requestState } = await asked();
      const inputResponses = { [id]: accept({ answer: 'red' }) };
      const cases: readonly (readonly [string, object, Sending])[] = [
        ['asker', { requestState: `${requestState}x` }, {}],
        ['asker', { requestState: requestState.replace(/^v1\.[^.]+/, `v1.${crypto.randomUUID()}`) }, {}],
        ['asker', { requestState, arguments: { other: true } }, {}],
        ['twice', { requestState }, {}],
        ['asker', { requestState }, { headers: { 'x-platform-tenant': 'two' } }],
      ];
      for (const [agent, more, sending] of cases) {
        const { error } = await call(agent, { inputResponses, ...more }, { capabilities: FORMS, ...sending });
        expect(error).toMatchObject({ code: -32602, data: { reason: 'invalid_request_state' } });
      }
      const { body } = await request(target(), 'GET', `/workspaces/${user.workspaceId}/approvals/${id}`, {
        key: user.key,
      });
      expect(body).toMatchObject({ status: 'waiting' });
    });
  });

  test('skills are listed and read, by those who may', limit, async () => {
    const discovered = await send('server/discover', {});
    expect(Object.keys(discovered.result.capabilities.extensions)).toEqual(
      expect.arrayContaining([TASKS, 'io.modelcontextprotocol/skills']),
    );
    const { result } = await send('skills/list', {});
    const uri = 'skill://mcp-runs-user/v1/tone/SKILL.md';
    expect(result).toMatchObject({ skills: [{ uri, frontmatter: { name: 'tone' } }], cacheScope: 'private' });
    expect((await send('skills/get', { uri })).result.skill.resources).toHaveLength(2);
    expect((await send('resources/read', { uri })).result.contents[0].text).toContain('Be brief.');
    const file = uri.replace('SKILL.md', 'words.txt');
    expect((await send('resources/read', { uri: file })).result.contents[0].text).toBe('plain');
    for (const method of ['skills/get', 'resources/read']) {
      expect((await send(method, { uri }, { key: stranger.key })).error).toMatchObject({ code: -32602 });
    }
    const { error } = await send('skills/list', {}, { path: '/mcp-runs-user/worker/mcp' });
    expect(error).toMatchObject({ code: -32601 });
  });
}
