import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { expectError, expectOk } from '#test/e2e/expect.ts';
import { installsSuite } from '#test/e2e/suites/installs.ts';
import { secretsSuite } from '#test/e2e/suites/secrets.ts';
import { streamingSuite } from '#test/e2e/suites/streaming.ts';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import { startRehearsal } from './platform.ts';

/**
 * Rehearses a stage with MicroVM sandboxes, Claude on Amazon Bedrock and secrets in envelopes; platform.rehearsal.ts covers
 * the rest.
 */
const target = await startRehearsal(inject('awsEndpoints'), { sandbox: 'microvm' });
const has = { python: target.interpreters.python !== undefined, node: target.interpreters.node !== undefined };

streamingSuite(() => target, has);
installsSuite(() => target, { ...has, python: false });
secretsSuite(() => target);

describe('programs in MicroVMs', () => {
  const ECHO = `read -r input
case "$input" in *wait*) sleep 60 ;; esac
echo "$input"
`;
  let workspaceId: string;
  const run = (json: object, headers: Record<string, string> = {}) =>
    request(target, 'POST', '/acme/vm-echo/v1/run', { key: target.key, json, headers });

  beforeAll(async () => {
    const client = clientOf(target);
    const { workspaces } = await client.listWorkspaces({});
    workspaceId = workspaces.find(({ slug }) => slug === 'acme')!.id;
    await publishCode(client, 'vm-echo', { 'main.sh': ECHO }, { runtime: { command: 'bash main.sh' } });
  });

  test('each runs in one of its own', async () => {
    const answers = await Promise.all([1, 2, 3].map((n) => run({ n })));
    expect(answers.map((answer) => expectOk(answer).data)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  });

  test('are stopped at their deadline', async () => {
    const deadline = { 'x-platform-deadline-ms': String(Date.now() + 8000) };
    expectError(await run({ wait: 60 }, deadline), 504, 'TIMEOUT');
  });

  test('are cancelled', async () => {
    const { run_id: id } = expectOk(await run({ wait: 60 }, { prefer: 'respond-async' }), 202);
    const answer = await request(target, 'DELETE', `/workspaces/${workspaceId}/runs/${id}`, { key: target.key });
    expect(expectOk(answer)).toMatchObject({ id, status: 'cancelled' });
  });

  test('work on while no function waits for them', { timeout: 180_000 }, async () => {
    const command = 'for i in 1 2 3; do sleep 4; echo "line $i" >&2; done; echo "{}"';
    await publishCode(clientOf(target), 'vm-hours', { 'main.sh': '' }, { runtime: { command }, durable: true });
    const headers = { prefer: 'respond-async' };
    const called = await request(target, 'POST', '/acme/vm-hours/v1/run', { key: target.key, json: {}, headers });
    const path = `/workspaces/${workspaceId}/runs/${expectOk(called, 202).run_id}`;
    const look = async () => {
      await target.passMinute?.();
      return expectOk(await request(target, 'GET', path, { key: target.key }));
    };
    await expect
      .poll(look, { timeout: 120_000, interval: 1000 })
      .toMatchObject({ status: 'completed', output_data: {} });
    const { stderr } = expectOk(await request(target, 'GET', `${path}/logs`, { key: target.key }));
    expect(stderr).toBe('line 1\nline 2\nline 3\n');
  });

  test('leave no VM behind, and the clock finds none that outlived its time', async () => {
    await target.tick('microvm-sweeper');
    const running = () => target.microvms!.vms.filter(({ state }) => state !== 'TERMINATED');
    await expect.poll(running, { timeout: 30_000 }).toEqual([]);
  });
});

describe('Claude on Amazon Bedrock', () => {
  const CALL = 'arn:aws:bedrock:eu-central-1:111122223333:inference-profile/eu.anthropic.claude-sonnet-5-5';
  const MODEL = 'arn:aws:bedrock:*::foundation-model/anthropic.claude-sonnet-5-5';
  const asked = () => target.llm!.requests.filter(({ text }) => text.includes('on-bedrock'));

  test('a workspace without a key asks it with the role of the function: prompts, loops and schedules', async () => {
    const owner = await target.addUser('vm-bedrock');
    const client = clientOf(target, owner.key);
    const supported_providers = ['anthropic'];
    const described = { description: 'x', supported_providers, required_secrets: [] };
    await client.createAgent({ body: { ...described, name: 'prompt', type: 'prompt', prompt: 'Answer on-bedrock.' } });
    const loop = {
      loop: { max_turns: 3 },
      prompt: 'Work on-bedrock. [[llm {"toolCalls": [{"name": "submit_result", "input": {"result": "five"}}]}]]',
    };
    await client.createAgent({ body: { ...described, ...loop, name: 'loop', type: 'agent' } });
    const call = (agent: string) =>
      request(target, 'POST', `/vm-bedrock/${agent}/v1/run`, { key: owner.key, json: {} });
    expect(expectOk(await call('prompt')).data).toEqual({ result: 'ok' });
    const answer = await call('loop');
    expect(expectOk(answer).data).toEqual({ result: 'five' });
    expect(asked()).toMatchObject([
      { provider: 'bedrock', model: 'eu.anthropic.claude-sonnet-5-5', stream: false, outcome: 'answered' },
      { provider: 'bedrock', model: 'eu.anthropic.claude-sonnet-5-5', stream: true, outcome: 'answered' },
    ]);
    const params = { workspace_id: owner.workspaceId };
    const run = await client.getRun({ params: { ...params, run_id: answer.headers.get('x-run-id')! } });
    expect(run).toMatchObject({ llm_provider: 'anthropic', llm_model: 'claude-sonnet-5-5', cost_usd: null });

    const { schedule } = await client.createSchedule({
      params,
      body: { agent: 'prompt', cron_expression: '* * * * *' },
    });
    await target.fire(owner.workspaceId, schedule.id);
    expect(asked()).toHaveLength(3);
    for (const grant of [
      `calls bedrock:InvokeModel ${CALL}`,
      `calls bedrock:InvokeModel ${MODEL}`,
      `calls bedrock:InvokeModelWithResponseStream ${CALL}`,
      `calls bedrock:InvokeModelWithResponseStream ${MODEL}`,
      `schedule-fired bedrock:InvokeModel ${CALL}`,
    ]) {
      expect(target.gate.used).toContain(grant);
    }
  });

  test('a key of the workspace is used at Anthropic itself', async () => {
    const owner = await target.addUser('vm-keyed');
    const client = clientOf(target, owner.key);
    const params = { workspace_id: owner.workspaceId };
    await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
    const prompt = { type: 'prompt' as const, description: 'x', prompt: 'Answer with-a-key.' };
    await client.createAgent({ body: { ...prompt, name: 'prompt', supported_providers: ['anthropic'] } });
    expectOk(await request(target, 'POST', '/vm-keyed/prompt/v1/run', { key: owner.key, json: {} }));
    const [sent] = target.llm!.requests.filter(({ text }) => text.includes('with-a-key'));
    expect(sent).toMatchObject({ provider: 'anthropic', apiKey: 'sk-ant-made-up', model: 'claude-sonnet-5-5' });
  });
});

describe('secrets in envelopes', () => {
  test('reach programs, models and signatures, and leave with their last name', async () => {
    const owner = await target.addUser('vm-sealed');
    const client = clientOf(target, owner.key);
    const params = { workspace_id: owner.workspaceId };
    const value = 'made-up-value-in-an-envelope';
    await client.putSecret({ params, body: { name: 'TOKEN', value: 'first' } });
    await client.putSecret({ params, body: { name: 'TOKEN', value } });
    const command = `printf '{"length": %d}' "$(printf %s "$TOKEN" | wc -c)"`;
    await publishCode(client, 'vm-token', { 'main.sh': '' }, { runtime: { command }, required_secrets: ['TOKEN'] });
    const run = () => request(target, 'POST', '/vm-sealed/vm-token/v1/run', { key: owner.key, json: {} });
    expect(expectOk(await run()).data).toEqual({ length: value.length });

    const receiver = await startReceiver();
    onTestFinished(() => receiver.close());
    const { signing_secret } = await client.rotateSigningSecret({ params });
    const { destination } = await client.createDestination({ params, body: { url: `${receiver.url}/sealed` } });
    await client.testDestination({ params: { ...params, destination_id: destination.id } });
    const [sent] = receiver.at('/sealed');
    expect(() => new Webhook(signing_secret).verify(sent!.text, sent!.headers as Record<string, string>)).not.toThrow();

    const stored = await target.deps.main.get({ pk: `VAULT#${owner.workspaceId}`, sk: 'VALUES' });
    expect(stored).toMatchObject({ version: 2, sealed_key: expect.any(String), sealed: expect.any(String) });
    const signing = await target.deps.main.get({ pk: `VAULT#signing-${owner.workspaceId}`, sk: 'VALUES' });
    expect(signing).toMatchObject({ version: 1, sealed: expect.any(String) });
    expect(Buffer.from(stored!.sealed as string, 'base64url').includes(value)).toBe(false);
    await client.deleteSecret({ params: { ...params, name: 'TOKEN' } });
    expectError(await run(), 400, 'MISSING_SECRETS', 'TOKEN');
  });

  test('need no right on the secrets of workspaces in Secrets Manager, and no function asked for one', () => {
    const used = [...target.gate.used];
    expect(used.filter((grant) => grant.includes('secret:platform/'))).toEqual([]);
    expect(used.some((grant) => grant.startsWith('secrets kms:GenerateDataKey '))).toBe(true);
  });
});

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

afterAll(() => target.close());
