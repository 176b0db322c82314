import { expect, onTestFinished, test } from 'vitest';
import { request } from '#test/helpers/platform.ts';
import { dataFolder, kill, startProcess, startWithGreeter } from '#test/helpers/platform-process.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import { expectError, expectOk } from './expect.ts';

test('after kill -9 usage equals the records of runs, and a call with an Idempotency-Key runs once more', async () => {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());

  const { platform: first, key, workspaceId } = await startWithGreeter(folder, llm.settings);
  const call = (url: string, json: unknown, headers: Record<string, string> = {}) =>
    request({ url }, 'POST', '/main/greet/v1/run', { key, json, headers: { 'x-platform-tenant': 'eu', ...headers } });
  const hanging = { text: 'will be lost' };
  const keyed = { text: 'will be lost, with a key' };
  llm.script({ rules: [{ marker: hanging.text, turns: [{ hang: true }] }] });
  const asked = () => llm.requests.filter(({ text }) => text.includes(hanging.text)).length;

  await Promise.all(Array.from({ length: 8 }, () => call(first.url, { text: 'quick' })));
  const lost = [
    ...Array.from({ length: 5 }, () => call(first.url, hanging)),
    call(first.url, keyed, { 'idempotency-key': 'once' }),
  ];
  for (const each of lost) each.catch(() => {});
  await expect.poll(asked).toBe(6);
  // Some of these calls have run but are not recorded yet when the process dies.
  const racing = Array.from({ length: 20 }, () => call(first.url, { text: 'racing' }));
  for (const each of racing) each.catch(() => {});
  await racing[3];
  await kill(first.child);

  const second = await startProcess(folder, llm.settings);
  const get = async (path: string) => expectOk(await request(second, 'GET', path, { key }));
  const { logs, total } = await get('/usage/logs?limit=200');
  const failed = logs.filter(({ status }: { status: string }) => status === 'failed');
  expect(failed.length).toBeGreaterThanOrEqual(6);
  expect(logs).toHaveLength(total);
  expect(total).toBeGreaterThanOrEqual(8 + 6);
  const { runs } = await get(`/workspaces/${workspaceId}/runs?limit=200`);
  expect(runs.map(({ id }: { id: string }) => id).sort()).toEqual(
    logs.map(({ run_id }: { run_id: string }) => run_id).sort(),
  );
  for (const path of ['/usage', '/usage?tenant_id=eu']) {
    expect(await get(path)).toMatchObject({ total_calls: total, total_errors: failed.length });
  }
  expect((await get('/usage/tenants')).tenants).toMatchObject([{ calls: total, errors: failed.length }]);

  llm.reset();
  const again = await Promise.all(
    Array.from({ length: 5 }, () => call(second.url, keyed, { 'idempotency-key': 'once' })),
  );
  expect(again.map(({ status }) => status)).toEqual(Array(5).fill(200));
  expect(new Set(again.map(({ headers }) => headers.get('x-run-id'))).size).toBe(1);
  expect((await get('/usage')).total_calls).toBe(total + 1);
});

test('after kill -9 an interrupted delivery is answered as failed, never run again, and reported', async () => {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const receiver = await startReceiver();
  onTestFinished(() => receiver.close());
  const settings = { ...llm.settings, PLATFORM_OUTBOUND_HOSTS: '127.0.0.1' };

  const { platform: first, key, workspaceId } = await startWithGreeter(folder, settings);
  const json = {
    agent: 'main/greet',
    schedule_type: 'webhook',
    alert_webhook_url: `${receiver.url}/alerts`,
    alert_on_failure_count: 1,
  };
  const schedules = `/workspaces/${workspaceId}/schedules`;
  const { id, webhook_url } = expectOk(await request(first, 'POST', schedules, { key, json }), 201).schedule;
  const deliver = (url: string) =>
    request({ url }, 'POST', new URL(webhook_url).pathname, {
      json: { text: 'will be lost' },
      headers: { 'idempotency-key': 'evt-1' },
    });
  const asked = () => llm.requests.filter(({ text }) => text.includes('will be lost')).length;
  llm.script({ rules: [{ marker: 'will be lost', turns: [{ hang: true }] }] });
  const lost = [deliver(first.url), deliver(first.url)];
  for (const each of lost) each.catch(() => {});
  await expect.poll(asked).toBe(1);
  await kill(first.child);

  const second = await startProcess(folder, settings);
  llm.script({ rules: [] });
  const again = await Promise.all([deliver(second.url), deliver(second.url)]);
  const { runs } = expectOk(await request(second, 'GET', `${schedules}/${id}/runs`, { key }));
  expect(runs).toMatchObject([{ status: 'failed', trigger_source: 'webhook' }]);
  for (const answer of again) {
    expect(expectOk(answer)).toEqual({
      run_id: runs[0].id,
      status: 'error',
      duration_ms: expect.any(Number),
      output: null,
      error: 'The platform stopped while this run was in progress.',
      deduplicated: true,
    });
  }
  expect(asked()).toBe(1);
  await expect.poll(() => receiver.at('/alerts').length).toBe(1);
  expect(receiver.at('/alerts')[0]!.body).toMatchObject({ schedule_id: id, consecutive_failures: 1 });
  const { schedule } = expectOk(await request(second, 'GET', `${schedules}/${id}`, { key }));
  expect(schedule).toMatchObject({ run_count: 1, consecutive_failures: 1, last_run_status: 'failed' });
});

