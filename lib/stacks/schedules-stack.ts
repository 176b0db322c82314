import { Duration, Fn, Stack, type StackProps } from 'aws-cdk-lib';
import { PolicyDocument, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { CfnScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { type Stage, timerNamesOf } from '../config.ts';
import { queueKeyStatement } from '../constructs/platform-function.ts';
import { queueEncryptionOf } from '../encryption.ts';
import { FUNCTIONS } from '../functions.ts';

/** Well above the five minutes after which a scheduled run counts as missed. */
const RETENTION = Duration.hours(6);
/** Time for inspecting failed messages. */
const DEAD_RETENTION = Duration.days(14);
const MAX_RECEIVES = 3;

/** Timers of schedules: the group of EventBridge schedules that the platform creates at run time, and their queue. */
export class SchedulesStack extends Stack {
  constructor(scope: Construct, id: string, props: StackProps & { readonly stage: Stage }) {
    super(scope, id, props);
    const names = timerNamesOf(props.stage);
    const { keyArn } = props.stage;
    const defaults = { ...queueEncryptionOf(this, props.stage), enforceSSL: true };
    const dead = new Queue(this, 'fires-dead', {
      ...defaults,
      queueName: names.deadQueue,
      retentionPeriod: DEAD_RETENTION,
    });
    const fires = new Queue(this, 'fires', {
      ...defaults,
      queueName: names.queue,
      retentionPeriod: RETENTION,
      // Lambda's minimum. The function returns failures at once; only messages of a crashed function wait this long.
      visibilityTimeout: Duration.seconds(FUNCTIONS['schedule-fired'].timeoutSeconds),
      deadLetterQueue: { queue: dead, maxReceiveCount: MAX_RECEIVES },
    });
    const group = new CfnScheduleGroup(this, 'timers', { name: names.group });
    new Role(this, 'timer-role', {
      roleName: Fn.sub(names.role),
      description: 'EventBridge Scheduler sends due schedules to the queue with this role.',
      // Only this group of this account may assume the role.
      assumedBy: new ServicePrincipal('scheduler.amazonaws.com', {
        conditions: {
          StringEquals: { 'aws:SourceAccount': this.account },
          ArnEquals: {
            'aws:SourceArn': Fn.sub(
              `arn:\${AWS::Partition}:scheduler:\${AWS::Region}:\${AWS::AccountId}:schedule-group/${names.group}`,
            ),
          },
        },
      }),
      inlinePolicies: {
        send: new PolicyDocument({
          statements: [
            new PolicyStatement({ actions: ['sqs:SendMessage'], resources: [fires.queueArn, dead.queueArn] }),
            ...(keyArn === undefined ? [] : [queueKeyStatement(keyArn)]),
          ],
        }),
      },
    }).node.addDependency(group);
  }
}
