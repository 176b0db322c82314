import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { ONLY_TOOLS, type ScriptedToolCall, type ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

const until = { timeout: 150_000, interval: 200 };
const limit = { timeout: 180_000 };
const bash = (command: string): ScriptedToolCall => ({ name: 'bash', input: { command } });
const calls = (...toolCalls: ScriptedToolCall[]): ScriptedTurn => ({ toolCalls });
const submit = (result: string) => calls({ name: 'submit_result', input: { result } });
/** Answers with what the tools gave. */
const ECHO: ScriptedTurn = { echo: true };

/** Sessions of loops and of programs with files (`docs/interface/sessions.md`). */
export function sessionLoopsSuite(target: () => Target, has: Languages): void {
  let user: TestUser;
  const send = (method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json, headers });
  const publish = async (name: string, turns: readonly ScriptedTurn[], more: object = {}) => {
    const prompt = `Work as ${name}. [[llm ${JSON.stringify(turns)}]]`;
    const json = { name, type: 'agent', description: 'x', required_secrets: [], prompt, ...more };
    return expectOk(await request(target(), 'POST', '/agents', { key: user.key, json }), 201);
  };
  const open = async (name: string, more: object = {}, headers: Record<string, string> = {}) =>
    expectOk(await send('POST', '/sessions', { agent: `chatting/${name}`, ...more }, headers), 201).id as string;
  const say = (id: string, text: string, headers: Record<string, string> = {}) =>
    send('POST', `/sessions/${id}/messages`, { text }, headers);
  const answer = async (id: string, text: string) => expectOk(await say(id, text)).data;
  const begin = async (id: string, text: string) =>
    expectOk(await say(id, text, { prefer: 'respond-async' }), 202).run_id as string;
  const status = async (run: string) => expectOk(await send('GET', `/runs/${run}`)).status as string;
  const ended = async (run: string, wanted: string) => {
    const show = async () => {
      await target().passMinute?.();
      return status(run);
    };
    await expect.poll(show, until).toBe(wanted);
  };
  /** Waits until the model was asked, with a text in the conversation. */
  const asked = (text: string, times = 1) =>
    expect
      .poll(() => target().llm.requests.filter((each) => each.text.includes(text)).length, until)
      .toBeGreaterThanOrEqual(times);

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('chatting');
    expectOk(await send('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-chatting-0123456789' }));
  });

  describe('a loop in a session', () => {
    test('goes on with what it did before, each time', limit, async () => {
      await publish('worker', [calls(bash('echo found-it')), submit('one'), submit('two'), ECHO, submit('four')]);
      const id = await open('worker');
      expect(await answer(id, 'Search.')).toEqual({ result: 'one' });
      expect(await answer(id, 'What now?')).toEqual({ result: 'two' });
      expect(JSON.stringify(await answer(id, 'And say-this-back?'))).toContain('say-this-back');
      expect(await answer(id, 'End.')).toEqual({ result: 'four' });
      const { text } = target().llm.requests.findLast((each) => each.text.includes('Work as worker'))!;
      const places = ['Search.', 'found-it', 'What now?', 'say-this-back', 'End.'].map((part) =>
        text.lastIndexOf(part),
      );
      expect(places).toEqual([...places].sort((a, b) => a - b));
      // Another session knows nothing of it.
      expect(await answer(await open('worker'), 'Search.')).toEqual({ result: 'one' });
    });

    test('goes on after a run that failed, and in a fork', limit, async () => {
      const turns = [calls(bash('echo half-done')), ONLY_TOOLS, ONLY_TOOLS, submit('whole')];
      await publish('clumsy', turns, { loop: { max_turns: 2 } });
      const id = await open('clumsy');
      expectError(await say(id, 'First.'), 422, 'UNPROCESSABLE', 'reached maximum turns');
      expect(await answer(id, 'Second.')).toEqual({ result: 'whole' });
      const fork = expectOk(await send('POST', `/sessions/${id}/fork`, { after: 2 }), 201);
      // The last turn of the script is repeated.
      expect(await answer(fork.id, 'Third.')).toEqual({ result: 'whole' });
      const { text } = target().llm.requests.findLast((each) => each.text.includes('Third.'))!;
      for (const part of ['First.', 'half-done', 'Second.']) expect(text).toContain(part);
    });

    test('keeps its files if its manifest says so, in its own session', limit, async () => {
      const turns = [calls(bash('ls; echo from-the-first > note')), submit('kept'), calls(bash('ls; cat note')), ECHO];
      await publish('keeper', turns, { workspace: true });
      await publish('forgetter', turns);
      const id = await open('keeper');
      expect(await answer(id, 'Write.')).toEqual({ result: 'kept' });
      const fork = expectOk(await send('POST', `/sessions/${id}/fork`, { after: 1 }), 201);
      expect(JSON.stringify(await answer(id, 'Read.'))).toContain('from-the-first');
      expect(JSON.stringify(await answer(fork.id, 'Read.'))).toContain('from-the-first');
      const empty = expectOk(await send('POST', `/sessions/${id}/fork`, { after: 0 }), 201);
      expect(await answer(empty.id, 'Write.')).toEqual({ result: 'kept' });
      const forgets = await open('forgetter');
      expect(await answer(forgets, 'Write.')).toEqual({ result: 'kept' });
      expect(JSON.stringify(await answer(forgets, 'Read.'))).toContain('No such file');
    });

    test('is interrupted by a call, or by its next message', limit, async () => {
      const turns = [calls(bash('echo begun; sleep 100')), submit('after the interruption')];
      await publish('sleeper', turns);
      const id = await open('sleeper', { busy: 'interrupt' });
      const first = await begin(id, 'sleep-one');
      await asked('sleep-one');
      expect(expectOk(await send('POST', `/sessions/${id}/interrupt`))).toEqual({ run_id: first });
      await ended(first, 'cancelled');
      expect(expectOk(await send('POST', `/sessions/${id}/interrupt`))).toEqual({ run_id: null });
      expect(await answer(id, 'Go on.')).toEqual({ result: 'after the interruption' });

      const other = await open('sleeper', { busy: 'interrupt' });
      const second = await begin(other, 'sleep-two');
      await asked('sleep-two');
      expect(await answer(other, 'Stop that.')).toEqual({ result: 'after the interruption' });
      expect(await status(second)).toBe('cancelled');
      const { items } = expectOk(await send('GET', `/sessions/${other}/messages`));
      expect(items).toMatchObject([
        { number: 1, status: 'cancelled', run_id: second },
        { number: 2, status: 'completed' },
      ]);
      expectError(await send('POST', `/sessions/ses_${'0'.repeat(32)}/interrupt`), 404, 'NOT_FOUND');
    });

    test('is steered by messages that come while it works, each once', limit, async () => {
      await publish('steered', [calls(bash('sleep 4')), submit('both'), submit('alone')]);
      const id = await open('steered', { busy: 'steer' });
      const first = await begin(id, 'steer-one');
      await asked('steer-one');
      const taken = await say(id, 'steer-two');
      expect(expectOk(taken).data).toEqual({ result: 'both' });
      expect(taken.headers.get('x-run-id')).toBe(first);
      expect(target().llm.requests.filter((each) => each.text.includes('steer-two'))).toHaveLength(1);
      // Nothing is under way: the message is one of its own.
      expect(await answer(id, 'steer-three')).toEqual({ result: 'alone' });
      const { items } = expectOk(await send('GET', `/sessions/${id}/messages`));
      expect(items.map((item: { input: unknown }) => item.input)).toEqual([
        { message: 'steer-one' },
        { message: 'steer-three' },
      ]);
    });

    test('gets a message next that its run did not take before its end', limit, async () => {
      // The only turn of the run is a long answer: there is no turn before which it takes a message.
      await publish('deaf', [{ ...submit('first'), delayMs: 3000 }, submit('second')]);
      const id = await open('deaf', { busy: 'steer' });
      const first = await begin(id, 'deaf-one');
      await asked('deaf-one');
      expect(await answer(id, 'deaf-two')).toEqual({ result: 'second' });
      await ended(first, 'completed');
      const { items } = expectOk(await send('GET', `/sessions/${id}/messages`));
      expect(items).toMatchObject([{ output: { result: 'first' } }, { output: { result: 'second' } }]);
    });

    test('of another tenant is not there', limit, async () => {
      const id = await open('steered', {}, { 'x-platform-tenant': 'one' });
      const other = { 'x-platform-tenant': 'two' };
      expectError(await send('POST', `/sessions/${id}/interrupt`, undefined, other), 404, 'NOT_FOUND');
      expectError(await say(id, 'Hello.', other), 404, 'NOT_FOUND');
      expectOk(await send('POST', `/sessions/${id}/interrupt`, undefined, { 'x-platform-tenant': 'one' }));
    });
  });

  test(
    'a durable loop waits for a person in its session, and goes on with its files in another process',
    limit,
    async () => {
      const pay = {
        name: 'pay',
        description: 'Pays an amount',
        command: 'echo paid {{amount}} | tee -a receipts',
        input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
        approval: 'always',
      };
      const turns = [
        calls(bash('echo from-before > before')),
        submit('hello'),
        calls(bash('cat before; echo from-the-draft > draft')),
        calls({ name: 'pay', input: { amount: 7 } }),
        submit('paid'),
        calls(bash('cat before draft receipts')),
        ECHO,
      ];
      await publish('payer', turns, { custom_tools: [pay], workspace: true });
      const id = await open('payer');
      expect(await answer(id, 'Hello.')).toEqual({ result: 'hello' });
      const run = await begin(id, 'Pay.');
      await ended(run, 'waiting');
      expect(expectOk(await send('GET', `/sessions/${id}`)).status).toBe('waiting');
      expectOk(await send('POST', `/approvals/${run}.2.1/decision`, { decision: 'approve' }));
      await ended(run, 'completed');
      const shown = JSON.stringify(await answer(id, 'Show me.'));
      for (const part of ['from-before', 'from-the-draft', 'paid 7']) expect(shown).toContain(part);
      const { text } = target().llm.requests.findLast((each) => each.text.includes('Show me.'))!;
      for (const part of ['Hello.', 'Pay.', 'The result was accepted.']) expect(text).toContain(part);
    },
  );

  test.skipIf(!has.python)('a program finds the files of its session, and no other ones', limit, async () => {
    const code = `import json, os, sys
json.load(sys.stdin)
path = os.path.expanduser('~/count')
count = int(open(path).read()) + 1 if os.path.exists(path) else 1
open(path, 'w').write(str(count))
print(json.dumps({'count': count, 'session': os.environ['PLATFORM_SESSION_ID']}))
`;
    await publishCode(clientOf(target(), user.key), 'counter', { 'main.py': code }, { workspace: true });
    const [one, other] = [await open('counter'), await open('counter')];
    expect(await answer(one, 'a')).toEqual({ count: 1, session: one });
    expect(await answer(one, 'b')).toEqual({ count: 2, session: one });
    expect(await answer(other, 'a')).toEqual({ count: 1, session: other });
    expect(await answer(one, 'c')).toEqual({ count: 3, session: one });
    expectOk(await send('DELETE', `/sessions/${one}`));
    expectError(await say(one, 'd'), 404, 'NOT_FOUND');
  });
}
