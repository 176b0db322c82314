import { randomUUID } from 'node:crypto';
import {
  CreateScheduleGroupCommand,
  GetScheduleCommand,
  ListSchedulesCommand,
  SchedulerClient,
} from '@aws-sdk/client-scheduler';
import { expect, inject, test } from 'vitest';
import type { Timer } from '#core/ports/timers.ts';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws.ts';
import { EventBridgeTimers } from './eventbridge-timers.ts';

const client = new SchedulerClient({ ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').moto });

async function newGroup(): Promise<string> {
  const group = `group-${randomUUID()}`;
  await client.send(new CreateScheduleGroupCommand({ Name: group }));
  return group;
}

async function newTimers({ group, role = 'timers' }: { group?: string; role?: string } = {}) {
  group ??= await newGroup();
  const timers = new EventBridgeTimers({
    client,
    group,
    queueArn: 'arn:aws:sqs:us-east-1:111122223333:fires',
    deadQueueArn: 'arn:aws:sqs:us-east-1:111122223333:fires-dead',
    roleArn: `arn:aws:iam::111122223333:role/${role}`,
  });
  const found = async () => {
    const { Schedules = [] } = await client.send(new ListSchedulesCommand({ GroupName: group }));
    const all = await Promise.all(
      Schedules.map(({ Name }) => client.send(new GetScheduleCommand({ GroupName: group, Name }))),
    );
    return all.sort((a, b) => (a.Name! < b.Name! ? -1 : 1));
  };
  const expressions = async () => (await found()).map(({ ScheduleExpression }) => ScheduleExpression).sort();
  return { timers, found, expressions };
}

const timer = (cronExpression: string, timezone = 'UTC'): Timer => ({
  workspaceId: randomUUID(),
  scheduleId: randomUUID(),
  cronExpression,
  timezone,
});

test('a timer sends to the queue what is due, on time or never', async () => {
  const { timers, found } = await newTimers();
  const each = timer('30 9 * * 1-5', 'Europe/Berlin');
  await timers.set(each);
  await timers.set(each);
  const schedules = await found();
  expect(schedules).toHaveLength(1);
  expect(schedules[0]).toMatchObject({
    Name: expect.stringMatching(new RegExp(`^${each.scheduleId}-[0-9a-f]{12}-dow$`)),
    ScheduleExpression: 'cron(30 9 ? * MON,TUE,WED,THU,FRI *)',
    ScheduleExpressionTimezone: 'Europe/Berlin',
    FlexibleTimeWindow: { Mode: 'OFF' },
    State: 'ENABLED',
    Target: {
      Arn: 'arn:aws:sqs:us-east-1:111122223333:fires',
      RoleArn: 'arn:aws:iam::111122223333:role/timers',
      RetryPolicy: { MaximumEventAgeInSeconds: 300 },
      DeadLetterConfig: { Arn: 'arn:aws:sqs:us-east-1:111122223333:fires-dead' },
    },
  });
  expect(JSON.parse(schedules[0]!.Target!.Input!)).toEqual({
    workspace_id: each.workspaceId,
    schedule_id: each.scheduleId,
    scheduled_time: '<aws.scheduler.scheduled-time>',
  });
  await timers.remove(each);
  await timers.remove(each);
  expect(await found()).toEqual([]);
});

test('either of two day fields makes two', async () => {
  const { timers, expressions } = await newTimers();
  const each = timer('0 0 13 * 5');
  await timers.set(each);
  expect(await expressions()).toEqual(['cron(0 0 13 * ? *)', 'cron(0 0 ? * FRI *)']);
  await timers.remove(each);
  expect(await expressions()).toEqual([]);
});

test('what is missing is set and what is left over removed', async () => {
  const { timers, expressions } = await newTimers();
  const [kept, left, missing] = [timer('1 * * * *'), timer('2 * * * *'), timer('3 * * * *')];
  await timers.set(kept);
  await timers.set(left);
  // The same schedule at another time; its former timers are obsolete, too.
  const changed = { ...kept, cronExpression: '4 * * * *' };
  async function* wanted() {
    yield* [kept, missing, changed];
  }
  const current = async () => undefined;
  expect(await timers.reconcile(wanted, current)).toEqual({ set: 2, removed: 1 });
  expect(await expressions()).toEqual(['cron(1 * * * ? *)', 'cron(3 * * * ? *)', 'cron(4 * * * ? *)']);
  expect(await timers.reconcile(wanted, current)).toEqual({ set: 0, removed: 0 });
});

test('a deployment that sends with another role replaces the timers of the one before', async () => {
  const group = await newGroup();
  const [before, after] = [await newTimers({ group }), await newTimers({ group, role: 'timers-eu-west-1' })];
  const each = timer('1 * * * *');
  await before.timers.set(each);
  async function* wanted() {
    yield each;
  }
  expect(await after.timers.reconcile(wanted, async () => each)).toEqual({ set: 1, removed: 1 });
  expect((await after.found()).map(({ Target }) => Target!.RoleArn)).toEqual([
    'arn:aws:iam::111122223333:role/timers-eu-west-1',
  ]);
});

test('what the list does not show yet is not removed', async () => {
  const { timers, expressions } = await newTimers();
  const [fresh, changed] = [timer('0 9 1 * 1'), timer('2 * * * *')];
  await timers.set(fresh);
  await timers.set(changed);
  async function* wanted() {}
  const now = [fresh, { ...changed, cronExpression: '3 * * * *' }];
  const current = async (id: string) => now.find(({ scheduleId }) => scheduleId === id);
  expect(await timers.reconcile(wanted, current)).toEqual({ set: 0, removed: 1 });
  expect(await expressions()).toHaveLength(2);
});
