import { GetScheduleCommand, ListSchedulesCommand, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { TEST_REGION } from '#test/helpers/aws-account.ts';

export interface Scheduler {
  /** Returns the names with this prefix of the schedules of a group. */
  names(group: string, prefix: string): Promise<string[]>;
  /** Fires a schedule. Throws if it does not exist. */
  fire(group: string, name: string, at: Date): Promise<void>;
}

/**
 * Fakes EventBridge Scheduler: moto stores the schedules but fires none.
 *
 * @param sqsOf returns a client with the rights of the role that a schedule assumes
 */
export function startScheduler(client: SchedulerClient, sqsOf: (roleArn: string) => SQSClient): Scheduler {
  return {
    async names(GroupName, NamePrefix) {
      const { Schedules = [] } = await client.send(new ListSchedulesCommand({ GroupName, NamePrefix }));
      return Schedules.map(({ Name }) => Name!);
    },
    async fire(GroupName, Name, at) {
      const { Target } = await client.send(new GetScheduleCommand({ GroupName, Name }));
      const { Arn, RoleArn, Input } = Target!;
      const [account, queue] = Arn!.split(':').slice(-2);
      const time = at.toISOString().replace('.000Z', 'Z');
      await sqsOf(RoleArn!).send(
        new SendMessageCommand({
          QueueUrl: `https://sqs.${TEST_REGION}.amazonaws.com/${account}/${queue}`,
          MessageBody: Input!.replaceAll('<aws.scheduler.scheduled-time>', time),
        }),
      );
    },
  };
}
