import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const untilReady = { timeout: 150_000, interval: 200 };
const limit = { timeout: 180_000 };
const calls = (...toolCalls: NonNullable<ScriptedTurn['toolCalls']>): ScriptedTurn => ({ toolCalls });
const refund = (amount: number) => ({ name: 'refund', input: { amount } });
const submit: ScriptedTurn = calls({ name: 'submit_result', input: { result: 'over' } });
const REFUND = {
  name: 'refund',
  description: 'Refunds an amount',
  command: 'echo refunded {{amount}}',
  input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
  approval: { when: { properties: { amount: { exclusiveMinimum: 100 } } } },
};

/** Runs that wait for people and times (`docs/interface/approvals.md`). */
export function approvalsSuite(target: () => Target): void {
  let user: TestUser;
  const send = (method: string, path: string, json?: unknown, key = user.key) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key, json });
  const publish = (name: string, turns: readonly ScriptedTurn[], manifest: Record<string, unknown> = {}) => {
    const prompt = `Refund. [[llm ${JSON.stringify(turns)}]]`;
    const loop = { type: 'agent', description: 'x', required_secrets: [], custom_tools: [REFUND] };
    return request(target(), 'POST', '/agents', { key: user.key, json: { ...loop, name, prompt, ...manifest } });
  };
  const call = async (name: string) => {
    const path = `/approving/${name}/v1/run`;
    const headers = { prefer: 'respond-async' };
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
  const decide = (id: string, body: object, key?: string) => send('POST', `/approvals/${id}/decision`, body, key);

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('approving');
    expectOk(await send('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-approving-0123456789' }));
  });

  describe('approvals', () => {
    test('a call above the amount waits for a person, and runs once as it was approved', limit, async () => {
      const published = expectOk(await publish('teller', [calls(refund(50), refund(500)), submit]), 201);
      // Waiting makes a loop durable.
      expect(published.agent.durable).toEqual({});
      const id = await call('teller');
      const waiting = await until(id, 'waiting');
      expect(waiting).toMatchObject({ completed_at: null, error_code: null });
      const listed = expectOk(await send('GET', '/approvals?status=waiting&agent_name=teller'));
      expect(listed.approvals).toMatchObject([
        { id: `${id}.1.2`, kind: 'approve', tool: 'refund', arguments: { amount: 500 }, on_timeout: 'deny' },
      ]);
      const approved = expectOk(await decide(`${id}.1.2`, { decision: 'approve', arguments: { amount: 400 } }));
      expect(approved).toMatchObject({
        status: 'approved',
        changed_arguments: { amount: 400 },
        decided_by: user.userId,
      });
      expect(await until(id, 'completed')).toMatchObject({ output_data: { result: 'over' } });
      expectError(await decide(`${id}.1.2`, { decision: 'deny' }), 409, 'CONFLICT', 'A decision is final');
      const { events } = expectOk(await send('GET', `/traces/${id}/events?limit=100`));
      const types = (events as { event_type: string }[]).map(({ event_type }) => event_type);
      expect(types.filter((type) => type.startsWith('approval'))).toEqual(['approval_requested', 'approval_decided']);
    });

    test('a held call is answered with the address of its run when that waits', limit, async () => {
      expectOk(await publish('held-teller', [calls(refund(500)), submit]), 201);
      const answer = await request(target(), 'POST', '/approving/held-teller/v1/run', { key: user.key, json: {} });
      const { run_id: id, status } = expectOk(answer, 202);
      expect(status).toBe('running');
      await until(id, 'waiting');
      expectOk(await decide(`${id}.1.1`, { decision: 'deny', reason: 'too much' }));
      expect(await until(id, 'completed')).toMatchObject({ output_data: { result: 'over' } });
    });

    test('a question gets its answer, from a key that may only approve', limit, async () => {
      const question = { question: 'Which colour?', options: ['red', 'blue'] };
      const turns = [calls({ name: 'ask_human', input: question }), { text: 'said [[last]]' }, submit];
      expectOk(await publish('asker', turns, { loop: { tools: ['ask_human'] } }), 201);
      const id = await call('asker');
      await until(id, 'waiting');
      const key = expectOk(
        await request(target(), 'POST', '/api-keys', { key: user.key, json: { name: 'approver', scope: 'approve' } }),
        201,
      ).key as string;
      expectError(
        await decide(`${id}.1.1`, { decision: 'answer', answer: 'green' }, key),
        400,
        'INVALID_INPUT',
        'body.answer',
      );
      expectOk(await decide(`${id}.1.1`, { decision: 'answer', answer: 'blue' }, key));
      expect(expectOk(await send('GET', `/approvals/${id}.1.1`))).toMatchObject({ status: 'answered', answer: 'blue' });
      await until(id, 'completed');
    });

    test('a wait ends at its time', limit, async () => {
      const turns = [calls({ name: 'wait', input: { seconds: 2 } }), submit];
      expectOk(await publish('waiter', turns, { loop: { tools: ['wait'] } }), 201);
      const id = await call('waiter');
      await until(id, 'completed');
      const { approvals } = expectOk(await send('GET', `/approvals?run_id=${id}`));
      expect(approvals).toMatchObject([{ kind: 'time', status: 'expired', on_timeout: 'continue', decided_by: null }]);
    });

    test('a run that waits is cancelled, and nothing can be decided any more', limit, async () => {
      expectOk(await publish('cancelled-teller', [calls(refund(500)), submit]), 201);
      const id = await call('cancelled-teller');
      await until(id, 'waiting');
      expectOk(await send('POST', `/runs/${id}/cancel`));
      await until(id, 'cancelled');
      expectError(await decide(`${id}.1.1`, { decision: 'approve' }), 409, 'CONFLICT', 'has ended');
      expect(expectOk(await send('GET', `/approvals/${id}.1.1`)).status).toBe('cancelled');
    });

    test.each([
      ['a prompt', { type: 'prompt' }, 'custom_tools[0]: must be left out here'],
      ['a service', { run_mode: 'always_on' }, 'custom_tools[0]: must be left out here'],
      ['a loop that is not durable', { durable: false }, 'durable: must not be false'],
      [
        'a condition that is no schema',
        { custom_tools: [{ ...REFUND, approval: { when: { type: 'much' } } }] },
        'custom_tools[0].approval.when',
      ],
      ['another word', { custom_tools: [{ ...REFUND, approval: 'sometimes' }] }, 'custom_tools[0].approval'],
      ['more time than a run may wait', { durable: { max_wait_seconds: 2_592_001 } }, 'durable'],
      ['time to wait for nothing', { custom_tools: [], durable: { max_wait_seconds: 60 } }, 'durable.max_wait_seconds'],
    ])('%s is refused', async (_, manifest, message) => {
      expectError(await publish('refused', [submit], manifest), 400, 'INVALID_INPUT', message);
    });
  });
}
