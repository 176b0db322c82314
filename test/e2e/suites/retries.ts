import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const POLICY = { max: 2, backoff_seconds: [1] };
// A deployed platform looks for due runs once a minute.
const untilEnded = { timeout: 150_000, interval: 500 };
const limit = { timeout: 180_000 };

/** Runs that are tried again (`docs/interface/retries.md`). */
export function retriesSuite(target: () => Target): void {
  let user: TestUser;
  const send = (method: string, path: string, json?: unknown) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json });
  const publish = (name: string, prompt: string, more: object = {}) => {
    const body = { name, type: 'prompt', description: 'x', supported_providers: ['anthropic'], prompt, ...more };
    return request(target(), 'POST', '/agents', { key: user.key, json: body });
  };
  const call = (name: string, headers: Record<string, string> = { prefer: 'respond-async' }) =>
    request(target(), 'POST', `/retrying/${name}/v1/run`, { key: user.key, json: {}, headers });
  const runOf = async (id: string) => {
    await target().passMinute?.();
    return expectOk(await send('GET', `/runs/${id}`));
  };
  const ended = async (id: string) => {
    await expect.poll(async () => (await runOf(id)).completed_at, untilEnded).not.toBeNull();
    return runOf(id);
  };
  /** A model that fails at the first requests of each conversation. */
  const failing = (times: number) => `[[llm ${JSON.stringify([{ status: 400, times }, { text: 'done' }])}]]`;

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('retrying');
    expectOk(await send('PUT', '/secrets', { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-retrying-0123456789' }));
  });

  describe('runs that are tried again', () => {
    test('end like any other, and show their failed tries', limit, async () => {
      expectOk(await publish('twice', `Twice. ${failing(2)}`, { retry: POLICY }), 201);
      const { run_id: id } = expectOk(await call('twice'), 202);
      const run = await ended(id);
      expect(run).toMatchObject({
        ...{ status: 'completed', attempt: 3, max_attempts: 3, next_attempt_at: null, exhausted: false },
        failed_attempts: [{ error_code: 'LLM_ERROR' }, { error_code: 'LLM_ERROR' }],
      });
      const listed = expectOk(await send('GET', '/runs?agent_name=twice'));
      expect(listed).toMatchObject({ total: 1, runs: [{ id, attempt: 3, exhausted: false }] });
    });

    test('are listed when they have failed for good, and re-driven in bulk', limit, async () => {
      expectOk(await publish('thrice', `Thrice. ${failing(3)}`, { retry: POLICY }), 201);
      const { run_id: id } = expectOk(await call('thrice'), 202);
      expect(await ended(id)).toMatchObject({ status: 'failed', attempt: 3, exhausted: true });
      const query = '/runs?status=failed&exhausted=true';
      expect(expectOk(await send('GET', query)).runs).toMatchObject([{ id, exhausted: true }]);
      const order = { action: 'replay', filter: { exhausted: true } };
      const bulk = expectOk(await send('POST', '/bulk', order), 202);
      expect(bulk.total).toBe(1);
      const progress = async () => {
        await target().passMinute?.();
        return expectOk(await send('GET', `/bulk/${bulk.id}`));
      };
      await expect.poll(progress, untilEnded).toMatchObject({ status: 'completed', done: 1, failed: 0 });
      expect(expectOk(await send('GET', query)).runs).toEqual([]);
      const replays = expectOk(await send('GET', '/runs?agent_name=thrice&trigger_source=replay'));
      expect(await ended(replays.runs[0].id)).toMatchObject({ status: 'completed', replay_of_run_id: id });
    });

    test('of a webhook answer that they are not over', limit, async () => {
      expectOk(await publish('hooked', `Hooked. ${failing(1)}`), 201);
      const settings = { agent: 'retrying/hooked', type: 'webhook', retry: { ...POLICY, on: ['LLM_ERROR'] } };
      const { schedule } = expectOk(await send('POST', '/schedules', settings), 201);
      expect(schedule.retry).toEqual({ ...POLICY, on: ['LLM_ERROR'] });
      const { pathname } = new URL(schedule.webhook_url);
      const { run_id: id, status } = expectOk(await request(target(), 'POST', pathname, { json: {} }));
      expect(status).toBe('queued');
      expect(await ended(id)).toMatchObject({ status: 'completed', attempt: 2 });
      const cleared = expectOk(await send('PATCH', `/schedules/${schedule.id}`, { retry: null })).schedule;
      expect(cleared).not.toHaveProperty('retry');
      const wrong = await send('PATCH', `/schedules/${schedule.id}`, { retry: { max: 11 } });
      expectError(wrong, 400, 'INVALID_INPUT', 'retry.max');
    });

    test('of a program know which try it is', limit, async ({ skip }) => {
      if (target().interpreters.python === undefined) skip();
      const code = 'import os, sys\nn = os.environ["PLATFORM_ATTEMPT"]\nprint(n) if n == "2" else sys.exit(3)';
      const retry = { ...POLICY, on: ['SANDBOX_ERROR'] };
      const { agent } = await publishCode(clientOf(target(), user.key), 'program', { 'main.py': code }, { retry });
      expect(agent.retry).toEqual(retry);
      const { run_id: id } = expectOk(await call('program'), 202);
      expect(await ended(id)).toMatchObject({ status: 'completed', output_data: 2, attempt: 2 });
      expect((await runOf(id)).failed_attempts).toMatchObject([{ error_code: 'SANDBOX_ERROR' }]);
    });

    test('are those alone that nobody waits for', async () => {
      expectOk(await publish('awaited', `Awaited. ${failing(1)}`, { retry: POLICY }), 201);
      expectError(await call('awaited', {}), 502, 'LLM_ERROR');
    });

    test.for([
      [{ max: 0 }, 'retry.max'],
      [{ max: 1, backoff_seconds: [0] }, 'retry.backoff_seconds'],
      [{ max: 1, backoff_seconds: [] }, 'retry.backoff_seconds'],
      [{ max: 1, on: ['INVALID_INPUT'] }, 'retry.on'],
      [{ max: 1, often: true }, 'retry'],
      [true, 'retry'],
    ] as const)('need a policy that holds: %j is refused at %s', async ([retry, field]) => {
      expectError(await publish('wrong', 'Wrong.', { retry }), 400, 'INVALID_INPUT', field);
    });

    test('continue where they failed if they are durable, so only some codes make sense', async () => {
      const loop = { type: 'agent', required_secrets: [], durable: true };
      const answer = await publish('lasting', 'Last.', { ...loop, retry: { max: 1, on: ['TIMEOUT'] } });
      expectError(answer, 400, 'INVALID_INPUT', 'must not have TIMEOUT');
    });
  });
}
