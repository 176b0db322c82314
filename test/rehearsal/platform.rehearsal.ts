import { DeleteScheduleCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { CreateEmailIdentityCommand, SESv2Client } from '@aws-sdk/client-sesv2';
import { afterAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { admit } from '#core/accounts/limits/admission.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import { streakOf } from '#core/automation/alerts/failure-streak.ts';
import { newAlert } from '#core/automation/alerts/schedule-alerts.ts';
import { findAnySchedule, ScheduleStore } from '#core/automation/schedules/store.ts';
import { bundleKey } from '#core/manifest/version.ts';
import { deliveryOperation } from '#core/outbound/deliveries.ts';
import { firstTry } from '#core/runs/retries.ts';
import type { NewRun } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { expectError, expectOk, ISO_TIME } from '#test/e2e/expect.ts';
import { platformSuite } from '#test/e2e/suite.ts';
import { payOnPage } from '#test/helpers/payments.ts';
import { bundleForm, clientOf, publishCode, request } from '#test/helpers/platform.ts';
import { startReceiver } from '#test/helpers/receiver.ts';
import { comparable, countRequests, type Figures, figuresOf, readFigures } from './costs.ts';
import { startRehearsal } from './platform.ts';
import { neverNeeded } from './rights.ts';

/**
 * The stage in normal operation, with half of the suite; second-half.rehearsal.ts has the other half, and
 * faults.rehearsal.ts has the faults.
 */
const target = await startRehearsal(inject('awsEndpoints'));
const client = clientOf(target);
const { python, node } = target.interpreters;

platformSuite(() => target, { python: python !== undefined, node: node !== undefined }, 0);

describe.concurrent('API Gateway', () => {
  test('a body past the limits is refused, by the function or before it', async () => {
    const { agent } = await publishCode(client, 'aws-limits', { 'main.py': 'print("{}")' });
    const upload = (megabytes: number) =>
      request(target, 'POST', `/agents/${agent.id}/upload`, {
        key: target.key,
        body: bundleForm(new Uint8Array(megabytes * 1024 ** 2)),
      });
    const { hint } = expectError(await upload(4.2), 413, 'DOCUMENT_TOO_LARGE', '4 MB');
    expect(hint).toContain('POST /uploads');
    for (const megabytes of [5, 11]) {
      const { status, body } = await upload(megabytes);
      expect([status, body.error.code]).toEqual([413, 'DOCUMENT_TOO_LARGE']);
    }
  });

  test('a bundle of more than a buffered answer can hold is downloaded whole', async () => {
    const { agent } = await publishCode(client, 'aws-bundle', { 'main.py': 'print(1)' });
    const bytes = Buffer.alloc(7 * 1024 * 1024, 'zip');
    const { bundle } = (await findAnyVersion(target.deps, agent.id))!;
    await target.deps.blobs.put(bundleKey(bundle!), bytes);
    const headers = { authorization: `Bearer ${target.key}` };
    const response = await fetch(`${target.url}/agents/${agent.id}/bundle`, { headers });
    expect(response.headers.get('content-type')).toBe('application/zip');
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
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

test('a large definition lies in the bucket', async () => {
  const prompt = 'p'.repeat(150_000);
  const { agent } = await client.createAgent({
    body: {
      name: 'aws-large',
      type: 'prompt',
      description: 'large',
      is_public: true,
      allow_local_download: true,
      prompt,
    },
  });
  const params = { org: 'acme', agent: agent.name, version: 'v1' };
  expect(await client.downloadAgent({ params })).toMatchObject({ prompt });
  expectError(await request(target, 'GET', '/public/agents/acme/aws-large/v1/bundle'), 404, 'NOT_FOUND', 'no code');
  expectOk(await request(target, 'POST', '/acme/aws-large/v1/run', { key: target.key, json: {} }));
});

test('invitations are sent once the address that they come from is verified', async () => {
  const owner = await target.addUser('aws-mail');
  const invite = async (email: string) => {
    const json = { email };
    const path = `/workspaces/${owner.workspaceId}/invite`;
    return expectOk(await request(target, 'POST', path, { key: owner.key, json })).invite;
  };
  expect(await invite('ann@example.com')).toMatchObject({ email_sent: false });
  await new SESv2Client().send(new CreateEmailIdentityCommand({ EmailIdentity: target.sender }));
  expect(await invite('bob@example.com')).toMatchObject({ email_sent: true });
});

describe('the clock', () => {
  test('finishes runs that lost their host', async () => {
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
    const [leased, listed] = lost;
    const workspace = { id: workspaceId, slug: 'acme', name: 'acme', type: 'team', createdAt: '' } as const;
    const { id: runId, deadline } = leased!;
    await admit(target.deps, {
      workspace,
      kind: 'llm',
      isPaid: false,
      isCounted: true,
      runId,
      deadline: deadline - 30_000,
    });
    await runs.start(leased!, { hasLease: true });
    await runs.start(listed!);
    const retries = firstTry({ max: 1, backoff_seconds: [3600], on: ['INTERNAL_ERROR'] }, startedAt);
    const retried = { ...leased!, id: crypto.randomUUID(), retries };
    await runs.start(retried);
    await target.tick('sweeper');
    const path = `/workspaces/${workspaceId}/runs/${retried.id}`;
    expect(expectOk(await request(target, 'GET', path, { key: target.key }))).toMatchObject({
      status: 'queued',
      failed_attempts: [{ error_code: 'INTERNAL_ERROR' }],
    });
    expectOk(await request(target, 'DELETE', path, { key: target.key }));
    for (const { id, input } of lost) {
      const run = expectOk(await request(target, 'GET', `/workspaces/${workspaceId}/runs/${id}`, { key: target.key }));
      expect(run).toMatchObject({
        status: 'failed',
        error_code: 'INTERNAL_ERROR',
        completed_at: expect.stringMatching(ISO_TIME),
        input_data: input,
      });
    }
    expect(await calls()).toBe(before + lost.length + 1);
  });

  test('books payments that no event told of', async () => {
    const { stripe } = target;
    const { key } = await target.addUser('aws-lost-event');
    const { checkout_url: url } = await clientOf(target, key).createCheckout({ body: { amount_cents: 700 } });
    stripe.holdEvents();
    onTestFinished(() => stripe.deliverTo(`${target.url}/webhooks/stripe`));
    await payOnPage(url);
    // A lost event makes the function fail, which raises its alarm.
    await expect(target.tick('reconciler')).rejects.toThrow();
    expect(expectOk(await request(target, 'GET', '/billing/balance', { key }))).toMatchObject({ balance_cents: 700 });
    await target.tick('reconciler');
  });

  test('sends alerts whose process died', async () => {
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
    const alert = newAlert(target.deps, streak, found.alertWebhookUrl!);
    const aWhileAgo = { ...target.deps.clock, now: () => Date.now() - 120_000 };
    await target.deps.main.transact([deliveryOperation({ clock: aWhileAgo }, alert)]);
    await target.tick('sweeper');
    expect(receiver.at('/swept')).toMatchObject([{ body: { schedule_id: schedule.id, last_error: 'It broke.' } }]);
    const params = { workspace_id: workspaceId, schedule_id: schedule.id };
    const { events } = await client.listScheduleEvents({ params, query: { limit: 1 } });
    expect(events).toMatchObject([{ event_type: 'alert_sent' }]);
  });

  test('announces the end of a run whose host died', async () => {
    const receiver = await startReceiver();
    onTestFinished(() => receiver.close());
    const owner = await target.addUser('aws-announced');
    const params = { workspace_id: owner.workspaceId };
    const url = `${receiver.url}/lost`;
    const { destination } = await clientOf(target, owner.key).createDestination({ params, body: { url } });
    const run: NewRun = {
      id: crypto.randomUUID(),
      agentId: crypto.randomUUID(),
      agentWorkspaceId: owner.workspaceId,
      agentOrg: 'aws-announced',
      agentName: 'lost',
      agentVersion: 'v1',
      engine: 'direct_llm',
      endpoint: 'run',
      triggerSource: 'api',
      startedAt: Date.now() - 300_000,
      deadline: Date.now() - 120_000,
      isAnnounced: true,
      webhookUrl: `${receiver.url}/call`,
      input: {},
    };
    await new RunStore(target.deps, owner.workspaceId).start(run);
    await target.tick('sweeper');
    // The note of the end is left to the process that wrote it for 15 seconds.
    await vi.waitFor(
      async () => {
        await target.tick('sweeper');
        expect(receiver.at('/lost')).toHaveLength(1);
      },
      { timeout: 40_000, interval: 3000 },
    );
    for (const path of ['/lost', '/call']) {
      expect(receiver.at(path)).toMatchObject([{ body: { type: 'run.failed', data: { run_id: run.id } } }]);
    }
    const { deliveries } = await clientOf(target, owner.key).listDestinationLog({
      params: { ...params, destination_id: destination.id },
      query: {},
    });
    expect(deliveries).toMatchObject([{ run_id: run.id, status: 'delivered' }]);
  });

  test('runs schedules of large prompts and of programs, however it is woken', async () => {
    const owner = await target.addUser('aws-kinds');
    const own = clientOf(target, owner.key);
    const params = { workspace_id: owner.workspaceId };
    await own.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
    const prompt = `[[llm {"echo": true}]] ${'p'.repeat(150_000)}`;
    const body = {
      name: 'large',
      type: 'prompt' as const,
      description: 'x',
      prompt,
      supported_providers: ['anthropic'],
    };
    await own.createAgent({ body });
    await publishCode(own, 'program', { 'main.py': 'print("{}")' });
    const create = async (agent: string) => {
      return (await own.createSchedule({ params, body: { agent, cron_expression: '* * * * *' } })).schedule;
    };
    const store = new ScheduleStore(target.deps, owner.workspaceId);
    const overdue = new Date(Math.floor(Date.now() / 60_000 - 3) * 60_000).toISOString();
    for (const agent of ['large', 'program']) {
      const { id } = await create(agent);
      await target.fire(owner.workspaceId, id);
      await store.change(id, () => ({ set: { nextRunAt: overdue } }));
      await target.tick('schedule-sweeper');
      const { runs } = await own.listScheduleRuns({ params: { ...params, schedule_id: id }, query: {} });
      expect(
        runs.map(({ status }) => status),
        agent,
      ).toEqual(['completed', 'completed']);
      await own.deleteSchedule({ params: { ...params, schedule_id: id } });
    }
  });

  test('runs schedules that no timer woke, once, and repairs timers', async () => {
    const owner = await target.addUser('aws-schedules');
    const own = clientOf(target, owner.key);
    const params = { workspace_id: owner.workspaceId };
    await own.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' } });
    const prompt = { type: 'prompt' as const, description: 'x', prompt: 'x', supported_providers: ['anthropic'] };
    await own.createAgent({ body: { name: 'overdue', ...prompt } });
    const { schedule } = await own.createSchedule({ params, body: { agent: 'overdue', cron_expression: '* * * * *' } });
    const store = new ScheduleStore(target.deps, owner.workspaceId);
    const overdue = new Date(Math.floor(Date.now() / 60_000 - 3) * 60_000).toISOString();
    await store.change(schedule.id, () => ({ set: { nextRunAt: overdue } }));
    await target.tick('schedule-sweeper');
    await target.tick('schedule-sweeper');
    const of = { ...params, schedule_id: schedule.id };
    const { runs } = await own.listScheduleRuns({ params: of, query: {} });
    expect(runs).toMatchObject([{ status: 'completed', trigger_source: 'schedule' }]);
    const { events } = await own.listScheduleEvents({ params: of, query: {} });
    expect(events[0]).toMatchObject({ event_type: 'missed' });

    const timers = () => target.scheduler.names(target.timerGroup, schedule.id);
    const [name] = await timers();
    await new SchedulerClient().send(new DeleteScheduleCommand({ GroupName: target.timerGroup, Name: name }));
    expect(await timers()).toEqual([]);
    await target.tick('timer-sweeper');
    expect(await timers()).toEqual([name]);
    // The timer of this schedule could not be removed.
    await store.change(schedule.id, () => ({ set: { enabled: false, next_run_at: null } }));
    await target.tick('timer-sweeper');
    expect(await timers()).toEqual([]);
  });
});

test('what a deleted agent leaves is removed for good, and its workspace recounted', async () => {
  const { main, blobs } = target.deps;
  const { agent } = await publishCode(client, 'aws-leaves', { 'main.py': 'print(1)' });
  const { workspaceId, bundle } = (await findAnyVersion(target.deps, agent.id))!;
  await client.deleteAgent({ params: { id: agent.id } });
  const use = { pk: `WS#${workspaceId}#RESOURCES`, sk: 'AGENTS' };
  const { versions } = (await main.get(use))!;
  const longAgo = '2020-01-01T00:00:00.000Z';
  await main.update({ pk: `WS#${workspaceId}#DELETED`, sk: agent.id }, { set: { gsi2sk: longAgo } });
  await target.tick('collector');
  await target.tick('collector');
  expect(await blobs.size(bundleKey(bundle!))).toBeUndefined();
  expect((await main.get(use))!.versions).toBe((versions as number) - 1);
  await main.update(use, { add: { versions: 5 }, set: { gsi2sk: longAgo, changed_at: 0 } });
  await target.tick('collector');
  expect((await main.get(use))!.versions).toBe((versions as number) - 1);
});

// This test cannot be retried, because its workspace would already exist.
test('no kind of request costs a tenth more than what is committed', { retry: 0 }, async () => {
  const committed = readFigures();
  // What earlier tests began would be counted: services that change, and sandboxes that start.
  target.chaos.holdsServiceClock = true;
  const changing = () => target.ecs.tasks.filter(({ lastStatus, desiredStatus }) => lastStatus !== desiredStatus);
  await vi.waitFor(() => expect(changing()).toEqual([]), { timeout: 60_000 });
  await target.lambda.settled();
  const counted = comparable(await countRequests(target, { withTasks: false }));
  expect(counted.map(({ what }) => what)).toEqual(Object.keys(committed));
  // After an intended change of costs, `npm run costs` rewrites the file and the page.
  const grown = counted.flatMap((each) =>
    Object.entries(figuresOf(each)).flatMap(([name, figure]) => {
      const before = committed[each.what]![name as keyof Figures];
      const called = each.invocations.map(({ fn }) => fn).join(', ');
      return figure > before * 1.1 ? [`${each.what}: ${name} was ${before} and is ${figure}, in ${called}`] : [];
    }),
  );
  expect(grown).toEqual([]);
  const { invocations, readUnits, writeUnits, others } = counted.find(({ what }) => what === 'prompt call')!;
  expect(invocations).toHaveLength(1);
  expect(writeUnits).toBeGreaterThan(0);
  expect(writeUnits).toBeLessThanOrEqual(5);
  expect(readUnits).toBeGreaterThan(0);
  // Reads are the key, the version, and the stamp of the cached secrets.
  expect(readUnits).toBeLessThanOrEqual(3);
  // Secrets are cached for a minute.
  expect(others).toEqual([]);
});

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

test('no function may do what it never needs', () => {
  expect(neverNeeded('platform', target)).toEqual([]);
});

afterAll(() => target.close());
