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
  });
}
