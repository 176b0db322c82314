import { beforeAll, describe, expect, test } from 'vitest';
import { type AgUiMessage, joined, postAgUi, type StreamedEvent } from '#test/helpers/ag-ui.ts';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const limit = { timeout: 180_000 };
const says = (id: string, content: unknown): AgUiMessage => ({ id, role: 'user', content });
const calls = (...toolCalls: NonNullable<ScriptedTurn['toolCalls']>): ScriptedTurn => ({ toolCalls });
const submit: ScriptedTurn = calls({ name: 'submit_result', input: { result: 'It is done.' } });
const REFUND = {
  name: 'refund',
  description: 'Refunds an amount',
  command: 'echo refunded {{amount}}',
  input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
  approval: 'always',
};

/** The protocol of user interfaces (`docs/interface/ag-ui.md`). */
export function agUiSuite(target: () => Target): void {
  let user: TestUser;
  let runs = 0;

  const publish = (name: string, prompt: string, turns: readonly ScriptedTurn[], manifest: object = {}) => {
    const json = { name, type: 'prompt', description: 'x', required_secrets: [], ...manifest };
    const scripted = `${prompt} [[llm ${JSON.stringify(turns)}]]`;
    return request(target(), 'POST', '/agents', { key: user.key, json: { ...json, prompt: scripted } });
  };
  const bodyOf = (threadId: string, messages: readonly AgUiMessage[], more: object = {}) => ({
    threadId,
    runId: `run-${++runs}`,
    messages,
    tools: [],
    context: [],
    state: {},
    ...more,
  });
  const post = (name: string, json: object, headers: Record<string, string> = {}) =>
    postAgUi(target(), `/ag-ui-user/${name}/ag-ui`, { key: user.key, json, headers });
  const stream = async (name: string, json: object, headers: Record<string, string> = {}) => {
    const { answer, events } = await post(name, json, headers);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    return events;
  };
  const typesOf = (events: readonly StreamedEvent[]) => events.map(({ event }) => event.type);
  const textOf = (events: readonly StreamedEvent[]) =>
    events.flatMap(({ event }) => (event.type === 'TEXT_MESSAGE_CONTENT' ? event.delta : [])).join('');
  const platformOf = (events: readonly StreamedEvent[]) => events[0]!.event.metadata.platform;

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('ag-ui-user');
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-ag-ui-0123456789' };
    expectOk(
      await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json: secret }),
    );
    expectOk(await publish('chat', 'Be kind. {{message}}', [{ text: 'Hello there.' }]), 201);
    const loop = { type: 'agent', custom_tools: [REFUND] };
    const turns = [{ text: 'I refund it.', ...calls({ name: 'refund', input: { amount: 5 } }) }, submit];
    expectOk(await publish('teller', 'Refund.', turns, loop), 201);
  });

  describe('AG-UI', () => {
    test('a thread is a session, and its messages are runs with the events of the protocol', limit, async () => {
      const first = await stream('chat', bodyOf('thread-1', [says('m1', 'Hi')]));
      expect(typesOf(joined(first))).toEqual([
        'RUN_STARTED',
        'TEXT_MESSAGE_START',
        'TEXT_MESSAGE_CONTENT',
        'TEXT_MESSAGE_END',
        'RUN_FINISHED',
      ]);
      expect(textOf(first)).toBe('Hello there.');
      expect(first[0]!.event).toMatchObject({ threadId: 'thread-1', runId: `run-${runs}`, protocolVersion: '1.0' });
      expect(first.at(-1)!.event).toMatchObject({ outcome: { type: 'success' }, usage: [{}] });
      const parts = [
        { type: 'text', text: 'How are you' },
        { type: 'text', text: 'today?' },
      ];
      const messages = [says('m1', 'Hi'), { id: 'a1', role: 'assistant', content: 'Hello there.' }, says('m2', parts)];
      const second = await stream('chat', bodyOf('thread-1', messages));
      expect(platformOf(second).session_id).toBe(platformOf(first).session_id);
      const path = `/workspaces/${user.workspaceId}/runs/${platformOf(second).run_id}`;
      const run = expectOk(await request(target(), 'GET', path, { key: user.key }));
      expect(run.input_data).toEqual({ message: 'How are you\ntoday?' });
      const session = `/workspaces/${user.workspaceId}/sessions/${platformOf(first).session_id}`;
      const shown = expectOk(await request(target(), 'GET', session, { key: user.key }));
      expect(shown).toMatchObject({ external_id: 'thread-1', messages: 2 });
      const other = await stream('chat', bodyOf('thread-2', [says('m1', 'Hi')]));
      expect(platformOf(other).session_id).not.toBe(platformOf(first).session_id);
    });

    test('a tenant has threads of its own', limit, async () => {
      const sessionOf = async (tenant: string) =>
        platformOf(await stream('chat', bodyOf('shared', [says('m1', 'Hi')]), { 'x-platform-tenant': tenant }))
          .session_id;
      const [one, two] = [await sessionOf('one'), await sessionOf('two')];
      expect(one).not.toBe(two);
      const { answer } = await post('chat', bodyOf(one, [says('m1', 'Hi')]), { 'x-platform-tenant': 'two' });
      expectError(answer, 404, 'NOT_FOUND');
    });

    test('the same run again is its stream again, from any event on, and no other run', limit, async () => {
      const body = bodyOf('thread-3', [says('m1', 'Hi')]);
      const all = await stream('chat', body);
      expect(joined(await stream('chat', body)).map(({ event }) => event)).toEqual(
        joined(all).map(({ event }) => event),
      );
      for (const [index, { id }] of all.entries()) {
        const rest = await stream('chat', body, { 'last-event-id': id });
        expect(joined([...all.slice(0, index + 1), ...rest]).map(({ event }) => event)).toEqual(
          joined(all).map(({ event }) => event),
        );
      }
      const other = await post('chat', { ...body, messages: [says('m2', 'Bye')] });
      expectError(other.answer, 409, 'CONFLICT', 'body.runId');
      const unknown = await post('chat', bodyOf('thread-3', [says('m2', 'Bye')]), { 'last-event-id': '1.0' });
      expectError(unknown.answer, 404, 'NOT_FOUND', 'to resume');
    });

    test('a run that is sent many times at once begins once', limit, async () => {
      const body = bodyOf('at-once', [says('m1', 'Hi')]);
      const streams = await Promise.all(Array.from({ length: 5 }, () => stream('chat', body)));
      expect(new Set(streams.map((each) => platformOf(each).run_id)).size).toBe(1);
      for (const each of streams) expect(textOf(each)).toBe('Hello there.');
      const session = `/workspaces/${user.workspaceId}/sessions/${platformOf(streams[0]!).session_id}`;
      expect(expectOk(await request(target(), 'GET', session, { key: user.key })).messages).toBe(1);
    });

    test('a refused run leaves its id free', limit, async () => {
      const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
      expectOk(await publish('counter', 'Count {{n}}', [{ text: 'Counted.' }], { input_schema: schema }), 201);
      const body = (n: unknown) => ({ ...bodyOf('counting', []), runId: 'same', forwardedProps: { input: { n } } });
      expectError((await post('counter', body('x'))).answer, 400, 'INVALID_INPUT');
      expect(textOf(await stream('counter', body(1)))).toBe('Counted.');
      const unclear = await post('counter', bodyOf('counting', [says('m1', 'Hi')]));
      expectError(unclear.answer, 400, 'INVALID_INPUT', 'body.messages.0.content: it is not clear');
    });

    test('an approval is an interrupt, and the run goes on with the answer', limit, async () => {
      const asked = await stream('teller', bodyOf('till', [says('m1', 'Refund 5')]));
      const { run_id: id } = platformOf(asked);
      expect(typesOf(joined(asked))).toEqual([
        ...['RUN_STARTED', 'STEP_STARTED', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END'],
        ...['TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'STEP_FINISHED', 'RUN_FINISHED'],
      ]);
      expect(asked.at(-1)!.event.outcome).toMatchObject({
        type: 'interrupt',
        interrupts: [{ id: `${id}.1.1`, reason: 'approval', toolCallId: `${id}.1.1` }],
      });
      const refusal = async (more: object) =>
        (await stream('teller', bodyOf('till', [], more))).map(({ event }) => event);
      const missing = await refusal({ messages: [says('m2', 'And?')] });
      expect(missing).toMatchObject([{ type: 'RUN_STARTED' }, { type: 'RUN_ERROR', code: 'CONFLICT' }]);
      const entry = (payload: unknown, interruptId = `${id}.1.1`) => [{ interruptId, status: 'resolved', payload }];
      expect(await refusal({ resume: entry(true, `${id}.9.9`) })).toMatchObject([{}, { code: 'INVALID_INPUT' }]);
      expect(await refusal({ resume: entry(true, 'made-up') })).toMatchObject([{}, { code: 'NOT_FOUND' }]);
      expect(await refusal({ resume: entry('yes') })).toMatchObject([
        {},
        { code: 'INVALID_INPUT', message: expect.stringContaining('body.resume.0.payload') },
      ]);
      const body = bodyOf('till', [], { resume: entry({ approved: true, arguments: { amount: 4 } }) });
      const resumed = await stream('teller', body);
      expect(platformOf(resumed).run_id).toBe(id);
      const types = typesOf(joined(resumed));
      expect(types.slice(0, 2)).toEqual(['RUN_STARTED', 'TOOL_CALL_RESULT']);
      expect(resumed.find(({ event }) => event.type === 'TOOL_CALL_RESULT')!.event.toolCallId).toBe(`${id}.1.1`);
      expect(textOf(resumed)).toBe('It is done.');
      expect(resumed.at(-1)!.event).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } });
      // Both parts can be had again, and something else cannot be decided.
      expect(joined(await stream('teller', body)).map(({ event }) => event)).toEqual(
        joined(resumed).map(({ event }) => event),
      );
      expect(await refusal({ resume: entry(false) })).toMatchObject([{}, { code: 'CONFLICT' }]);
    });

    test('only who may approve answers an interrupt', limit, async () => {
      const asked = await stream('teller', bodyOf('guarded', [says('m1', 'Refund 5')]));
      const interruptId = `${platformOf(asked).run_id}.1.1`;
      const json = { name: 'runner', scope: 'run' };
      const key = expectOk(await request(target(), 'POST', '/api-keys', { key: user.key, json }), 201).key as string;
      const resume = [{ interruptId, status: 'cancelled' }];
      const body = bodyOf('guarded', [], { resume });
      const { answer } = await postAgUi(target(), '/ag-ui-user/teller/ag-ui', { key, json: body });
      expectError(answer, 403, 'FORBIDDEN', '"approve"');
      // Nothing was decided, and the id of the run is still free.
      const denied = await stream('teller', body);
      expect(denied.at(-1)!.event).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } });
    });

    test('a run that was cancelled ends so', limit, async () => {
      const turns = [{ waitFor: 'never: ag-ui', text: 'late' }];
      expectOk(await publish('slow', 'Wait. {{message}}', turns), 201);
      const body = bodyOf('slow', [says('m1', 'Hi')]);
      const begun = await postAgUi(target(), '/ag-ui-user/slow/ag-ui', {
        ...{ key: user.key, json: body },
        until: ({ event }) => event.type === 'RUN_STARTED',
      });
      const path = `/workspaces/${user.workspaceId}/runs/${platformOf(begun.events).run_id}`;
      expectOk(await request(target(), 'DELETE', path, { key: user.key }));
      const rest = await stream('slow', body, { 'last-event-id': begun.events[0]!.id });
      expect(rest.at(-1)!.event).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'cancelled' } });
      target().llm.release('never: ag-ui');
    });

    test('what an agent cannot be told is refused before the stream, by the field', async () => {
      const refused = async (json: object, code: string, message: string, status = 400) =>
        expectError((await post('chat', json)).answer, status, code, message);
      await refused(bodyOf('t', []), 'INVALID_INPUT', 'body.messages: the last message');
      await refused(bodyOf('t', [says('m', ' ')]), 'INVALID_INPUT', 'body.messages.0.content: must not be empty');
      await refused(bodyOf('t', [says('m', [{ type: 'image' }])]), 'INVALID_INPUT', 'body.messages.0.content.0');
      await refused(bodyOf('t', [says('m', 'x'), { id: 't', role: 'tool', content: 'y' }]), 'INVALID_INPUT', '"tool"');
      await refused(bodyOf('a thread', [says('m', 'x')]), 'INVALID_INPUT', 'threadId');
      await refused({ threadId: 't', messages: [] }, 'INVALID_INPUT', 'runId');
      expectError((await post('no-such', bodyOf('t', [says('m', 'x')]))).answer, 404, 'NOT_FOUND');
      const input = { forwardedProps: { input: { message: 'whole' } } };
      expect(textOf(await stream('chat', bodyOf('whole', [], input)))).toBe('Hello there.');
    });
  });
}
