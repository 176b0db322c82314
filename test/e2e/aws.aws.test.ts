import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { alertOperation, newAlert } from '#core/alerts/delivery.ts';
import { streakOf } from '#core/alerts/failure-streak.ts';
import { RunStore } from '#core/runs/store.ts';
import { findAnySchedule } from '#core/schedules/store.ts';
import { startAwsTarget } from '#test/helpers/aws-platform.ts';
import { bundleForm, clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import { expectError, expectOk, ISO_TIME } from './expect.ts';
import { platformSuite } from './suite.ts';

const target = await startAwsTarget();
const client = clientOf(target);
const ECHO = { 'main.py': 'print("{}")' };

platformSuite(() => target, { python: false, node: false });

/** Until there is a compute stack, a call goes as far as the sandbox. */
describe.concurrent('on AWS', () => {
  test('a program is called, refused for want of a sandbox, and recorded', async () => {
    const { agent } = await publishCode(client, 'aws-call', ECHO, { required_secrets: ['AWS_CALL_TOKEN'] });
    const call = () =>
      request(target, 'POST', '/acme/aws-call/v1/run', { key: target.key, json: { text: 'x'.repeat(200_000) } });
    expectError(await call(), 400, 'MISSING_SECRETS', 'AWS_CALL_TOKEN');

    const { id } = expectOk(await request(target, 'GET', '/org', { key: target.key }));
    const secret = { name: 'AWS_CALL_TOKEN', value: 'v' };
    expectOk(await request(target, 'PUT', `/workspaces/${id}/secrets`, { key: target.key, json: secret }));
    const answer = await call();
    expectError(answer, 500, 'SANDBOX_ERROR', 'runs no programs');

    const [log] = expectOk(await request(target, 'GET', `/agents/${agent.id}/logs`, { key: target.key }));
    expect(log).toMatchObject({ id: answer.headers.get('x-run-id'), status: 'error' });
  });

  test('a program without code says so', async () => {
    await client.createAgent({
      body: { name: 'aws-empty', type: 'tool', description: 'has no code', required_secrets: [] },
    });
    const answer = await request(target, 'POST', '/acme/aws-empty/latest/run', { key: target.key, json: {} });
    expectError(answer, 422, 'UNPROCESSABLE', 'no code bundle');
  });

  test('a file comes through API Gateway as it is', async () => {
    const { agent } = await publishCode(client, 'aws-files', ECHO);
    const form = new FormData();
    form.set('file', new Blob([new Uint8Array([0, 255, 254, 13, 10, 128])]), 'bytes.bin');
    const answer = await request(target, 'POST', `/acme/${agent.name}/latest/run`, { key: target.key, body: form });
    expectError(answer, 500, 'SANDBOX_ERROR', 'runs no programs');
  });

  test('an installation fails with the reason', async () => {
    const files = { ...ECHO, 'requirements.txt': 'six==1.17.0\n' };
    const { upload } = await publishCode(client, 'aws-install', files);
    expect(upload).toMatchObject({
      environment_status: 'failed',
      environment_error: expect.stringMatching('runs no programs'),
    });
  });

  test('a large definition lies in the bucket', async () => {
    const prompt = 'p'.repeat(150_000);
    const body = {
      name: 'aws-large',
      type: 'prompt',
      description: 'large',
      is_public: true,
      allow_local_download: true,
      prompt,
    };
    const { agent } = await client.createAgent({ body });
    const params = { org: 'acme', agent: agent.name, version: 'v1' };
    expect(await client.downloadAgent({ params })).toMatchObject({ prompt });
    expectError(await request(target, 'GET', '/public/agents/acme/aws-large/v1/bundle'), 404, 'NOT_FOUND', 'no code');
    expectOk(await request(target, 'POST', '/acme/aws-large/v1/run', { key: target.key, json: {} }));
  });

  test('a body past the limits is refused, by the function or before it', async () => {
    const { agent } = await publishCode(client, 'aws-limits', ECHO);
    const upload = (megabytes: number) =>
      request(target, 'POST', `/agents/${agent.id}/upload`, {
        key: target.key,
        body: bundleForm(new Uint8Array(megabytes * 1024 ** 2)),
      });
    expectError(await upload(4.2), 413, 'DOCUMENT_TOO_LARGE', '4 MB');
    const { error } = (await upload(4.2)).body;
    expect(error.hint).toContain('POST /uploads');
    for (const megabytes of [5, 11]) {
      const { status, body } = await upload(megabytes);
      expect([status, body.error.code]).toEqual([413, 'DOCUMENT_TOO_LARGE']);
    }
  });

  test('a method that a path does not have is refused as on any host', async () => {
    const answer = await request(target, 'PUT', '/agents');
    expectError(answer, 405, 'METHOD_NOT_ALLOWED', 'GET, POST');
    expect(answer.headers.get('allow')).toBe('GET, POST');
  });

  test.each(['/', '/nothing', '/agents/x/y/z', '/a/b/c/d/e'])('there is nothing at %s', async (path) => {
    const { status, body } = await request(target, 'GET', path);
    expect([status, body.error.code]).toEqual([404, 'NOT_FOUND']);
    expect(body.metadata.request_id).toMatch(/^req_/);
  });
});

test('runs that lost their host are finished by the clock', async () => {
  const { id: workspaceId } = expectOk(await request(target, 'GET', '/org', { key: target.key }));
  const calls = async () => expectOk(await request(target, 'GET', '/usage', { key: target.key })).total_calls;
  const runs = new RunStore(target.deps, workspaceId);
  const before = await calls();
  const startedAt = Date.now() - 60_000;
  const lost = ['x', 'x'.repeat(200_000)].map((text) => ({
    id: crypto.randomUUID(),
    agentId: crypto.randomUUID(),
    agentWorkspaceId: workspaceId,
    agentOrg: 'acme',
    agentName: 'lost',
    agentVersion: 'v1',
    engine: 'direct_llm' as const,
    endpoint: 'run',
    triggerSource: 'api',
    startedAt,
    deadline: startedAt + 1000,
    input: { text },
  }));
  for (const run of lost) await runs.start(run);
  await target.tick('sweeper');
  for (const { id, input } of lost) {
    const run = expectOk(await request(target, 'GET', `/workspaces/${workspaceId}/runs/${id}`, { key: target.key }));
    expect(run).toMatchObject({
      status: 'failed',
      error_code: 'INTERNAL_ERROR',
      completed_at: expect.stringMatching(ISO_TIME),
      input_data: input,
    });
  }
  expect(await calls()).toBe(before + lost.length);
});

test('alerts whose process died are sent by the clock', async () => {
  const receiver = await startReceiver();
  onTestFinished(() => receiver.close());
  await client.createAgent({ body: { name: 'aws-alert', type: 'prompt', description: 'x', prompt: 'x' } });
  const { id: workspaceId } = expectOk(await request(target, 'GET', '/org', { key: target.key }));
  const { schedule } = await client.createSchedule({
    params: { workspace_id: workspaceId },
    body: { agent: 'acme/aws-alert', schedule_type: 'webhook', alert_webhook_url: `${receiver.url}/swept` },
  });
  const found = (await findAnySchedule(target.deps, schedule.id))!;
  const streak = streakOf(found, { autoDisabled: false, lastError: 'It broke.' });
  const alert = newAlert(target.deps, streak, found.alert_webhook_url!);
  const aWhileAgo = { ...target.deps.clock, now: () => Date.now() - 120_000 };
  await target.deps.main.transact([alertOperation({ clock: aWhileAgo }, alert)]);
  await target.tick('sweeper');
  expect(receiver.at('/swept')).toMatchObject([{ body: { schedule_id: schedule.id, last_error: 'It broke.' } }]);
  const params = { workspace_id: workspaceId, schedule_id: schedule.id };
  const { events } = await client.listScheduleEvents({ params, query: { limit: 1 } });
  expect(events).toMatchObject([{ event_type: 'alert_sent' }]);
});

test('no function needed what its policy does not allow', () => {
  expect([...target.refused]).toEqual([]);
});

test('no function may do what it never needs', () => {
  /** What is needed for reasons that no test here brings about. */
  const rare = [
    // Listing is never asked for: it makes S3 say that an object is not there.
    / s3:ListBucket /,
    // The time of a key's last use, which another function noted shortly before.
    /^(calls|catalog|downloads|runs|uploads|usage) dynamodb:UpdateItem .*-main$/,
    // Credits that a lost run held, given back when the balance is read.
    /^billing dynamodb:((Put|Update)Item .*-main|GetItem .*-runs)$/,
    // What agents do with the key of their run, which needs a sandbox.
    /^(catalog|downloads|storage|tasks|uploads) dynamodb:GetItem .*-runs$/,
  ];
  const idle = target.unused().filter((grant) => !rare.some((pattern) => pattern.test(grant)));
  expect(idle).toEqual([]);
});

afterAll(() => target.close());
