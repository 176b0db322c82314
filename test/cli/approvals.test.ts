import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { clientOf, type LocalTarget, request, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, signedInAt } from './command-line.ts';

let target: LocalTarget;
let workspace_id: string;
const platform = (...args: readonly string[]) => commandLine(args, signedInAt(target));

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  const client = clientOf(target);
  workspace_id = (await client.getOrg({})).id;
  await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' } });
  const input_schema = { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] };
  const refund = { name: 'refund', description: 'x', command: 'echo {{amount}}', input_schema, approval: 'always' };
  const publish = (name: string, prompt: string, more: object) =>
    client.createAgent({ body: { name, type: 'agent', description: 'x', prompt, required_secrets: [], ...more } });
  await publish('teller', 'Refund.', { custom_tools: [refund], loop: { tools: [] } });
  await publish('asker', 'Ask.', { loop: { tools: ['ask_human'] } });
  const submit = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
  const refunds = { toolCalls: [{ name: 'refund', input: { amount: 250 } }] };
  const asks = { toolCalls: [{ name: 'ask_human', input: { question: 'Which colour?' } }] };
  target.llm.script({
    rules: [
      { marker: 'Refund.', turns: [refunds, submit] },
      { marker: 'Ask.', turns: [asks, submit] },
    ],
  });
});
afterAll(() => target?.close());

/** Begins a run and waits until it waits. Returns the first digits of its id. */
async function waiting(agent: string): Promise<string> {
  const headers = { prefer: 'respond-async' };
  const called = await request(target, 'POST', `/main/${agent}/v1/run`, { key: target.key, json: {}, headers });
  const params = { workspace_id, run_id: called.body.run_id };
  await vi.waitFor(async () => expect((await clientOf(target).getRun({ params })).status).toBe('waiting'), 20_000);
  return called.body.run_id.slice(0, 8);
}
const last = (agent: string) => platform('logs', agent, '-f');

test('what waits is listed, and approved with other arguments', async () => {
  const run = await waiting('teller');
  const listed = await platform('approvals', '--status', 'waiting');
  expect(listed.json.approvals).toMatchObject([{ tool: 'refund', arguments: { amount: 250 } }]);
  expect((await platform('logs', run)).status).toBe(0);
  const approved = await platform('approve', run, '--args', '{"amount": 80}');
  expect(approved).toMatchObject({ status: 0, json: { status: 'approved', changed_arguments: { amount: 80 } } });
  expect(approved.stderr).toContain(`platform logs ${run} -f`);
  expect(await last('teller')).toMatchObject({ status: 0 });
  expect(target.llm.requests.at(-1)!.text).toContain('A person changed the arguments of this call');
});

test('a run that is followed says how to decide', async () => {
  const followed = platform('run', 'teller');
  const id = await vi.waitFor(async () => {
    const { json } = await platform('approvals', '--status', 'waiting');
    expect(json.approvals).toHaveLength(1);
    return json.approvals[0].id as string;
  }, 20_000);
  await platform('approve', id, '--for-run');
  const { status, stderr, json } = await followed;
  expect({ status, data: json.data }).toEqual({ status: 0, data: { result: 'done' } });
  expect(stderr).toContain(`Waiting for an approval of refund\n  platform approve ${id}`);
  expect(stderr).toContain('Decided: the run continues');
});

test('a call is refused, and a question is answered', async () => {
  const refused = await platform('approve', await waiting('teller'), '--deny', '--reason', 'paid already');
  expect(refused).toMatchObject({ status: 0, json: { status: 'denied', reason: 'paid already' } });
  expect(await last('teller')).toMatchObject({ status: 0 });
  const run = await waiting('asker');
  expect(await platform('approve', run)).toMatchObject({ status: 5, stderr: expect.stringContaining('--answer') });
  expect(await platform('approve', run, '--answer', 'blue')).toMatchObject({ status: 0, json: { answer: 'blue' } });
  expect(await last('asker')).toMatchObject({ status: 0 });
});

test.each([
  [['00000000'], 'Nothing waits whose id begins with'],
  [['00000000', '--deny', '--for-run'], 'not with --deny'],
  [['00000000', '--answer', 'x', '--deny'], '--answer goes with a question'],
  [['00000000', '--json-answer'], 'requires --answer'],
])('%j is a mistake of the command', async (options, message) => {
  expect(await platform('approve', ...options)).toMatchObject({ status: 5, stderr: expect.stringContaining(message) });
});
