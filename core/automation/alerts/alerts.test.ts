import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { deliveryListeners } from '#core/api/listeners.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import { countEndedRun } from '../schedules/runs/ended-runs.ts';
import { type OpenScheduleRun, openRunOperation } from '../schedules/runs/open-runs.ts';
import type { Schedule } from '../schedules/schedule.ts';
import { ScheduleStore } from '../schedules/store.ts';

const WORKSPACE = '11111111-1111-4111-8111-111111111111';
const MINUTE_MS = 60_000;

let receiver: Receiver;
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.close());

async function setUp(changes: Partial<Schedule> = {}) {
  const work: Promise<void>[] = [];
  const deps: MemoryDeps = {
    ...memoryDeps({ outboundHosts: ['127.0.0.1'] }),
    background: (each) => {
      work.push(each);
      return each;
    },
  };
  const schedules = new ScheduleStore(deps, WORKSPACE);
  const schedule: Schedule = {
    id: deps.ids.uuid(),
    workspaceId: WORKSPACE,
    agentId: deps.ids.uuid(),
    agentWorkspaceId: WORKSPACE,
    agentOrg: 'acme',
    agentName: 'triage',
    agentVersion: 'v1',
    type: 'webhook',
    cronExpression: null,
    timezone: 'UTC',
    input: {},
    llmProvider: null,
    enabled: true,
    autoUpdate: true,
    overlap: 'allow',
    webhookSecretHash: null,
    webhookSecretPreview: null,
    alertWebhookUrl: `${receiver.url}/ok`,
    alertOnFailureCount: 3,
    maxConsecutiveFailures: 5,
    consecutiveFailures: 0,
    autoDisabledAt: null,
    nextRunAt: null,
    lastRunAt: null,
    lastRunId: null,
    lastRunStatus: null,
    runCount: 0,
    lackedGrants: null,
    createdBy: deps.ids.uuid(),
    createdAt: new Date(deps.clock.now()).toISOString(),
    updatedAt: new Date(deps.clock.now()).toISOString(),
    deletedAt: null,
    ...changes,
  };
  await schedules.create(schedule, 10);
  const begin = async (): Promise<OpenScheduleRun> => {
    const run = {
      scheduleId: schedule.id,
      workspaceId: WORKSPACE,
      runId: deps.ids.uuid(),
      source: 'webhook',
    } as const;
    await deps.main.transact([openRunOperation(run, deps.clock.now())]);
    return run;
  };
  const count = async (run: OpenScheduleRun, status: 'failed' | 'completed' | 'timeout' | 'cancelled' = 'failed') =>
    countEndedRun(deps, run, { status, errorCode: null, errorMessage: status === 'completed' ? null : 'It broke.' });
  const fail = async (times = 1) => {
    for (let n = 0; n < times; n++) await count(await begin());
    await Promise.all(work);
  };
  const timeline = async () =>
    (await schedules.listEvents(schedule.id, { limit: 50, offset: 0 }))
      .filter(({ type }) => type.startsWith('alert'))
      .map(({ type, message }) => [type, message]);
  const change = (set: Partial<Schedule>) => schedules.change(schedule.id, () => ({ set }));
  return { deps, schedules, schedule, begin, count, fail, timeline, change, settled: () => Promise.all(work) };
}

describe('a failure', () => {
  test('is reported when it reaches the count, and when it disables the schedule', async () => {
    const { schedule, fail, timeline } = await setUp();
    await fail(2);
    expect(receiver.at('/')).toEqual([]);
    await fail();
    const body = {
      event: 'schedule.failure_streak',
      schedule_id: schedule.id,
      workspace_id: WORKSPACE,
      agent_name: 'triage',
      consecutive_failures: 3,
      threshold: 5,
      auto_disabled: false,
      last_error: 'It broke.',
    };
    expect(receiver.at('/ok').map((each) => each.body)).toEqual([body]);
    await fail(2);
    expect(
      receiver
        .at('/ok')
        .slice(1)
        .map((each) => each.body),
    ).toEqual([{ ...body, consecutive_failures: 5, auto_disabled: true }]);
    // A disabled schedule can still be triggered.
    await fail(3);
    expect(receiver.at('/ok')).toHaveLength(2);
    expect(await timeline()).toEqual([
      ['alert_sent', 'Alert sent.'],
      ['alert_sent', 'Alert sent.'],
    ]);
  });

  test('is reported again after a success', async () => {
    const { fail, begin, count } = await setUp({ alertOnFailureCount: 1 });
    await fail(2);
    await count(await begin(), 'completed');
    await fail(2);
    expect(receiver.at('/ok').map(({ body }) => body.consecutive_failures)).toEqual([1, 1]);
  });

  test('is also a timeout, but not a cancelled run', async () => {
    const { settled, begin, count } = await setUp({ alertOnFailureCount: 1 });
    await count(await begin(), 'cancelled');
    await settled();
    expect(receiver.at('/')).toEqual([]);
    await count(await begin(), 'timeout');
    await settled();
    expect(receiver.at('/ok')).toHaveLength(1);
  });

  test('that is counted twice is reported once', async () => {
    const { settled, begin, count } = await setUp({ alertOnFailureCount: 1 });
    const run = await begin();
    await Promise.all([count(run), count(run), count(run)]);
    await settled();
    expect(receiver.at('/ok')).toHaveLength(1);
  });

  test.each([
    ['has no address', { alertWebhookUrl: null }],
    ['was deleted', { deletedAt: '2035-06-01T12:00:00.000Z' }],
  ])('of a schedule that %s is not reported', async (_, changes) => {
    const { fail } = await setUp({ ...changes, alertOnFailureCount: 1 });
    await fail(5);
    expect(receiver.at('/')).toEqual([]);
  });

  test('with a long error is cut', async () => {
    const { deps, begin, settled } = await setUp({ alertOnFailureCount: 1 });
    await countEndedRun(deps, await begin(), { status: 'failed', errorCode: null, errorMessage: 'x'.repeat(100_000) });
    await settled();
    expect(receiver.at('/ok')[0]!.body.last_error).toHaveLength(2000);
  });
});

