import { createHash } from 'node:crypto';
import {
  CreateScheduleCommand,
  DeleteScheduleCommand,
  ListSchedulesCommand,
  SchedulerClient,
} from '@aws-sdk/client-scheduler';
import { toAwsCrons } from '#core/automation/schedules/timing/aws-cron.ts';
import { parseCron } from '#core/automation/schedules/timing/cron.ts';
import type { Timer, Timers } from '#core/ports/timers.ts';
import { isNamed } from '../named-error.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';
import type { TimerEvent } from './timer-queue.ts';

export interface EventBridgeTimersProps {
  readonly client: SchedulerClient;
  /** Schedule group of the stage. */
  readonly group: string;
  /** ARN of the queue that wakes `schedule-fired`. */
  readonly queueArn: string;
  /** ARN of the dead-letter queue. */
  readonly deadQueueArn: string;
  /** ARN of the role with which EventBridge Scheduler sends to the queues. */
  readonly roleArn: string;
}

/** A run that is later than this counts as missed: `core/automation/schedules/runs/fire.ts`. */
const MAX_AGE_SECONDS = 300;
const MAX_RETRIES = 20;
const PAGE_SIZE = 100;
const UUID_LENGTH = 36;

/**
 * {@link Timers} in EventBridge Scheduler: one or two schedules per timer. Their names contain a hash of their content,
 * so none is ever changed: names alone show which schedules to create and which to remove.
 */
export class EventBridgeTimers implements Timers {
  readonly #props: EventBridgeTimersProps;

  constructor(props: EventBridgeTimersProps) {
    this.#props = props;
  }

  async set(timer: Timer): Promise<void> {
    for (const each of this.#partsOf(timer)) await this.#create(timer, each);
  }

  async remove(timer: Timer): Promise<void> {
    for (const { name } of this.#partsOf(timer)) await this.#delete(name);
  }

  async reconcile(
    wanted: () => AsyncIterable<Timer>,
    current: (scheduleId: string) => Promise<Timer | undefined>,
  ): Promise<{ set: number; removed: number }> {
    // The names are listed first, so that schedules created from now on are not taken for obsolete ones.
    const left = new Set(await Array.fromAsync(this.#names()));
    let set = 0;
    for await (const timer of wanted()) {
      for (const each of this.#partsOf(timer)) {
        if (left.delete(each.name)) continue;
        await this.#create(timer, each);
        set++;
      }
    }
    let removed = 0;
    for (const name of left) {
      const timer = await current(name.slice(0, UUID_LENGTH));
      if (timer && this.#partsOf(timer).some((part) => part.name === name)) continue;
      await this.#delete(name);
      removed++;
    }
    return { set, removed };
  }

  #partsOf({ scheduleId, cronExpression, timezone }: Timer): Part[] {
    const { queueArn, deadQueueArn, roleArn } = this.#props;
    return toAwsCrons(parseCron(cronExpression)).map(({ kind, expression }) => {
      const content = [timezone, expression, queueArn, deadQueueArn, roleArn].join('\n');
      const hash = createHash('sha256').update(content).digest('hex').slice(0, 12);
      return { name: `${scheduleId}-${hash}-${kind}`, expression };
    });
  }

  async #create({ workspaceId, scheduleId, timezone }: Timer, { name, expression }: Part): Promise<void> {
    const { client, group, queueArn, deadQueueArn, roleArn } = this.#props;
    const input: TimerEvent = {
      workspace_id: workspaceId,
      schedule_id: scheduleId,
      scheduled_time: '<aws.scheduler.scheduled-time>',
    };
    try {
      await client.send(
        new CreateScheduleCommand({
          Name: name,
          GroupName: group,
          ScheduleExpression: expression,
          ScheduleExpressionTimezone: timezone,
          FlexibleTimeWindow: { Mode: 'OFF' },
          Target: {
            Arn: queueArn,
            RoleArn: roleArn,
            Input: JSON.stringify(input),
            RetryPolicy: { MaximumEventAgeInSeconds: MAX_AGE_SECONDS, MaximumRetryAttempts: MAX_RETRIES },
            DeadLetterConfig: { Arn: deadQueueArn },
          },
        }),
      );
    } catch (error) {
      if (!isNamed(error, 'ConflictException')) throw error;
    }
  }

  async #delete(name: string): Promise<void> {
    const { client, group } = this.#props;
    try {
      await client.send(new DeleteScheduleCommand({ Name: name, GroupName: group }));
    } catch (error) {
      if (!isNamed(error, 'ResourceNotFoundException')) throw error;
    }
  }

  async *#names(): AsyncGenerator<string> {
    const { client, group: GroupName } = this.#props;
    let NextToken: string | undefined;
    do {
      const page = await client.send(new ListSchedulesCommand({ GroupName, NextToken, MaxResults: PAGE_SIZE }));
      for (const { Name } of page.Schedules ?? []) if (Name !== undefined) yield Name;
      NextToken = page.NextToken;
    } while (NextToken !== undefined);
  }
}

interface Part {
  readonly name: string;
  readonly expression: string;
}

/** Creates a client from the SDK's standard variables. */
export const createEventBridgeTimers = (props: Omit<EventBridgeTimersProps, 'client'>): EventBridgeTimers =>
  new EventBridgeTimers({ client: mapThrottlingErrors(new SchedulerClient()), ...props });
