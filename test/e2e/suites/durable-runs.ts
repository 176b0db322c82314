import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const bash = (command: string): ScriptedTurn => ({ toolCalls: [{ name: 'bash', input: { command } }] });
const submit: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'written' } }] };

/** Runs that outlive their call (`docs/interface/durable-runs.md`). */
export function durableRunsSuite(target: () => Target): void {
  let user: TestUser;

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('durable');
    const json = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-durable-0123456789' };
    expectOk(await request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, { key: user.key, json }));
  });

  const publish = (name: string, turns: readonly ScriptedTurn[], manifest: Record<string, unknown> = {}) => {
    const prompt = `Write. [[llm ${JSON.stringify(turns)}]]`;
    const loop = { type: 'agent', description: `tests ${name}`, required_secrets: [], durable: true };
    return request(target(), 'POST', '/agents', { key: user.key, json: { ...loop, name, prompt, ...manifest } });
  };
  const run = (name: string, headers: Record<string, string> = {}) =>
    request(target(), 'POST', `/durable/${name}/v1/run`, { key: user.key, json: {}, headers });
  const ended = async (runId: string) => {
    const show = async () =>
      expectOk(await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs/${runId}`, { key: user.key }));
    await expect.poll(async () => (await show()).status, { timeout: 60_000, interval: 200 }).not.toBe('running');
    return show();
  };

  describe('durable runs', () => {
    test('a call that does not wait is answered at once; its run ends with the files of all its turns', async () => {
      const count = [bash('echo one > log.txt'), bash('echo two >> log.txt'), bash('wc -l < log.txt')];
      expectOk(await publish('detached', [...count, submit]), 201);
      const accepted = await run('detached', { prefer: 'respond-async' });
      const { run_id, status, url } = expectOk(accepted, 202);
      expect({ status, url }).toEqual({ status: 'running', url: `/workspaces/${user.workspaceId}/runs/${run_id}` });
      expect(await ended(run_id)).toMatchObject({
        status: 'completed',
        output_data: { result: 'written' },
        error_code: null,
      });
    });

    test('a held call is answered with the address of its run when it takes too long', async () => {
      expectOk(await publish('held', [bash('sleep 2'), submit], { timeout_seconds: 1 }), 201);
      const answer = await run('held');
      const { run_id, status, url } = expectOk(answer, 202);
      expect(answer.headers.get('location')).toBe(url);
      expect(answer.headers.get('preference-applied')).toBeNull();
      expect(status).toBe('running');
      expect(await ended(run_id)).toMatchObject({ status: 'completed', output_data: { result: 'written' } });
    });

    test('a short run is answered like any other', async () => {
      expectOk(await publish('short', [submit]), 201);
      expect(expectOk(await run('short')).data).toEqual({ result: 'written' });
    });

    test('a program is answered with the address of its run when it takes too long', async () => {
      const command = 'sleep 2; echo "{\\"attempt\\": $PLATFORM_ATTEMPT}"';
      const manifest = { runtime: { command }, durable: { max_active_seconds: 60 }, timeout_seconds: 1 };
      const { agent } = await publishCode(clientOf(target(), user.key), 'program', { 'main.sh': '' }, manifest);
      expect(agent.durable).toEqual({ max_active_seconds: 60 });
      const { run_id, status } = expectOk(await run('program'), 202);
      expect(status).toBe('running');
      expect(await ended(run_id)).toMatchObject({ status: 'completed', output_data: { attempt: 1 } });
    });

    test('a program ends at the end of its time', async () => {
      // A sandbox may take seconds to start, and its start counts.
      const manifest = { runtime: { command: 'sleep 60' }, durable: { max_active_seconds: 10 } };
      await publishCode(clientOf(target(), user.key), 'endless', { 'main.sh': '' }, manifest);
      expectError(await run('endless'), 504, 'TIMEOUT');
    });

    test('a durable program has no retry policy', async () => {
      const manifest = { name: 'retried', type: 'tool', description: 'x', required_secrets: [], durable: true };
      const json = { ...manifest, runtime: { command: 'true' }, retry: { max: 1 } };
      const answer = await request(target(), 'POST', '/agents', { key: user.key, json });
      expectError(answer, 400, 'INVALID_INPUT', 'retry: must be left out here');
    });

    test.each([
      ['a prompt', { type: 'prompt', loop: undefined }, 'durable: must be left out here'],
      ['a service', { run_mode: 'always_on' }, 'durable: must be left out here'],
      ['more time than a plan may have', { durable: { max_active_seconds: 86_401 } }, 'durable'],
      ['no time', { durable: { max_active_seconds: 0 } }, 'durable'],
      ['another member', { durable: { hours: 2 } }, 'durable'],
    ])('%s is refused', async (_, manifest, message) => {
      expectError(await publish('refused', [submit], manifest), 400, 'INVALID_INPUT', message);
    });
  });
}
