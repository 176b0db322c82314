import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type A2aCall, callA2a } from '#test/helpers/a2a.ts';
import { type Answer, needsModel, request, type Target } from '#test/helpers/platform.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectOk } from '../expect.ts';

const limit = { timeout: 180_000 };
const calls = (...toolCalls: NonNullable<ScriptedTurn['toolCalls']>): ScriptedTurn => ({ toolCalls });
const submit: ScriptedTurn = calls({ name: 'submit_result', input: { result: 'It is done.' } });
const REFUND = {
  name: 'refund',
  description: 'Refunds an amount',
  command: 'echo refunded {{amount}}',
  input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
  approval: 'always',
};

/** The protocol of agents of others (`docs/interface/a2a.md`). */
export function a2aSuite(target: () => Target): void {
  let user: TestUser;
  let stranger: TestUser;
  let receiver: Receiver | undefined;

  const publish = async (name: string, prompt: string, turns: readonly ScriptedTurn[], manifest: object = {}) => {
    const json = { name, type: 'prompt', description: 'Greets people', required_secrets: [], ...manifest };
    const scripted = `${prompt} [[llm ${JSON.stringify(turns)}]]`;
    expectOk(await request(target(), 'POST', '/agents', { key: user.key, json: { ...json, prompt: scripted } }), 201);
  };
  const message = (text: unknown, more: object = {}, configuration: object = {}) => ({
    message: {
      messageId: crypto.randomUUID(),
      role: 'ROLE_USER',
      parts: typeof text === 'string' ? [{ text }] : text,
      ...more,
    },
    configuration,
  });
  const http = (path: string, options: A2aCall) =>
    callA2a(target(), `/a2a/a2a-user/${path}`, { key: user.key, ...options });
  const get = async (path: string, options: A2aCall = {}) => (await http(path, { method: 'GET', ...options })).answer;
  const send = async (name: string, json: object, options: A2aCall = {}) =>
    (await http(`${name}/message:send`, { json, ...options })).answer;
  const sent = async (name: string, json: object, options: A2aCall = {}) => {
    const answer = await send(name, json, options);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.task;
  };
  const rpc = async (name: string, method: string, params: unknown, options: A2aCall = {}) =>
    http(name, { json: { jsonrpc: '2.0', id: 7, method, params }, ...options });
  const expectRefusal = ({ status, body }: Answer, http: number, reason: string, text = '') => {
    expect(status, JSON.stringify(body)).toBe(http);
    expect(body.error).toMatchObject({ code: http, details: [{ reason }] });
    expect(body.error.message).toContain(text);
  };

  beforeAll(async () => {
    needsModel(target());
    // A target that reaches a model on this machine also reaches a receiver here.
    receiver = await startReceiver();
    [user, stranger] = await Promise.all([target().addUser('a2a-user'), target().addUser('a2a-stranger')]);
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-a2a-0123456789' };
    for (const { key, workspaceId } of [user, stranger]) {
      expectOk(await request(target(), 'PUT', `/workspaces/${workspaceId}/secrets`, { key, json: secret }));
    }
    await publish('chat', 'Be kind. {{message}}', [{ text: 'Hello there.' }]);
    await publish('open', 'Be kind. {{message}}', [{ text: 'Hello all.' }], { is_public: true });
    await publish('alone', 'Be kind. {{message}}', [{ text: 'Hello you.' }], { sessions: false });
    const turns = [{ text: 'I refund it.', ...calls({ name: 'refund', input: { amount: 5 } }) }, submit];
    await publish('teller', 'Refund.', turns, { type: 'agent', custom_tools: [REFUND] });
  });

  afterAll(() => receiver?.close());

  describe('A2A', () => {
    test('the card of a public agent is there for everyone, and others need a key', async () => {
      const path = 'open/.well-known/agent-card.json';
      const card = await get(path, { key: undefined });
      expect(card.status).toBe(200);
      expect(card.headers.get('content-type')).toBe('application/a2a+json');
      expect(card.headers.get('cache-control')).toBe('public, max-age=300');
      expect(card.body).toMatchObject({
        name: 'open',
        description: 'Greets people',
        version: 'v1',
        capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
        supportedInterfaces: [
          { protocolBinding: 'JSONRPC', protocolVersion: '1.0', url: expect.stringMatching(/\/a2a\/a2a-user\/open$/) },
          { protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
        ],
        skills: [{ id: 'run', description: expect.any(String) }],
      });
      const keys = await request(target(), 'GET', '/.well-known/jwks.json');
      expect('signatures' in card.body).toBe(keys.status === 200);
      const again = await get(path, { key: undefined, headers: { 'if-none-match': card.headers.get('etag')! } });
      expect(again).toMatchObject({ status: 304, body: '' });
      expectRefusal(await get('chat/.well-known/agent-card.json', { key: undefined }), 404, 'NOT_FOUND');
      expectRefusal(await get('none/.well-known/agent-card.json', { key: undefined }), 404, 'NOT_FOUND');
      expectRefusal(await get('chat/.well-known/agent-card.json', { key: stranger.key }), 404, 'NOT_FOUND');
      expect((await get('chat/.well-known/agent-card.json')).headers.get('cache-control')).toBe('private, no-cache');
      expect((await get('chat/extendedAgentCard')).body.name).toBe('chat');
      expect((await rpc('chat', 'GetExtendedAgentCard', {})).answer.body.result.name).toBe('chat');
    });

    test('a message is a run of the agent in a session, by both bindings', limit, async () => {
      const task = await sent('chat', message('Hi'));
      expect(task).toMatchObject({
        contextId: expect.stringMatching(/^ses_/),
        status: { state: 'TASK_STATE_COMPLETED' },
        artifacts: [{ parts: [{ text: 'Hello there.' }] }],
      });
      const run = `/workspaces/${user.workspaceId}/runs/${task.id}`;
      expect(expectOk(await request(target(), 'GET', run, { key: user.key }))).toMatchObject({
        trigger_source: 'a2a',
        input_data: { message: 'Hi' },
        session_id: task.contextId,
      });
      const next = (await rpc('chat', 'SendMessage', message('And?', { contextId: task.contextId }))).answer;
      expect(next.headers.get('content-type')).toBe('application/json');
      expect(next.body).toMatchObject({ jsonrpc: '2.0', id: 7 });
      expect(next.body.result.task.contextId).toBe(task.contextId);
      expect(next.body.result.task.id).not.toBe(task.id);
      expect((await get(`chat/tasks/${task.id}`)).body).toEqual(task);
      expect((await rpc('chat', 'GetTask', { id: task.id })).answer.body.result).toEqual(task);
      const ofContext = (await get(`chat/tasks?contextId=${task.contextId}`)).body;
      expect(ofContext).toMatchObject({ totalSize: 2, pageSize: 50, nextPageToken: '' });
      expect(ofContext.tasks[0]).not.toHaveProperty('artifacts');
      const all = (await get('chat/tasks?pageSize=1&includeArtifacts=true&status=TASK_STATE_COMPLETED')).body;
      expect(all.tasks).toHaveLength(1);
      expect(all.tasks[0].artifacts).toHaveLength(1);
      const rest = (await get(`chat/tasks?pageSize=1&status=TASK_STATE_COMPLETED&pageToken=${all.nextPageToken}`)).body;
      expect(rest.tasks[0].id).not.toBe(all.tasks[0].id);
      expect((await get('chat/tasks?status=TASK_STATE_REJECTED')).body.tasks).toEqual([]);
    });

    test('a task is posted to the addresses that its client names', limit, async () => {
      const place = `/${crypto.randomUUID()}`;
      const url = `${receiver!.url}${place}`;
      const config = { id: 'mine', url, token: 'made-up-token' };
      const posted = await sent('chat', message('Hi', {}, { taskPushNotificationConfig: config }));
      const states = () => receiver!.at(place).map(({ body }) => body.task.status.state);
      await vi.waitFor(() => expect(states()).toContain('TASK_STATE_COMPLETED'), { timeout: 60_000, interval: 50 });
      const end = receiver!.at(place).find(({ body }) => body.task.artifacts !== undefined)!;
      expect(end.body.task).toEqual(posted);
      expect(end.headers['x-a2a-notification-token']).toBe('made-up-token');
      const path = `chat/tasks/${posted.id}/pushNotificationConfigs`;
      const mine = { id: 'mine', taskId: posted.id, url };
      expect((await get(path)).body).toEqual({ configs: [mine], nextPageToken: '' });
      expect((await get(`${path}/mine`)).body).toEqual(mine);
      const call = (method: string, params: object) => rpc('chat', method, { taskId: posted.id, ...params });
      const other = { id: 'other', url: `${receiver!.url}/a2a/other` };
      const created = await call('CreateTaskPushNotificationConfig', other);
      expect(created.answer.body.result).toEqual({ ...other, taskId: posted.id });
      const listed = await call('ListTaskPushNotificationConfigs', {});
      expect(listed.answer.body.result.configs).toHaveLength(2);
      await call('DeleteTaskPushNotificationConfig', { id: 'other' });
      expect((await http(`${path}/mine`, { method: 'DELETE' })).answer.body).toEqual({});
      expect((await get(path)).body.configs).toEqual([]);
      expectRefusal(await get(path, { key: stranger.key }), 403, 'FORBIDDEN');
      const hostile = { json: { url: 'https://169.254.169.254/latest' } };
      expectRefusal((await http(path, hostile)).answer, 400, 'INVALID_PARAMS', 'public internet');
    });

    test('a stream begins with its task, says the text as it is written, and ends with the task', limit, async () => {
      for (const events of [
        (await http('chat/message:stream', { json: message('Hi') })).events,
        (await rpc('chat', 'SendStreamingMessage', message('Hi'))).events.map(({ id, result }) => {
          expect(id).toBe(7);
          return result;
        }),
      ]) {
        expect(events[0]).toMatchObject({ task: { status: { state: 'TASK_STATE_WORKING' } } });
        const { id: taskId, contextId } = events[0].task;
        const updates = events.slice(1, -1).map(({ artifactUpdate }) => artifactUpdate);
        expect(updates[0]).toMatchObject({ taskId, contextId, append: false, lastChunk: false });
        expect(
          updates
            .slice(0, -1)
            .map(({ artifact }) => artifact.parts[0].text)
            .join(''),
        ).toBe('Hello there.');
        expect(updates.at(-1)).toMatchObject({
          artifact: { parts: [{ text: 'Hello there.' }] },
          append: false,
          lastChunk: true,
        });
        expect(events.at(-1)).toMatchObject({
          statusUpdate: { taskId, contextId, status: { state: 'TASK_STATE_COMPLETED' } },
        });
        const { answer } = await http(`chat/tasks/${taskId}:subscribe`, {});
        expectRefusal(answer, 400, 'UNSUPPORTED_OPERATION', 'has ended');
      }
    });

    test('a task that nobody waits for is followed, and cancelled once', limit, async () => {
      await publish('slow', 'Wait. {{message}}', [{ waitFor: 'never: a2a', text: 'late' }]);
      const task = await sent('slow', message('Hi', {}, { returnImmediately: true }));
      expect(task.status.state).toBe('TASK_STATE_WORKING');
      const following = http(`slow/tasks/${task.id}:subscribe`, {});
      expect((await get(`slow/tasks/${task.id}`)).body.status.state).toBe('TASK_STATE_WORKING');
      const cancelled = (await http(`slow/tasks/${task.id}:cancel`, {})).answer;
      expect(cancelled.status).toBe(200);
      target().llm.release('never: a2a');
      const { events } = await following;
      expect(events[0].task.id).toBe(task.id);
      expect(events.at(-1)).toMatchObject({ statusUpdate: { status: { state: 'TASK_STATE_CANCELED' } } });
      const again = (await rpc('slow', 'CancelTask', { id: task.id })).answer;
      expect(again).toMatchObject({ status: 200, body: { error: { code: -32002 } } });
    });

    test('an approval asks the client, and the next message of the task answers', limit, async () => {
      const asked = await sent('teller', message('Refund 5'));
      expect(asked.status).toMatchObject({
        state: 'TASK_STATE_INPUT_REQUIRED',
        message: {
          role: 'ROLE_AGENT',
          parts: [
            { text: 'May the agent call refund?' },
            { data: { approvals: [{ id: `${asked.id}.1.1`, kind: 'approval', arguments: { amount: 5 } }] } },
          ],
        },
      });
      const answer = (parts: unknown, more: object = {}) => message(parts, { taskId: asked.id, ...more });
      const refused = async (json: object, reason: string, text: string) =>
        expectRefusal(await send('teller', json), 400, reason, text);
      await refused(message('And?', { contextId: asked.contextId }), 'UNSUPPORTED_OPERATION', asked.id);
      await refused(answer('maybe'), 'INVALID_PARAMS', '"approve" or "deny"');
      await refused(answer([{ data: { answers: { other: true } } }]), 'INVALID_PARAMS', '"other" is not asked');
      await refused(answer('yes', { contextId: 'ses_other' }), 'INVALID_PARAMS', 'message.contextId');
      const json = { name: 'a2a-runner', scope: 'run' };
      const key = expectOk(await request(target(), 'POST', '/api-keys', { key: user.key, json }), 201).key as string;
      expectRefusal(await send('teller', answer('approve'), { key }), 403, 'FORBIDDEN', '"approve"');
      const { events } = await http('teller/message:stream', { json: answer([{ data: { approved: true } }]) });
      expect(events[0].task).toMatchObject({ id: asked.id, contextId: asked.contextId });
      expect(events.at(-2).artifactUpdate.artifact.parts).toEqual([{ text: 'It is done.' }]);
      expect(events.at(-1).statusUpdate.status.state).toBe('TASK_STATE_COMPLETED');
      await refused(answer('approve'), 'UNSUPPORTED_OPERATION', 'has ended');
      const streamed = (await http('teller/message:stream', { json: message('Refund 5') })).events;
      expect(streamed.at(-1).statusUpdate.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
      const denied = message('deny', { taskId: streamed[0].task.id });
      expect((await sent('teller', denied)).status.state).toBe('TASK_STATE_COMPLETED');
    });

    test('an agent keeps to the context that its client names, or refuses it', limit, async () => {
      const refused = async (name: string, contextId: string, options: A2aCall = {}) =>
        expectRefusal(await send(name, message('Hi', { contextId }), options), 400, 'INVALID_PARAMS', 'contextId');
      await refused('chat', crypto.randomUUID());
      await refused('chat', `ses_${'0'.repeat(32)}`);
      await refused('chat', 'x'.repeat(257));
      const { contextId } = await sent('open', message('Hi'));
      await refused('chat', contextId);
      await refused('open', contextId, { headers: { 'x-platform-tenant': 'other' } });
      await refused('open', contextId, { key: stranger.key });
      const alone = await sent('alone', message('Hi'));
      expect(alone.contextId).toBe(alone.id);
      await refused('alone', alone.contextId);
    });

    test("tasks of other agents, tenants and workspaces are unknown, as those that don't exist", limit, async () => {
      const { id } = await sent('open', message('Hi'));
      const unknown = async (path: string, options: A2aCall = {}) => {
        const foreign = await get(`${path}/tasks/${id}`, options);
        expectRefusal(foreign, 404, 'TASK_NOT_FOUND');
        const none = await get(
          `${path}/tasks/${id.replace(/^./, (digit: string) => (digit === '0' ? '1' : '0'))}`,
          options,
        );
        expect(none.body.error.message.replace(/"[^"]*"/, '')).toBe(foreign.body.error.message.replace(/"[^"]*"/, ''));
      };
      await unknown('open', { key: stranger.key });
      await unknown('open', { headers: { 'x-platform-tenant': 'other' } });
      await unknown('chat');
      for (const verb of ['cancel', 'subscribe']) {
        const { answer } = await http(`open/tasks/${id}:${verb}`, { key: stranger.key });
        expectRefusal(answer, 404, 'TASK_NOT_FOUND');
      }
      const answer = message('approve', { taskId: id });
      expectRefusal(await send('open', answer, { key: stranger.key }), 404, 'TASK_NOT_FOUND');
      expect(
        (await get('open/tasks', { key: stranger.key })).body.tasks.map((task: { id: string }) => task.id),
      ).not.toContain(id);
      expectRefusal(await get('chat/tasks', { key: stranger.key }), 403, 'FORBIDDEN');
    });

    test('the parts of a message are the input', limit, async () => {
      const schema = {
        type: 'object',
        properties: { n: { type: 'integer' }, m: { type: 'integer' } },
        required: ['n'],
      };
      await publish('counter', 'Count {{n}}', [{ text: 'Counted.' }], { input_schema: schema });
      const inputOf = async (parts: unknown) => {
        const { id } = await sent('counter', message(parts));
        const path = `/workspaces/${user.workspaceId}/runs/${id}`;
        return expectOk(await request(target(), 'GET', path, { key: user.key })).input_data;
      };
      expect(await inputOf([{ data: { n: 1 } }, { data: { m: 2 } }])).toEqual({ n: 1, m: 2 });
      expect(await inputOf('{"n": 3}')).toEqual({ n: 3 });
      const refused = async (parts: unknown, reason: string, text: string) =>
        expectRefusal(await send('counter', message(parts)), 400, reason, text);
      await refused('three', 'INVALID_PARAMS', '"n", "m"');
      await refused([{ data: [1] }], 'INVALID_PARAMS', 'must be a JSON object');
      await refused([{ data: { n: 'x' } }], 'INVALID_INPUT', 'n');
      await refused([{ text: 'x', data: {} }], 'INVALID_PARAMS', 'message.parts.0');
      await refused([{ metadata: {} }], 'INVALID_PARAMS', 'message.parts.0');
      await refused([], 'INVALID_PARAMS', 'message.parts');
      await refused(
        Array.from({ length: 101 }, () => ({ text: 'x' })),
        'INVALID_PARAMS',
        'message.parts',
      );
      for (const url of [
        'http://169.254.169.254/latest/meta-data',
        'file:///etc/passwd',
        'https://example.com/a.png',
      ]) {
        await refused([{ url }], 'CONTENT_TYPE_NOT_SUPPORTED', 'message.parts.0.url');
      }
      await refused([{ raw: 'not base64!', filename: 'a.txt' }], 'INVALID_PARAMS', 'message.parts.0.raw');
      const file = { raw: Buffer.from('Ann').toString('base64'), filename: '../../a.txt', mediaType: 'text/plain' };
      expect((await sent('chat', message([{ text: 'Read' }, file]))).status.state).toBe('TASK_STATE_COMPLETED');
    });

    test('what is no request of the protocol is refused in its form', limit, async () => {
      const code = async (json: unknown, options: A2aCall = {}) => {
        const { answer } = await http('chat', { json, ...options });
        expect(answer.status, JSON.stringify(answer.body)).toBe(200);
        return answer.body.error.code;
      };
      const call = (method: string, params: unknown = {}) => ({ jsonrpc: '2.0', id: 'a', method, params });
      expect(await code(call('message/send'))).toBe(-32601);
      expect(await code(call('toString'))).toBe(-32601);
      expect(await code([call('GetTask')])).toBe(-32600);
      expect(await code({ id: 1, method: 'GetTask' })).toBe(-32600);
      expect(await code(call('GetTask'))).toBe(-32602);
      expect(await code(call('GetTask', { id: 'x' }))).toBe(-32001);
      expect(await code(call('GetTask', { id: 'x', tenant: 'other' }))).toBe(-32602);
      expect(await code(call('CreateTaskPushNotificationConfig'))).toBe(-32602);
      expect(await code(call('GetTask', { id: 'x' }), { headers: { 'a2a-version': '0.3' } })).toBe(-32009);
      expect(await code(call('GetTask', { id: 'x' }), { headers: { 'a2a-version': '' } })).toBe(-32009);
      expectRefusal(await get('chat/tasks/x', { headers: { 'a2a-version': '2.0' } }), 400, 'VERSION_NOT_SUPPORTED');
      expectRefusal(await get('chat/tasks?pageSize=1000'), 400, 'INVALID_PARAMS', 'pageSize');
      expectRefusal(await get('chat/tasks?pageToken=made-up'), 400, 'INVALID_INPUT');
      expectRefusal(await get('chat/tasks/x', { key: 'no-key' }), 401, 'UNAUTHORIZED');
      expectRefusal((await http('chat', { json: call('GetTask'), key: 'no-key' })).answer, 401, 'UNAUTHORIZED');
      expectRefusal(await send('none', message('Hi')), 404, 'NOT_FOUND');
      expectRefusal(
        await send('chat', { message: { ...message('Hi').message, role: 'ROLE_AGENT' } }),
        400,
        'INVALID_PARAMS',
      );
      // Servers refuse headers of that size while they are sent, so a client may see a broken connection: never an answer of the agent.
      const traceparent = 'x'.repeat(1024 * 1024);
      const huge = await get('chat/tasks/x', { headers: { traceparent } }).catch(() => undefined);
      expect(huge?.headers.get('content-type') ?? '').not.toContain('a2a');
      expectRefusal(await get('chat/tasks/x'), 404, 'TASK_NOT_FOUND');
    });
  });
}
