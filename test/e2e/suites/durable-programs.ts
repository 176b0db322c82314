import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const untilReady = { timeout: 150_000, interval: 200 };
const limit = { timeout: 180_000 };

/** Says to stderr what really happens, so that the log tells how often each step ran. */
const JS = (body: string) => `
import { durable } from 'agent-platform-sdk';
const { step, sleep, askHuman } = durable;
const did = (what, value) => () => (process.stderr.write(what + ';'), value);
${body}`;
const PYTHON = (body: string) => `
import asyncio, json, sys
from agent_platform import durable, TimeoutExceededError
def did(what, value=None):
    def work():
        sys.stderr.write(what + ";")
        return value
    return work
${body}`;

const LANGUAGES = {
  JavaScript: {
    file: 'main.js',
    command: 'node main.js',
    source: JS(`
      const order = await step('read order', did('read', { id: 7, total: 120 }));
      await sleep(1);
      let answer = 'nothing';
      try {
        answer = await askHuman('Refund ' + order.total + '?', { options: ['yes', 'no'] });
      } catch {
        process.stderr.write('caught;');
      } finally {
        process.stderr.write('finally;');
      }
      const paid = await step('pay', did('pay', order.id));
      console.log(JSON.stringify({ answer, paid, attempt: process.env.PLATFORM_ATTEMPT }));`),
  },
  Python: {
    file: 'main.py',
    command: 'python3 main.py',
    source: PYTHON(`
order = durable.step("read order", did("read", {"id": 7, "total": 120}))
durable.sleep(1)
answer = "nothing"
try:
    answer = durable.ask_human(f"Refund {order['total']}?", ["yes", "no"])
except:
    sys.stderr.write("caught;")
finally:
    sys.stderr.write("finally;")
paid = durable.step("pay", did("pay", order["id"]))
import os
print(json.dumps({"answer": answer, "paid": paid, "attempt": os.environ["PLATFORM_ATTEMPT"]}))`),
  },
} as const;

