import { GetScheduleCommand, ListSchedulesCommand, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { TEST_REGION } from '#test/helpers/aws-account.ts';

export interface Scheduler {
  /** Names of the schedules of a group that begin so. */
  names(group: string, prefix: string): Promise<string[]>;
  /** Sends what a schedule sends when its time has come. Throws when there is no such schedule. */
  fire(group: string, name: string, at: Date): Promise<void>;
}

/**
 * EventBridge Scheduler, of which moto keeps the schedules and fires none.
 *
 * @param sqsOf with the rights of the role by which a schedule sends
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
