import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, needsModel, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedToolCall, ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const limit = { timeout: 180_000 };
const submit: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'asked' } }] };
const laterCalls = (...inputs: NonNullable<ScriptedToolCall['input']>[]): ScriptedTurn => ({
  toolCalls: inputs.map((input) => ({ name: 'later', input })),
});

/** Runs that begin later, for a caller or for a run of the same agent (`docs/interface/calls.md#later`). */
export function laterSuite(target: () => Target): void {
  let user: TestUser;
  let other: TestUser;
  const send = (method: string, path: string, json?: unknown, by = user) =>
    request(target(), method, `/workspaces/${by.workspaceId}${path}`, { key: by.key, json });
  const publish = (name: string, turns: ScriptedTurn | readonly ScriptedTurn[], more: object = {}) => {
    const prompt = `As ${name}. [[llm ${JSON.stringify(turns)}]]`;
    const body = { name, type: 'agent', description: 'x', required_secrets: [], prompt, ...more };
    return request(target(), 'POST', '/agents', { key: user.key, json: body });
  };
  const call = (name: string, { headers = {}, by = user, json = {} } = {}) =>
    request(target(), 'POST', `/later/${name}/v1/run`, { key: by.key, json, headers });
  const toldTo = (name: string) => target().llm.requests.findLast(({ text }) => text.includes(`As ${name}.`))!.text;

  beforeAll(async () => {
    needsModel(target());
    [user, other] = await Promise.all([target().addUser('later'), target().addUser('later-other')]);
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-later-0123456789' };
    for (const by of [user, other]) expectOk(await send('PUT', '/secrets', secret, by));
  });

  describe('a run begins later', () => {
    test('when a call names its time', limit, async () => {
      expectOk(await publish('timed', submit), 201);
      const headers = { prefer: 'respond-async', 'x-platform-delay-seconds': '2' };
      const { run_id: id, run_at } = expectOk(await call('timed', { headers }), 202);
      const look = async () => {
        await target().passMinute?.();
        return expectOk(await send('GET', `/runs/${id}`));
      };
      await expect.poll(look, { timeout: 150_000, interval: 500 }).toMatchObject({ status: 'completed', run_at });
      const run = await look();
      expect(Date.parse(run.started_at)).toBeGreaterThanOrEqual(Date.parse(run_at));
      expect(run).toMatchObject({ attempt: null, max_attempts: null });
    });

    test('when a loop asks for it whose caller does not wait', limit, async () => {
      const settings = { loop: { tools: ['later'] }, durable: true };
      expectOk(await publish('detached', [laterCalls({ delay_seconds: 3600 }), submit], settings), 201);
      const { run_id: id } = expectOk(await call('detached', { headers: { prefer: 'respond-async' } }), 202);
      const look = async () => expectOk(await send('GET', `/runs/${id}`));
      await expect.poll(look, { timeout: 150_000, interval: 500 }).toMatchObject({ status: 'completed' });
      const { runs } = expectOk(await send('GET', '/runs?agent_name=detached&status=queued'));
      expect(runs).toMatchObject([{ trigger_source: 'agent' }]);
    });

    test('when a loop asks for it, which is told what is wrong', async () => {
      const asks = [
        { input: { step: 2 }, delay_seconds: 3600 },
        { delay_seconds: 60, run_at: '2035-01-01T00:00:00Z' },
        { run_at: '2020-01-01T00:00:00Z' },
        { run_at: 'tomorrow' },
        { input: { step: 'two' }, delay_seconds: 60 },
        { delay_seconds: 0 },
      ];
      const input_schema = { type: 'object', properties: { step: { type: 'integer' } } };
      const settings = { loop: { tools: ['later'] }, input_schema, durable: true };
      expectOk(await publish('again', [laterCalls(...asks), submit], settings), 201);
      expect(expectOk(await call('again', { json: { step: 1 } })).data).toEqual({ result: 'asked' });
      const { runs } = expectOk(await send('GET', '/runs?agent_name=again&status=queued'));
      expect(runs).toHaveLength(1);
      const run = expectOk(await send('GET', `/runs/${runs[0].id}`));
      expect(run).toMatchObject({ trigger_source: 'agent', parent_run_id: null, input_data: { step: 2 } });
      expect(Date.parse(run.run_at)).toBeGreaterThan(Date.now() + 3_500_000);
      const told = toldTo('again');
      expect(told).toContain(`The run ${run.id} begins at ${run.run_at}.`);
      for (const text of [
        'Give either delay_seconds or run_at.',
        'run_at must be in the next 30 days',
        'run_at must be a time with an offset',
        'step: must be integer',
      ]) {
        expect(told).toContain(text);
      }
      expectOk(await send('DELETE', `/runs/${run.id}`));
    });

    test('of a loop only if its manifest names the tool, and in its own workspace alone', async () => {
      expectOk(await publish('unnamed', [laterCalls({ delay_seconds: 60 }), submit], { loop: { tools: [] } }), 201);
      expectOk(await call('unnamed'));
      expect(toldTo('unnamed')).toContain('There is no tool');
      const shared = { loop: { tools: ['later'] }, is_public: true };
      expectOk(await publish('shared', [laterCalls({ delay_seconds: 60 }), submit], shared), 201);
      expectOk(await call('shared', { by: other }));
      expect(toldTo('shared')).toContain('belongs to another workspace than');
      expect(expectOk(await send('GET', '/runs?status=queued', undefined, other)).runs).toEqual([]);
    });

    test('for no other agent than that of the run', async ({ skip }) => {
      if (target().interpreters.python === undefined) skip();
      const code = `import json, os, urllib.request, urllib.error
def ask(path):
    headers = {"Authorization": "Bearer " + os.environ["PLATFORM_SERVICE_KEY"], "Content-Type": "application/json",
               "Prefer": "respond-async", "X-Platform-Delay-Seconds": "60", "X-Platform-Tenant": "another"}
    url = os.environ["PLATFORM_GATEWAY_URL"] + path
    try:
        with urllib.request.urlopen(urllib.request.Request(url, b"{}", headers)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return [error.code, json.load(error)["error"]["message"]]
print(json.dumps([ask("/later/bold/v1/run"), ask("/later/timed/v1/run")]))`;
      await publishCode(clientOf(target(), user.key), 'bold', { 'main.py': code }, { is_public: true });
      const headers = { 'x-platform-tenant': 'ours' };
      const [own, foreign] = expectOk(await call('bold', { headers })).data;
      expect(own).toBe(202);
      expect(foreign).toEqual([400, expect.stringContaining('cannot begin later')]);
      const [elsewhere] = expectOk(await call('bold', { by: other })).data;
      expect(elsewhere).toEqual([403, expect.stringContaining('belongs to another workspace')]);
      const { runs } = expectOk(await send('GET', '/runs?agent_name=bold&status=queued&tenant_id=ours'));
      expect(runs).toHaveLength(1);
      expectOk(await send('DELETE', `/runs/${runs[0].id}`));
      const early = { prefer: 'respond-async', 'x-platform-delay-seconds': '-1' };
      expectError(await call('timed', { headers: early }), 400, 'INVALID_INPUT', 'x-platform-delay-seconds');
    });
  });
}
