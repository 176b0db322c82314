import { Duration, Fn, Stack, type StackProps } from 'aws-cdk-lib';
import { PolicyDocument, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { CfnScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { type Stage, timerNamesOf } from '../config.ts';
import { FUNCTIONS } from '../functions.ts';

/** A minute that is late by more than five is missed, so what waits for longer is of no use. */
const RETENTION = Duration.hours(6);
/** How long what failed can be looked at. */
const DEAD_RETENTION = Duration.days(14);
const MAX_RECEIVES = 5;
/** What AWS advises for a queue that a function reads: batches wait for a free function meanwhile. */
const VISIBILITY_FACTOR = 6;

/** What wakes the platform for schedules: a group of EventBridge schedules, which the platform fills, and their queue. */
export class SchedulesStack extends Stack {
  constructor(scope: Construct, id: string, props: StackProps & { readonly stage: Stage }) {
    super(scope, id, props);
    const names = timerNamesOf(props.stage);
    const house = { encryption: QueueEncryption.SQS_MANAGED, enforceSSL: true };
    const dead = new Queue(this, 'fires-dead', {
      ...house,
      queueName: names.deadQueue,
      retentionPeriod: DEAD_RETENTION,
    });
    const fires = new Queue(this, 'fires', {
      ...house,
      queueName: names.queue,
      retentionPeriod: RETENTION,
      visibilityTimeout: Duration.seconds(FUNCTIONS['schedule-fired'].timeoutSeconds * VISIBILITY_FACTOR),
      deadLetterQueue: { queue: dead, maxReceiveCount: MAX_RECEIVES },
    });
    const group = new CfnScheduleGroup(this, 'timers', { name: names.group });
    new Role(this, 'timer-role', {
      roleName: names.role,
      description: 'By which EventBridge Scheduler sends what is due to the queue.',
      // Not whoever else has schedules in EventBridge: only this group of this account.
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
          ],
        }),
      },
    }).node.addDependency(group);
  }
}