describe('an alert', () => {
  test('that the receiver refuses is retried after one minute and again after five, with the same id', async () => {
    const { deps, fail, timeline, change } = await setUp();
    await change({ alertWebhookUrl: `${receiver.url}/503/down`, alertOnFailureCount: 1 });
    await fail();
    const tries = async (afterMs: number) => {
      await deps.clock.advance(afterMs);
      await sweepDeliveries(deps, deliveryListeners(deps));
      return receiver.at('/503').length;
    };
    expect(await tries(0)).toBe(1);
    expect(await tries(MINUTE_MS - 1)).toBe(1);
    expect(await tries(2)).toBe(2);
    expect(await tries(5 * MINUTE_MS - 2)).toBe(2);
    expect(await timeline()).toEqual([]);
    expect(await tries(3)).toBe(3);
    expect(await tries(60 * MINUTE_MS)).toBe(3);
    expect(await timeline()).toEqual([['alert_failed', 'Alert not sent, after 3 tries: it answered 503.']]);
    const ids = receiver.at('/503').map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).toBe(1);
    const times = receiver.at('/503').map(({ headers }) => Number(headers['webhook-timestamp']));
    expect(times[2]! - times[0]!).toBe(360);
  });

  test('that arrives at the second try is recorded as sent', async () => {
    const { deps, fail, timeline, change } = await setUp();
    // An alert is sent to the URL that the schedule had when the alert became due.
    await change({ alertWebhookUrl: `${receiver.url}/500/then-200`, alertOnFailureCount: 1 });
    await fail();
    const [item] = (await deps.main.query({ index: 'gsi2', pk: await partitionOf(deps), limit: 10 })).items;
    await deps.main.update({ pk: item!.pk, sk: item!.sk }, { set: { url: `${receiver.url}/ok` } });
    await deps.clock.advance(MINUTE_MS + 1);
    await sweepDeliveries(deps, deliveryListeners(deps));
    expect(receiver.at('/ok')).toHaveLength(1);
    expect(await timeline()).toEqual([['alert_sent', 'Alert sent.']]);
    expect(await partitionOf(deps)).toBeUndefined();
  });

  test('to a forbidden address is not retried', async () => {
    const { deps, fail, timeline } = await setUp({
      alertWebhookUrl: 'https://169.254.169.254/latest',
      alertOnFailureCount: 1,
    });
    await fail();
    expect(await timeline()).toEqual([
      [
        'alert_failed',
        'Alert not sent, after one try: address: 169.254.169.254 is not an address of the public internet.',
      ],
    ]);
    expect(await partitionOf(deps)).toBeUndefined();
  });

  test('whose process died before the first try is sent by one of several concurrent sweeps', async () => {
    const { deps, begin, timeline } = await setUp({ alertOnFailureCount: 1 });
    const dead = { ...deps, background: async () => {}, outbound: { post: () => new Promise<never>(() => {}) } };
    await countEndedRun(dead, await begin(), { status: 'failed', errorCode: null, errorMessage: 'It broke.' });
    await sweepDeliveries(deps, deliveryListeners(deps));
    expect(receiver.at('/')).toEqual([]);
    await deps.clock.advance(30_001);
    await Promise.all([
      sweepDeliveries(deps, deliveryListeners(deps)),
      sweepDeliveries(deps, deliveryListeners(deps)),
      sweepDeliveries(deps, deliveryListeners(deps)),
    ]);
    expect(receiver.at('/ok')).toHaveLength(1);
    expect(await timeline()).toEqual([['alert_sent', 'Alert sent.']]);
  });

  test('whose process dies in each try is given up after the last try', async () => {
    const { deps, begin, timeline } = await setUp({ alertOnFailureCount: 1 });
    const dead = { ...deps, outbound: { post: () => Promise.reject(new Error('killed')) } };
    await countEndedRun(dead, await begin(), { status: 'failed', errorCode: null, errorMessage: 'It broke.' });
    for (let minute = 0; minute < 10; minute++) {
      await deps.clock.advance(MINUTE_MS);
      await sweepDeliveries(dead, deliveryListeners(dead));
    }
    expect(await timeline()).toEqual([
      ['alert_failed', 'Alert not sent, after 3 tries: the platform stopped during its last attempt.'],
    ]);
  });

  test('does not show in logs', async () => {
    const { deps, fail } = await setUp({
      alertWebhookUrl: `${receiver.url}/500/T0/hunter2`,
      alertOnFailureCount: 1,
    });
    await fail();
    expect(JSON.stringify(deps.lines)).not.toContain('hunter2');
  });
});

/** Returns the index partition of an alert that is being delivered. */
async function partitionOf({ main }: MemoryDeps): Promise<string> {
  for (const digit of '0123456789abcdef') {
    const pk = `DELIVERIES#${digit}`;
    if ((await main.query({ index: 'gsi2', pk })).items.length > 0) return pk;
  }
  return undefined as unknown as string;
}
