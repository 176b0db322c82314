import { afterAll, describe, expect, inject, test } from 'vitest';
import { expectOk } from '#test/e2e/expect.ts';
import { clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { startRehearsal } from './platform.ts';

/**
 * The first stage of docs/first-account.md, without sandboxes and services.
 */
const target = await startRehearsal(inject('awsEndpoints'), { sandbox: 'none' });
const client = clientOf(target);

describe('a stage without sandboxes and services', () => {
  test('calls prompts, streams them, and runs their schedules', async () => {
    expectOk(await request(target, 'GET', '/health'));
    const { id: workspace_id } = expectOk(await request(target, 'GET', '/org', { key: target.key }));
    const params = { workspace_id };
    await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
    const agent = {
      name: 'bare',
      type: 'prompt' as const,
      description: 'x',
      prompt: 'x',
      supported_providers: ['anthropic'],
    };
    await client.createAgent({ body: agent });
    expectOk(await request(target, 'POST', '/acme/bare/latest/run', { key: target.key, json: {} }));
    const stream = await fetch(`${target.url}/acme/bare/latest/run`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${target.key}`,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
      body: '{}',
    });
    expect(await stream.text()).toContain('event: ');
    const { schedule } = await client.createSchedule({ params, body: { agent: 'bare', cron_expression: '* * * * *' } });
    await target.fire(workspace_id, schedule.id);
    const { runs } = await client.listScheduleRuns({ params: { ...params, schedule_id: schedule.id }, query: {} });
    expect(runs).toMatchObject([{ status: 'completed', trigger_source: 'schedule' }]);
  });

  test('says that programs have no sandbox here', async () => {
    await publishCode(client, 'bare-program', { 'main.py': 'print("{}")' });
    const answer = await request(target, 'POST', '/acme/bare-program/latest/run', { key: target.key, json: {} });
    expect([answer.status, answer.body.error.code]).toEqual([expect.any(Number), 'SANDBOX_ERROR']);
  });
});

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

afterAll(() => target.close());
