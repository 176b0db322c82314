import type { Task } from '@aws-sdk/client-ecs';
import { expect, test } from 'vitest';
import { endOf } from './ecs-reports.ts';
import { ecsTags, orderTagsOf } from './tags.ts';

const task = (end: Partial<Task>): Task => ({
  taskArn: 'arn:aws:ecs:eu-west-1:111122223333:task/services/0123',
  lastStatus: 'STOPPED',
  stoppedAt: new Date(),
  tags: ecsTags(orderTagsOf('test', 'form', { id: 's', workspaceId: 'w', label: 'bot', revision: 2 } as never)),
  ...end,
});

test.each<[string, Partial<Task>, 'stopped' | 'crashed']>([
  ['was told to', { stopCode: 'ServiceSchedulerInitiated', containers: [{ exitCode: 137 }] }, 'stopped'],
  [
    'ended with 0, such as after its token was refused',
    { stopCode: 'EssentialContainerExited', containers: [{ exitCode: 0 }] },
    'stopped',
  ],
  ['ended with an error', { stopCode: 'EssentialContainerExited', containers: [{ exitCode: 1 }] }, 'crashed'],
  ['never started', { stopCode: 'TaskFailedToStart', containers: [{}] }, 'crashed'],
])('a task that %s', (_, end, reason) => {
  expect(endOf(task(end))).toMatchObject({ type: 'ended', instanceId: '0123', revision: 2, reason });
});
