/** Rights that no test of the rehearsal uses, each with its reason. */
export const UNUSED: readonly RegExp[] = [
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
  // Services that switch to a version after its installation.
  /^install lambda:InvokeFunction .*-service-keeper$/,
  // A call that finds no idle task.
  /^(install|loop-worker|schedule-fired|schedule-sweeper) lambda:InvokeFunction .*-pool-keeper$/,
  // Durable runs of schedules; the suite has durable calls, and test/rehearsal/data-keys.aws.test.ts tests the keys.
  /^schedule-(fired|sweeper) (kms:GenerateDataKey |dynamodb:DeleteItem .*-runs$|lambda:InvokeFunction .*-loop-worker$)/,
  // Journals with large steps, and the files of sandboxes that were replaced or left.
  /^(calls|schedule-fired|schedule-sweeper|loop-worker) s3:(Get|Put|Delete)Object .*\/journals\/\*$/,
  // A durable run is a call, whose rights are all covered by the function `calls`.
  /^loop-worker dynamodb:(ConditionCheckItem|DeleteItem|PutItem|UpdateItem|Query) .*-main(\/index\/gsi1)?$/,
  /^loop-worker s3:(Get|Put)Object .*\/(bundles|definitions|layers|runs|transfers)\/\*$/,
  // Runs of more than twelve minutes, and runs whose function died; core/execution/durable has tests.
  /^(loop-worker|sweeper) lambda:InvokeFunction .*-loop-worker$/,
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
  /^workspaces ses:SendEmail .*\/sender\.example\.com$/,
  // Sign-in with an OpenID provider, which this stage lacks.
  /^keys dynamodb:Query .*-main\/index\/gsi1$/,
];

/** Rights that a function needs only in the faults of faults.rehearsal.ts. */
export const USED_IN_FAULTS: readonly RegExp[] = [
  // Releases, and the deletion of a stack with services.
  /^(compile-cache|release|services-cleaner) /,
  // Sandboxes whose events were lost.
  /^pool-keeper ecs:DescribeTasks /,
  // Services that fail, are warned of, and follow their secrets.
  /^service-keeper (dynamodb:GetItem .*-counters|secretsmanager:GetSecretValue .*)$/,
];