/** Programs that do steps and wait (`docs/interface/durable-programs.md`). */
export function durableProgramsSuite(target: () => Target): void {
  let user: TestUser;
  const send = (method: string, path: string, json?: unknown, key = user.key) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key, json });
  const publish = (
    name: string,
    { file, command, source }: { file: string; command: string; source: string },
    manifest: Record<string, unknown> = {},
  ) => {
    const durable = { steps: true };
    return publishCode(
      clientOf(target(), user.key),
      name,
      { [file]: source },
      { runtime: { command }, durable, ...manifest },
    );
  };
  const call = async (name: string) => {
    const headers = { prefer: 'respond-async' };
    const path = `/stepping/${name}/v1/run`;
    return expectOk(await request(target(), 'POST', path, { key: user.key, json: {}, headers }), 202).run_id as string;
  };
  const until = async (id: string, status: string) => {
    const show = async () => {
      await target().passMinute?.();
      return expectOk(await send('GET', `/runs/${id}`));
    };
    await expect.poll(async () => (await show()).status, untilReady).toBe(status);
    return show();
  };
  const stderrOf = async (id: string) => expectOk(await send('GET', `/runs/${id}/logs`)).stderr;
  const decide = (id: string, body: object) => send('POST', `/approvals/${id}/decision`, body);

  beforeAll(async () => {
    user = await target().addUser('stepping');
  });

  describe('durable programs', () => {
    test.each(Object.entries(LANGUAGES))(
      'in %s: each step runs once, before and after a question',
      limit,
      async (language, program) => {
        const name = `refunds-${language.toLowerCase()}`;
        const { agent } = await publish(name, program);
        expect(agent.durable).toEqual({ steps: true });
        const id = await call(name);
        expect(await until(id, 'waiting')).toMatchObject({ completed_at: null, error_code: null });
        const { approvals } = expectOk(await send('GET', `/approvals?run_id=${id}`));
        expect(approvals).toMatchObject([
          { kind: 'answer', tool: 'ask_human', question: 'Refund 120?', options: ['yes', 'no'], status: 'waiting' },
        ]);
        expectError(await decide(approvals[0].id, { decision: 'answer', answer: 'perhaps' }), 400, 'INVALID_INPUT');
        expectOk(await decide(approvals[0].id, { decision: 'answer', answer: 'yes' }));
        const ended = await until(id, 'completed');
        expect(ended.output_data).toEqual({ answer: 'yes', paid: 7, attempt: '2' });
        expect(await stderrOf(id)).toBe('read;finally;pay;');
        const { events } = expectOk(await send('GET', `/traces/${id}/events?limit=100`));
        const types = (events as { event_type: string }[]).map(({ event_type }) => event_type);
        expect(types.filter((type) => type.startsWith('approval'))).toEqual(['approval_requested', 'approval_decided']);
      },
    );

    const PARALLEL = {
      JavaScript: {
        ...{ file: 'main.js', command: 'node main.js' },
        source: JS(`
          const slow = async () => {
            await new Promise((done) => setTimeout(done, 1500));
            process.stderr.write('slow;');
            return 'slow';
          };
          const chain = async () => [await step('fast', did('fast', 'fast')), await askHuman('Third?')];
          const answers = await Promise.all([askHuman('First?'), step('slow', slow), askHuman('Second?'), chain()]);
          console.log(JSON.stringify(answers));`),
      },
      Python: {
        ...{ file: 'main.py', command: 'python3 main.py' },
        source: PYTHON(`
async def slow():
    await asyncio.sleep(1.5)
    sys.stderr.write("slow;")
    return "slow"
async def fast():
    sys.stderr.write("fast;")
    return "fast"
async def chain():
    return [await durable.step_async("fast", fast), await durable.ask_human_async("Third?")]
async def main():
    ask = durable.ask_human_async
    return await asyncio.gather(ask("First?"), durable.step_async("slow", slow), ask("Second?"), chain())
print(json.dumps(asyncio.run(main())))`),
      },
    } as const;

    test.each(Object.entries(PARALLEL))(
      'in %s: questions in parallel wait each by its own id',
      limit,
      async (language, program) => {
        const name = `parallel-${language.toLowerCase()}`;
        await publish(name, program);
        const id = await call(name);
        await until(id, 'waiting');
        const waiting = async () => {
          const { approvals } = expectOk(await send('GET', `/approvals?run_id=${id}`));
          return (approvals as { id: string; question: string; status: string }[]).filter(
            ({ status }) => status === 'waiting',
          );
        };
        const asked = await waiting();
        expect(asked.map(({ question }) => question).sort()).toEqual(['First?', 'Second?', 'Third?']);
        for (const { id: approval, question } of asked.filter(({ question }) => question !== 'First?')) {
          expectOk(await decide(approval, { decision: 'answer', answer: `to ${question}` }));
        }
        await expect
          .poll(async () => (await waiting()).map(({ question }) => question), untilReady)
          .toEqual(['First?']);
        await until(id, 'waiting');
        const [first] = asked.filter(({ question }) => question === 'First?');
        expectOk(await decide(first!.id, { decision: 'answer', answer: 'to First?' }));
        const ended = await until(id, 'completed');
        expect(ended.output_data).toEqual(['to First?', 'slow', 'to Second?', ['fast', 'to Third?']]);
        expect(await stderrOf(id)).toBe('fast;slow;');
      },
    );

    const CHANGED = {
      JavaScript: {
        ...{ file: 'main.js', command: 'node main.js' },
        source: JS(`
          const names = process.env.PLATFORM_ATTEMPT === '1' ? ['left', 'right'] : ['right', 'left'];
          for (const name of names) await step(name, did(name));
          await askHuman('On?');`),
      },
      Python: {
        ...{ file: 'main.py', command: 'python3 main.py' },
        source: PYTHON(`
import os
names = ["left", "right"] if os.environ["PLATFORM_ATTEMPT"] == "1" else ["right", "left"]
for name in names:
    durable.step(name, did(name))
durable.ask_human("On?")`),
      },
    } as const;

    test.each(Object.entries(CHANGED))(
      'in %s: steps in another order are an error that names both',
      limit,
      async (language, program) => {
        const name = `changed-${language.toLowerCase()}`;
        await publish(name, program);
        const id = await call(name);
        await until(id, 'waiting');
        const { approvals } = expectOk(await send('GET', `/approvals?run_id=${id}`));
        expectOk(await decide(approvals[0].id, { decision: 'answer', answer: 'yes' }));
        const failed = await until(id, 'failed');
        expect(failed.error_message).toContain(
          'does step "right" (1) where an earlier start of this run did step "left" (1)',
        );
        expect(await stderrOf(id)).toMatch(/^left;right;/);
      },
    );

    test('an event from outside lets a program go on, also one that came before', limit, async () => {
      const source = JS(`
        import { storage } from 'agent-platform-sdk';
        const [url, early] = [await durable.eventUrl('paid'), await durable.eventUrl('early-one')];
        await step('order', async () => {
          const headers = { 'content-type': 'application/json' };
          return (await fetch(early, { method: 'POST', headers, body: '"soon"' })).status;
        });
        await step('tell', async () => void (await storage.set('addresses', 'paid', { url })));
        const before = await durable.waitForEvent('early-one', { timeoutSeconds: 60 });
        console.error('address ' + (await durable.eventUrl('paid')));
        console.log(JSON.stringify({ before, paid: await durable.waitForEvent('paid') }));`);
      await publish('eventful', { file: 'main.js', command: 'node main.js', source });
      const id = await call('eventful');
      await until(id, 'waiting');
      const stored = await request(target(), 'GET', '/storage/addresses/paid', {
        key: user.key,
        headers: { 'x-workspace-id': user.workspaceId },
      });
      const { pathname } = new URL(expectOk(stored).value.url);
      const listed = expectOk(await send('GET', `/approvals?run_id=${id}`)).approvals;
      expect(listed).toMatchObject([{ kind: 'event', arguments: { event: 'paid' }, status: 'waiting' }]);
      expect(expectOk(await request(target(), 'POST', pathname, { json: { amount: 3 } }))).toMatchObject({
        waiting: true,
      });
      const ended = await until(id, 'completed');
      expect(ended.output_data).toEqual({ before: 'soon', paid: { amount: 3 } });
      const log = await stderrOf(id);
      expect(log).toContain('[secret EVENT_URL]');
      expect(log).not.toContain(pathname.split('/').at(-1));
    });

    test('a question that nobody answers in time is an error that a program can catch', limit, async () => {
      const source = PYTHON(`
try:
    durable.ask_human("Hurry?", timeout=1)
except TimeoutExceededError as error:
    print(json.dumps(str(error)))`);
      await publish('hurried', { file: 'main.py', command: 'python3 main.py', source });
      expect((await until(await call('hurried'), 'completed')).output_data).toBe('Nobody answered in time.');
    });

    test('what cannot be kept fails the program', limit, async () => {
      const source = PYTHON(`
found = []
for work in (lambda: "x" * 1_100_000, lambda: {1, 2}, lambda: float("nan"), lambda: durable.step("inner", lambda: 1)):
    try:
        durable.step("odd", work)
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
durable.step("after", lambda: 1)
print(json.dumps(found))`);
      await publish('odd', { file: 'main.py', command: 'python3 main.py', source });
      const [large, set, nan, inner] = (await until(await call('odd'), 'completed')).output_data;
      expect(large).toContain('larger than 1 MB');
      expect(set).toContain('TypeError: step "odd" (2) returned no JSON value');
      expect(nan).toContain('ValueError: step "odd" (3) returned no JSON value');
      expect(inner).toContain('TypeError: step "odd" (4) cannot contain step "inner"');
    });

    test('secrets are masked in questions, and not in the values that a program gets', limit, async () => {
      expectOk(await send('PUT', '/secrets', { name: 'TELLER_TOKEN', value: 'tok-0123456789abcdef' }));
      const source = PYTHON(`
import os
token = durable.step("token", lambda: os.environ["TELLER_TOKEN"])
durable.ask_human(f"Use {token}?")
kept = durable.step("token", lambda: "never")
print(json.dumps(token == os.environ["TELLER_TOKEN"]))`);
      await publish(
        'secretive',
        { file: 'main.py', command: 'python3 main.py', source },
        { required_secrets: ['TELLER_TOKEN'] },
      );
      const id = await call('secretive');
      await until(id, 'waiting');
      const answer = expectOk(await send('GET', `/approvals?run_id=${id}`));
      expect(answer.approvals[0].question).toBe('Use [secret TELLER_TOKEN]?');
      expect(JSON.stringify(answer)).not.toContain('tok-0123456789abcdef');
      expectOk(await decide(answer.approvals[0].id, { decision: 'answer', answer: 'yes' }));
      expect((await until(id, 'completed')).output_data).toBe(true);
    });

    test('only the program of a run writes its steps, each once', limit, async () => {
      const source = `
        const { PLATFORM_GATEWAY_URL: base, PLATFORM_SERVICE_KEY: key, PLATFORM_BILLING_ORG_ID: ws, PLATFORM_RUN_ID: id } = process.env;
        const ask = async (path, body) => {
          const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' };
          const sent = body && { method: 'POST', body: JSON.stringify(body) };
          const answer = await fetch(base + '/workspaces/' + ws + '/runs/' + path + '/steps', { headers, ...sent });
          const { error, ...rest } = await answer.json();
          return [answer.status, error?.message ?? rest.value ?? rest.status ?? rest.steps.length];
        };
        const step = { position: 1, kind: 'step', text: 'pay', number: 1, value: 'first' };
        const found = [
          await ask(id, step),
          await ask(id, { ...step, value: 'second' }),
          await ask(id, { ...step, text: 'refund' }),
          await ask(id, { ...step, position: 3 }),
          await ask(id, { ...step, position: 2, kind: 'ask_human' }),
          await ask(id, { ...step, position: 2, kind: 'start', value: undefined }),
          await ask(id, { position: 2, kind: 'wait_for_event', text: 'none', number: 1, wait: {} }),
          await ask(id, { position: 2, kind: 'sleep', text: '', number: 1, wait: { seconds: 2592000 } }),
          await ask('${'0'.repeat(8)}-0000-4000-8000-000000000000', step),
          await ask(id),
        ];
        console.log(JSON.stringify(found));`;
      const durable = { steps: true, max_wait_seconds: 60 };
      await publish('attacker', { file: 'main.mjs', command: 'node main.mjs', source }, { durable });
      const id = await call('attacker');
      const found = (await until(id, 'completed')).output_data;
      expect(found).toMatchObject([
        [200, 'first'],
        [200, 'first'],
        [409, 'Position 1 of this run has step "pay" (1), not step "refund" (1).'],
        [409, expect.stringContaining('fewer than 2')],
        [400, expect.stringContaining('value: does not go with ask_human')],
        [400, expect.stringContaining('kind')],
        [422, expect.stringContaining('no address yet')],
        [422, expect.stringContaining('This run may wait for')],
        [404, expect.stringContaining('that run only')],
        [200, 1],
      ]);
      expectError(await send('GET', `/runs/${id}/steps`), 403, 'FORBIDDEN', 'Only the program of the run');
    });

    test('a program whose manifest has no steps is told so', limit, async () => {
      const source = JS(`await step('one', did('one')).catch((error) => console.log(JSON.stringify(error.hint)));`);
      await publish('stepless', { file: 'main.js', command: 'node main.js', source }, { durable: true });
      expect((await until(await call('stepless'), 'completed')).output_data).toContain('"durable": {"steps": true}');
    });

    test('a run that waits can be cancelled, and ends if its agent is deleted', limit, async () => {
      const program = { file: 'main.js', command: 'node main.js', source: JS(`await askHuman('Still there?');`) };
      const { agent } = await publish('patient', program);
      const [cancelled, orphan] = [await call('patient'), await call('patient')];
      await Promise.all([until(cancelled, 'waiting'), until(orphan, 'waiting')]);
      expectOk(await send('POST', `/runs/${cancelled}/cancel`));
      expect((await until(cancelled, 'cancelled')).error_code).toBe('RUN_CANCELLED');
      expectOk(await request(target(), 'DELETE', `/agents/${agent.id}`, { key: user.key }));
      const { approvals } = expectOk(await send('GET', `/approvals?run_id=${orphan}`));
      expectOk(await decide(approvals[0].id, { decision: 'answer', answer: 'yes' }));
      const ended = await until(orphan, 'failed');
      expect(ended).toMatchObject({ error_code: 'NOT_FOUND', error_message: expect.stringContaining('was deleted') });
    });

    test.each([
      ['a loop', { type: 'agent', prompt: 'x', durable: { steps: true } }, 'durable.steps: must be left out here'],
      ['a service', { run_mode: 'always_on', durable: { steps: true } }, 'durable: must be left out here'],
      ['time to wait for nothing', { durable: { max_wait_seconds: 60 } }, 'durable.max_wait_seconds'],
    ])('%s is refused', async (_, manifest, message) => {
      const json = { name: 'refused', type: 'tool', description: 'x', required_secrets: [], runtime: { command: 'x' } };
      const body = { ...json, ...manifest, ...('type' in manifest && { runtime: undefined }) };
      const answer = await request(target(), 'POST', '/agents', { key: user.key, json: body });
      expectError(answer, 400, 'INVALID_INPUT', message);
    });
  });
}
