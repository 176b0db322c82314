import type { Service, Task } from '@aws-sdk/client-ecs';
import { describe, expect, test } from 'vitest';
import { endOf, failureOf, instanceOf } from './ecs-reports.ts';
import { ecsTags, orderTagsOf } from './tags.ts';

const tags = ecsTags(
  orderTagsOf('dev', 'form', {
    ...{ id: 'service', workspaceId: 'workspace', label: 'bot-123456', revision: 3, token: 'made-up' },
    ...{ minInstances: 1, maxInstances: 1, overlap: true },
    limits: { memoryBytes: 1, diskBytes: 1, fileBytes: 1, processes: 1 },
  }),
);
const task = (change: Partial<Task> = {}): Task => ({
  taskArn: 'arn:aws:ecs:us-east-1:111122223333:task/services/0123456789abcdef0123456789abcdef',
  lastStatus: 'STOPPED',
  startedAt: new Date(1_000_000),
  stoppedAt: new Date(1_060_000),
  stopCode: 'EssentialContainerExited',
  stoppedReason: 'Essential container in task exited',
  tags,
  ...change,
});

describe('ends of tasks', () => {
  const end = {
    type: 'ended',
    serviceId: 'service',
    instanceId: '0123456789abcdef0123456789abcdef',
    revision: 3,
    startedAt: 1_000_000,
    at: 1_060_000,
  };

  test.each([
    'ServiceSchedulerInitiated',
    'UserInitiated',
    'SpotInterruption',
    'TerminationNotice',
    'InfrastructureHealth',
  ] as const)('%s is no failure', (stopCode) => {
    expect(endOf(task({ stopCode }))).toEqual({ ...end, reason: 'stopped', message: 'Stopped.' });
  });

  test.each(['EssentialContainerExited', 'TaskFailedToStart'] as const)('%s is one', (stopCode) => {
    const containers = [{ exitCode: 137, reason: 'OutOfMemoryError: Container killed due to memory usage' }];
    expect(endOf(task({ stopCode, containers }))).toEqual({
      ...end,
      reason: 'crashed',
      message:
        'Essential container in task exited. Exit code 137. OutOfMemoryError: Container killed due to memory usage. It used more memory than an instance has (`services.memoryMb` in the stage file).',
    });
  });

  test('a runner that ends with 0 was told to, such as by an answer that refused its token', () => {
    expect(endOf(task({ containers: [{ exitCode: 0 }] }))).toMatchObject({ reason: 'stopped', message: 'Stopped.' });
  });

  test('one that never started has run for no time, and its message names no account', () => {
    const stoppedReason =
      'CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref 111122223333.dkr.ecr.us-east-1.amazonaws.com/runner:1: not found';
    expect(endOf(task({ startedAt: undefined, stopCode: 'TaskFailedToStart', stoppedReason }))).toEqual({
      ...end,
      startedAt: 1_060_000,
      reason: 'crashed',
      message: expect.stringMatching(/^CannotPullContainerError: (?!.*111122223333).*must deploy the stage again\.$/),
    });
  });

  test('a task that has not ended yet, or is of somebody else, has none', () => {
    expect(endOf(task({ lastStatus: 'DEPROVISIONING' }))).toBeUndefined();
    expect(endOf(task({ tags: [{ key: 'platform:stage', value: 'dev' }] }))).toBeUndefined();
    expect(instanceOf(task())).toBeUndefined();
    expect(instanceOf(task({ tags: [], lastStatus: 'RUNNING' }))).toBeUndefined();
    expect(instanceOf(task({ lastStatus: 'PENDING', startedAt: undefined }))).toMatchObject({ startedAt: null });
  });
});

describe('failures of what was ordered', () => {
  const service = (
    deployment: NonNullable<Service['deployments']>[number],
    change: Partial<Service> = {},
  ): Service => ({
    tags,
    desiredCount: 1,
    deployments: [{ status: 'PRIMARY', createdAt: new Date(1_000_000), ...deployment }],
    ...change,
  });
  const signs = { ends: [], unreachable: undefined, at: 5 };
  const failed = { type: 'failed', serviceId: 'service', revision: 3, at: 5 };

  test('ECS has given the deployment up: the reason is that of the last task', () => {
    const given = service({ rolloutState: 'FAILED', rolloutStateReason: 'tasks failed to start.' });
    expect(failureOf(given, signs)).toEqual({
      ...failed,
      message: 'AWS started no instance that stayed. tasks failed to start.',
    });
    const ends = [endOf(task())!, endOf(task({ stopCode: 'UserInitiated' }))!];
    expect(failureOf(given, { ...signs, ends: ends.slice(0, 1) })?.message).toContain('Essential container');
    expect(failureOf(given, { ...signs, ends })?.message).toContain('tasks failed to start');
    const older = { ...endOf(task())!, revision: 2 };
    expect(failureOf(given, { ...signs, ends: [older] })?.message).toContain('tasks failed to start');
  });

  test('the account has no room', () => {
    const event = {
      createdAt: new Date(1_000_001),
      message:
        "(service 0a1b) was unable to place a task. Reason: You've reached the limit on the number of vCPUs you can run concurrently.",
    };
    const deployment = { rolloutState: 'IN_PROGRESS' } as const;
    const message = failureOf(service(deployment, { events: [event] }), signs)?.message;
    expect(message).toMatch(/^AWS was unable to place a task.*Fargate On-Demand vCPU resource count/);
    expect(failureOf(service({ ...deployment, pendingCount: 1 }, { events: [event] }), signs)).toBeUndefined();
    const old = { ...event, createdAt: new Date(999_999) };
    expect(failureOf(service(deployment, { events: [old] }), signs)).toBeUndefined();
  });

  test('there is no address', () => {
    expect(failureOf(service({ rolloutState: 'COMPLETED' }), { ...signs, unreachable: 'No address.' })).toEqual({
      ...failed,
      message: 'No address.',
    });
  });

  test('a service that runs, or is paused, has none', () => {
    expect(failureOf(service({ rolloutState: 'COMPLETED' }), signs)).toBeUndefined();
    expect(failureOf(service({ rolloutState: 'FAILED' }, { desiredCount: 0 }), signs)).toBeUndefined();
  });
});
