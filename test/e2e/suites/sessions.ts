import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const untilEnded = { timeout: 60_000, interval: 100 };

/** Sessions (`docs/interface/sessions.md`). */
export function sessionsSuite(target: () => Target): void {
  let user: TestUser;
  const send = (method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json, headers });
  const publish = async (name: string, more: object = {}, turns: readonly object[] = [{ text: `I am ${name}.` }]) => {
    const prompt = `Talk as ${name}. [[llm ${JSON.stringify(turns)}]]`;
    const body = { name, type: 'prompt', description: 'x', supported_providers: ['anthropic'], prompt, ...more };
    return expectOk(await request(target(), 'POST', '/agents', { key: user.key, json: body }), 201);
  };
  const open = async (name: string, more: object = {}, headers: Record<string, string> = {}) =>
    expectOk(await send('POST', '/sessions', { agent: `talking/${name}`, ...more }, headers), 201);
  const say = (id: string, json: object, headers: Record<string, string> = {}) =>
    send('POST', `/sessions/${id}/messages`, json, headers);
  const call = (name: string, json: object, headers: Record<string, string>) =>
    request(target(), 'POST', `/talking/${name}/latest/run`, { key: user.key, json, headers });
  const asked = (text: string) => target().llm.requests.filter((each) => each.text.includes(text));

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('talking');
    expectOk(await send('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-talking-0123456789' }));
  });

  describe('a session of a prompt', () => {
    test('gives each message what was said before, and shows all of it', async () => {
      await publish('anna', {}, [{ text: 'first answer' }, { text: 'second answer' }, { text: 'third answer' }]);
      const session = await open('anna', { title: 'About Anna', metadata: { ticket: '42' } });
      expect(session).toMatchObject({
        id: expect.stringMatching(/^ses_[0-9a-f]{32}$/),
        agent: 'talking/anna',
        external_id: null,
        title: 'About Anna',
        metadata: { ticket: '42' },
        status: 'idle',
        busy: 'enqueue',
        ttl_days: 30,
        messages: 0,
        last_run_id: null,
      });
      const first = await say(session.id, { text: 'Who was anna-one?' });
      expect(expectOk(first)).toMatchObject({
        data: { result: 'first answer' },
        metadata: { session_id: session.id },
      });
      expect(first.headers.get('x-platform-session')).toBe(session.id);
      expectOk(await say(session.id, { input: { message: 'And anna-two?' } }));
      const third = expectOk(await say(session.id, { text: 'And anna-three?' }));
      expect(third.data).toEqual({ result: 'third answer' });
      const { text } = asked('anna-three').at(-1)!;
      const places = ['anna-one', 'anna-two', 'anna-three'].map((part) => text.indexOf(part));
      expect(places).toEqual([...places].sort((a, b) => a - b));
      expect(Math.min(...places)).toBeGreaterThan(-1);
      // Each of the three messages has the script of the model.
      expect(text.split('first answer')).toHaveLength(5);
      expect(text.split('third answer')).toHaveLength(4);

      expect(expectOk(await send('GET', `/sessions/${session.id}`))).toMatchObject({
        status: 'idle',
        messages: 3,
        last_run_id: `${third.metadata.request_id}`.replace(/^req_(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
        bytes: expect.any(Number),
      });
      const page = expectOk(await send('GET', `/sessions/${session.id}/messages?limit=2`));
      expect(page.items).toMatchObject([
        {
          number: 1,
          run_id: first.headers.get('x-run-id'),
          status: 'completed',
          input: { message: 'Who was anna-one?' },
          output: { result: 'first answer' },
          error: null,
          agent_version: expect.stringMatching(/^v\d+$/),
        },
        { number: 2, input: { message: 'And anna-two?' } },
      ]);
      const rest = expectOk(await send('GET', `/sessions/${session.id}/messages?limit=2&cursor=${page.next_cursor}`));
      expect(rest).toMatchObject({ items: [{ number: 3 }], next_cursor: null });
      const newest = expectOk(await send('GET', `/sessions/${session.id}/messages?order=desc&limit=1`));
      expect(newest.items).toMatchObject([{ number: 3, output: { result: 'third answer' } }]);
      const run = expectOk(await send('GET', `/runs/${first.headers.get('x-run-id')}`));
      expect(run.session_id).toBe(session.id);
      const listed = expectOk(await send('GET', '/sessions?agent=talking/anna'));
      expect(listed).toMatchObject({ sessions: [{ id: session.id, messages: 3 }], next_cursor: null });
    });

    test('is opened by a header with a name of the caller', async () => {
      await publish('bert');
      const headers = { 'x-platform-session': 'chat-7' };
      const first = expectOk(await call('bert', { message: 'bert-one' }, headers));
      const second = expectOk(await call('bert', { message: 'bert-two' }, headers));
      expect(second.metadata.session_id).toBe(first.metadata.session_id);
      expect(asked('bert-two').at(-1)!.text).toContain('bert-one');
      const again = await send('POST', '/sessions', { agent: 'talking/bert', external_id: 'chat-7' });
      expect(expectOk(again)).toMatchObject({ id: first.metadata.session_id, external_id: 'chat-7', messages: 2 });
      // Without the header, a call is alone.
      expectOk(await call('bert', { message: 'bert-three' }, {}));
      expect(asked('bert-three').at(-1)!.text).not.toContain('bert-one');
    });

    test('belongs to the tenant that it was opened with', async () => {
      await publish('carl');
      const headers = { 'x-platform-tenant': 'tenant-a' };
      const { id } = await open('carl', { external_id: 'same' }, headers);
      expectOk(await say(id, { text: 'carl-one' }, headers));
      const others: Record<string, string>[] = [{}, { 'x-platform-tenant': 'tenant-b' }];
      for (const other of others) expectError(await say(id, { text: 'hi' }, other), 404, 'NOT_FOUND', 'another tenant');
      const foreign = { 'x-platform-tenant': 'tenant-b' };
      for (const [method, path, json] of [
        ['GET', ''],
        ['PATCH', '', { title: 'mine' }],
        ['GET', '/messages'],
        ['GET', '/events'],
        ['GET', '/export'],
        ['POST', '/fork', { after: 0 }],
        ['DELETE', ''],
      ] as const) {
        expectError(await send(method, `/sessions/${id}${path}`, json, foreign), 404, 'NOT_FOUND');
        expectError(await send(method, `/sessions/ses_${'0'.repeat(32)}${path}`, json), 404, 'NOT_FOUND');
      }
      const named = await call('carl', { message: 'x' }, { ...foreign, 'x-platform-session': 'same' });
      expect(expectOk(named).metadata.session_id).not.toBe(id);
      expect(expectOk(await send('GET', '/sessions?tenant_id=tenant-a')).sessions).toMatchObject([{ id }]);
      expect(expectOk(await send('GET', '/sessions', undefined, foreign)).sessions).toHaveLength(1);
    });

    test('refuses what it cannot be', async () => {
      await publish('dora', { sessions: { busy: 'reject', ttl_days: 7 } });
      await publish('emil', { sessions: false });
      const session = await open('dora', { busy: 'enqueue' });
      expect(session).toMatchObject({ busy: 'enqueue', ttl_days: 7 });
      expectError(
        await send('POST', '/sessions', { agent: 'talking/emil' }),
        422,
        'UNPROCESSABLE',
        'takes no sessions',
      );
      expectError(await send('POST', '/sessions', { agent: 'talking/nobody' }), 404, 'NOT_FOUND');
      const other = await call('emil', {}, { 'x-platform-session': session.id });
      expectError(other, 422, 'UNPROCESSABLE', '"sessions": false');
      await publish('fritz');
      const wrong = await call('fritz', {}, { 'x-platform-session': session.id });
      expectError(wrong, 400, 'INVALID_INPUT', 'talking/dora');
      expectError(await say(session.id, {}), 400, 'INVALID_INPUT', 'either "input" or "text"');
      expectError(await say(session.id, { text: 'a', input: {} }), 400, 'INVALID_INPUT', 'either');
      const later = { 'x-platform-session': session.id, 'x-platform-delay-seconds': '60', prefer: 'respond-async' };
      expectError(await call('dora', {}, later), 400, 'INVALID_INPUT', 'x-platform-session');
    });
  });

  describe('messages at the same time', () => {
    test('are answered in their order, each with the ones before', { timeout: 60_000 }, async () => {
      await publish(
        'gina',
        {},
        Array.from({ length: 4 }, (_, i) => ({ delayMs: 300, text: `gina answer ${i}` })),
      );
      const { id } = await open('gina');
      const answers = await Promise.all([1, 2, 3].map((n) => say(id, { text: `gina-${n}` })));
      for (const answer of answers) expectOk(answer);
      const { items } = expectOk(await send('GET', `/sessions/${id}/messages`));
      expect(items.map(({ number }: { number: number }) => number)).toEqual([1, 2, 3]);
      expect(items.map(({ output }: { output: { result: string } }) => output.result)).toEqual([
        'gina answer 0',
        'gina answer 1',
        'gina answer 2',
      ]);
    });

    test('are refused where the session says so', { timeout: 60_000 }, async () => {
      await publish('hans', {}, [{ delayMs: 2000, text: 'slow' }, { text: 'second' }]);
      const { id } = await open('hans', { busy: 'reject' });
      const first = expectOk(await say(id, { text: 'hans-1' }, { prefer: 'respond-async' }), 202);
      expect(first.metadata.session_id).toBe(id);
      expect(expectOk(await send('GET', `/sessions/${id}`))).toMatchObject({ status: 'running', messages: 1 });
      expectError(await say(id, { text: 'hans-2' }), 409, 'CONFLICT', first.run_id);
      const runOf = async () => expectOk(await send('GET', `/runs/${first.run_id}`));
      await expect.poll(async () => (await runOf()).status, untilEnded).toBe('completed');
      expect(expectOk(await say(id, { text: 'hans-3' })).data).toEqual({ result: 'second' });
    });
  });

  describe('the life of a session', () => {
    test('forks, exports, changes and ends', async () => {
      await publish('ina', {}, [{ text: 'ina one' }, { text: 'ina two' }, { text: 'ina three' }]);
      const { id } = await open('ina', { title: 'ina' });
      for (const n of [1, 2, 3]) expectOk(await say(id, { text: `ina-${n}` }));
      const fork = expectOk(await send('POST', `/sessions/${id}/fork`, { after: 1, title: 'fork' }), 201);
      expect(fork).toMatchObject({ messages: 1, title: 'fork', forked_from: { session_id: id, after: 1 } });
      expectOk(await say(fork.id, { text: 'ina-again' }));
      const { text } = asked('ina-again').at(-1)!;
      expect(text).toContain('ina-1');
      expect(text).not.toContain('ina-2');
      expectError(await send('POST', `/sessions/${id}/fork`, { after: 9 }), 422, 'UNPROCESSABLE', 'has 3 messages');
      const exported = await send('GET', `/sessions/${id}/export`);
      expect(exported.status).toBe(200);
      const lines = exported.body.trim().split('\n');
      expect(lines.map((line: string) => JSON.parse(line))).toMatchObject([
        { type: 'session', id },
        { type: 'message', number: 1, input: { message: 'ina-1' } },
        { type: 'message', number: 2 },
        { type: 'message', number: 3 },
      ]);
      const changed = expectOk(await send('PATCH', `/sessions/${id}`, { title: null, metadata: { a: 'b' } }));
      expect(changed).toMatchObject({ title: null, metadata: { a: 'b' } });
      expect(expectOk(await send('DELETE', `/sessions/${id}`))).toEqual({ deleted: true, id });
      expectError(await send('GET', `/sessions/${id}`), 404, 'NOT_FOUND');
      expectError(await say(id, { text: 'x' }), 404, 'NOT_FOUND');
      expectError(await send('DELETE', `/sessions/${id}`), 404, 'NOT_FOUND');
      expect(expectOk(await send('GET', `/sessions/${fork.id}/messages`)).items).toMatchObject([
        { input: { message: 'ina-1' }, output: { result: 'ina one' } },
        { input: { message: 'ina-again' } },
      ]);
    });

    test('shows the events of its runs, one after another', async () => {
      await publish('jan');
      const { id } = await open('jan');
      for (const n of [1, 2]) expectOk(await say(id, { text: `jan-${n}` }));
      const { events, next } = expectOk(await send('GET', `/sessions/${id}/events`));
      const ends = events.filter(({ type }: { type: string }) => type === 'end');
      expect(ends.map(({ data }: { data: { message_number: number } }) => data.message_number)).toEqual([1, 2]);
      // The end of a message is where the next one begins.
      expect(next).toBe('3.0');
      const later = expectOk(await send('GET', `/sessions/${id}/events?after=2.0`));
      const numbers = later.events.map(({ data }: { data: { message_number: number } }) => data.message_number);
      expect(new Set(numbers)).toEqual(new Set([2]));
      expectError(await send('GET', `/sessions/${id}/events?after=x`), 400, 'INVALID_INPUT');
    });
  });
}