test('after kill -9 interrupted calls do not count as concurrent calls', async () => {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const plans = JSON.stringify({ enterprise: { concurrent_calls: 2 } });
  const settings = { ...llm.settings, PLATFORM_PLANS: plans };
  const { platform: first, key } = await startWithGreeter(folder, settings);
  const call = (url: string, text: string) => request({ url }, 'POST', '/main/greet/v1/run', { key, json: { text } });
  llm.script({ rules: [{ marker: 'will be lost', turns: [{ hang: true }] }] });
  for (let n = 0; n < 2; n++) call(first.url, 'will be lost').catch(() => {});
  await expect.poll(() => llm.requests.length).toBe(2);
  expect((await call(first.url, 'too many')).status).toBe(429);
  await kill(first.child);

  const second = await startProcess(folder, settings);
  const after = await Promise.all([call(second.url, 'quick'), call(second.url, 'quick')]);
  expect(after.map(({ status }) => status)).toEqual([200, 200]);
});

test('after kill -9 a run of several turns keeps its tokens, cost and trace, and budgets count it', async () => {
  const folder = dataFolder();
  const llm = await startScriptedLlm();
  onTestFinished(() => llm.close());
  const { platform: first, key, workspaceId } = await startWithGreeter(folder, llm.settings);
  const usage = { input: 1_000_000, output: 0 };
  const turns = [{ toolCalls: [{ name: 'bash', input: { command: 'sleep 3' } }], usage }, { hang: true }];
  const agent = {
    name: 'worker',
    type: 'agent',
    description: 'x',
    prompt: 'Work.',
    required_secrets: [],
    supported_providers: ['anthropic'],
  };
  expectOk(await request(first, 'POST', '/agents', { key, json: agent }), 201);
  const budget = {
    scope_type: 'workspace',
    window: 'monthly',
    hard_limit_usd: 1,
    action_on_hard_limit: 'block_new_runs',
  };
  expectOk(await request(first, 'POST', `/workspaces/${workspaceId}/budgets`, { key, json: budget }), 201);
  llm.script({ rules: [{ marker: 'will be lost', turns }] });
  const call = (url: string) =>
    request({ url }, 'POST', '/main/worker/v1/run', { key, json: { text: 'will be lost' } });
  call(first.url).catch(() => {});
  await expect.poll(() => llm.requests.length, { timeout: 30_000 }).toBe(2);
  await kill(first.child);

  const second = await startProcess(folder, llm.settings);
  const get = async (path: string) => expectOk(await request(second, 'GET', path, { key }));
  const [{ id }] = (await get(`/workspaces/${workspaceId}/runs`)).runs;
  const run = await get(`/workspaces/${workspaceId}/runs/${id}`);
  expect(run).toMatchObject({ status: 'failed', error_code: 'INTERNAL_ERROR', input_tokens: 1_000_000 });
  expect(run.cost_usd).toBeGreaterThan(1);
  const { events } = await get(`/workspaces/${workspaceId}/traces/${id}/events`);
  const steps = events.map(({ event_type }: { event_type: string }) => event_type);
  expect(steps).toEqual(expect.arrayContaining(['llm_call_succeeded', 'tool_call_started']));
  expectError(await call(second.url), 429, 'BUDGET_EXCEEDED');
});
