import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runFolder } from '#test/helpers/temporary-folder.ts';
import type { Rehearsal } from './platform.ts';

/** The files whose stages have the same rights. */
const FILES = ['platform', 'second-half', 'faults'] as const;

/**
 * Returns the rights, as `<principal> <action> <resource>`, that none of these stages needed and that are not listed
 * here. The file that ends last knows: for the others, the list is empty.
 */
export function neverNeeded(file: (typeof FILES)[number], target: Rehearsal): string[] {
  const noteOf = (each: string) => join(runFolder(), `unused-rights-${each}.json`);
  const unused = target.unused();
  writeFileSync(noteOf(file), JSON.stringify(unused));
  if (!FILES.every((each) => existsSync(noteOf(each)))) return [];
  const lists = FILES.map((each) => new Set<string>(JSON.parse(readFileSync(noteOf(each), 'utf8'))));
  const isListed = (grant: string) => UNUSED.some((pattern) => pattern.test(grant));
  return unused.filter((grant) => lists.every((list) => list.has(grant)) && !isListed(grant));
}

/** Rights that no test of the rehearsal uses, each with its reason. */
const UNUSED: readonly RegExp[] = [
  // Used when a stage is removed; aws/release/empty-stage.ts and aws/fargate/stop-all-tasks.ts have tests.
  /^(pool-)?cleaner /,
  // CloudFormation deletes the layers of older code at the end of a deployment; aws/compile-cache.ts has tests.
  /^compile-cache lambda:DeleteLayerVersion /,
  // Objects are never listed; the right makes S3 report missing objects as such.
  / s3:ListBucket /,
  // A key's last use, which another function recorded shortly before.
  /^(calls|catalog|downloads|runs|uploads|usage) dynamodb:UpdateItem .*-main$/,
  // Estimates for agents that cannot run yet or have large definitions.
  /^usage (dynamodb:Query .*-main|s3:GetObject .*\/definitions\/\*)$/,
  // Credits held by a lost run, which are released when the balance is read.
  /^billing dynamodb:GetItem .*-runs$/,
  // Access of agents with the key of their run; the suite calls these functions with user keys.
  /^(catalog|downloads|uploads) dynamodb:GetItem .*-runs$/,
  // A scheduled run is a call, whose rights are all covered by the function `calls`; here it covers only two kinds of
  // agents and may find a task that already has the bundle.
  /^schedule-(fired|sweeper) dynamodb:(Query .*-main(\/index\/gsi1)?|UpdateItem .*-main|GetItem .*-(runs|counters))$/,
  /^schedule-(fired|sweeper) s3:GetObject .*\/(bundles|layers|runs)\/\*$/,
  // Payloads too large for one call of `sandbox-dispatch`, such as a large file for a program.
  /^(calls|install|schedule-fired|schedule-sweeper) s3:(Get|Put)Object .*\/transfers\/\*$/,
  // Scheduled runs in workspaces with budgets, and budgets that pause services; core/billing/budgets has tests.
  /^schedule-(fired|sweeper) dynamodb:Query .*-runs$/,
  /^sweeper (dynamodb:Query .*-main(\/index\/gsi1)?|lambda:InvokeFunction .*-service-keeper)$/,
  // Large definition of an agent that gets a budget.
  /^billing s3:GetObject .*\/definitions\/\*$/,
  // Sub-calls of a watched run, and runs that began long before; core/events has tests.
  /^events dynamodb:BatchGetItem .*-runs$/,
  // Services with autoscaling, whose alarms moto lacks; aws/services/ecs-service-host.aws.test.ts has tests.
  /^service-keeper (application-autoscaling:(PutScalingPolicy|RegisterScalableTarget)|iam:CreateServiceLinkedRole) /,
  /^service-keeper cloudwatch:(DescribeAlarms|PutMetricAlarm) /,
  /^services-cleaner (application-autoscaling:DeregisterScalableTarget|cloudwatch:(DeleteAlarms|DescribeAlarms)) /,
  // AWS does not document which resource these actions check.
  /^(service-keeper|services-cleaner) ecs:(ListGatewayRoutes|DescribeGatewayRoute) /,
  // Lambda sends a keeper call that failed three times to this queue with the keeper's rights.
  /^service-keeper sqs:SendMessage .*-services-dead$/,
  // An app with installed dependencies.
  /^service-instances s3:GetObject .*\/layers\/\*$/,
  // Large parts of runs and definitions in the bucket; these functions meet only small ones here.
  /^(agents|events) s3:GetObject .*\/runs\/\*$/,
  /^install s3:(GetObject .*\/(definitions|layers)|(Get|Put)Object .*\/runs)\/\*$/,
  // The agents deleted here had no dependencies.
  /^collector s3:DeleteObject .*\/layers\/\*$/,
  // Services that switch to a version after its installation, or once it has passed its gate.
  /^(install|schedule-sweeper) lambda:InvokeFunction .*-service-keeper$/,
  // Large bodies of runs that were erased before they were scored online; test/conformance/online.ts has tests.
  /^schedule-sweeper s3:DeleteObject .*\/runs\/\*$/,
  // A call that finds no idle task.
  /^(install|loop-worker|schedule-fired|schedule-sweeper) lambda:InvokeFunction .*-pool-keeper$/,
  // Durable runs of schedules, and their connections; the suite has calls with both, and data-keys.aws.test.ts tests the keys.
  /^schedule-(fired|sweeper) (kms:(Decrypt|GenerateDataKey) |dynamodb:DeleteItem .*-runs$|lambda:InvokeFunction .*-loop-worker$)/,
  // Journals with large steps, and the files of sandboxes that were replaced or left.
  /^(calls|schedule-fired|schedule-sweeper|loop-worker) s3:(Get|Put|Delete)Object .*\/journals\/\*$/,
  // A durable run is a call, whose rights are all covered by the function `calls`.
  /^loop-worker dynamodb:(ConditionCheckItem|DeleteItem|PutItem|UpdateItem|Query) .*-main(\/index\/gsi1)?$/,
  /^loop-worker s3:(Get|Put)Object .*\/(bundles|definitions|layers|runs|transfers)\/\*$/,
  // A task is a call, whose rights are all covered by the function `calls`.
  /^a2a dynamodb:(ConditionCheckItem .*-main|Query .*-main\/index\/gsi1|DeleteItem .*-runs)$/,
  /^a2a s3:(Get|Put|Delete)Object .*\/(bundles|definitions|journals|layers|runs|sessions|transfers|uploads)\/\*$/,
  /^a2a lambda:InvokeFunction .*-(pool-keeper|sandbox-dispatch)$/,
  // A tool of an agent is a call, and the other tools are operations: the functions `calls`, `tasks`, `schedules` and `runs`
  // cover all of their rights.
  /^mcp (dynamodb|s3|kms):\w+ /,
  /^mcp (lambda:InvokeFunction|scheduler:DeleteSchedule|secretsmanager:GetSecretValue) /,
  // Runs of more than twelve minutes, and runs whose function died; core/execution/durable has tests.
  /^(loop-worker|sweeper) lambda:InvokeFunction .*-loop-worker$/,
  // Runs whose session is erased while they work; test/conformance/sessions.ts has tests.
  /^(calls|loop-worker) s3:DeleteObject .*\/runs\/\*$/,
  // Deleted sessions with calls that had an Idempotency-Key, which test/e2e/sessions.test.ts has, and with durable runs.
  /^runs (dynamodb:DeleteItem .*-counters|s3:DeleteObject .*\/journals\/\*)$/,
  // Sessions whose time is over, and turns of lost runs; test/conformance/sessions.ts has tests.
  /^sweeper (dynamodb:DeleteItem .*-counters|s3:(Get|Put)Object .*\/sessions\/\*)$/,
  /^sweeper s3:DeleteObject .*\/(journals|runs|sessions)\/\*$/,
  // Large messages of sessions that are watched, and large definitions of their agents.
  /^events s3:GetObject .*\/(definitions|sessions)\/\*$/,
  /^runs s3:GetObject .*\/definitions\/\*$/,
  // Messages about tasks that could not be sent at first; core/wires/a2a has tests, and data-keys.aws.test.ts of the keys.
  /^sweeper kms:Decrypt /,
  // Places in queues of runs whose process died; core/runs/queues has tests.
  /^sweeper dynamodb:DeleteItem .*-runs$/,
  // Looks up the result of RunTask when its answer was lost.
  /^pool-keeper ecs:ListTasks /,
  // Used by the event source mapping, and by the function after a failed message.
  /^schedule-fired sqs:(ChangeMessageVisibility|GetQueueAttributes|GetQueueUrl) /,
  // Ended runs that cannot be counted; aws/usage has tests.
  /^usage-writer sqs:(GetQueueUrl|SendMessage) .*-sums-dead$/,
  // Messages that EventBridge Scheduler could not deliver.
  /^timers sqs:SendMessage .*-fires-dead$/,
  // SES checks either the verified address or its domain.
  /^workspaces ses:SendEmail .*\/stage\.example\.com$/,
  // Sign-in with an OpenID provider, which this stage lacks.
  /^keys dynamodb:Query .*-main\/index\/gsi1$/,
];
