import { TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import type { Assembly } from './assembly.ts';
import type { Ask } from './iam.ts';

// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
type Input = any;

const regional = (service: string, rest: string): string => `arn:aws:${service}:${TEST_REGION}:${TEST_ACCOUNT}:${rest}`;
const hasTags = ({ tags, Tags }: Input): boolean => Object.keys(tags ?? Tags ?? {}).length > 0;

/** Returns the separate right to pass a role to a service. */
export const passing = (roleArn: string | undefined, service: string): Ask[] =>
  roleArn === undefined
    ? []
    : [{ action: 'iam:PassRole', resource: roleArn, context: { 'iam:PassedToService': [service] } }];

/** Returns the right to tag a resource on creation, which a policy may limit to this creation. */
const tagging = (action: string, resource: string, createAction: string, tags: Input = []): Ask => ({
  action,
  resource,
  context: { [`${action.split(':')[0]}:CreateAction`]: [createAction], ...requestTags(tags) },
});

/** Returns the condition keys of a request with tags. */
export const requestTags = (tags: Input = []): Record<string, string[]> => ({
  'aws:TagKeys': tags.map(({ key, Key = key }: Input) => Key),
  ...Object.fromEntries(
    tags.map(({ key, value, Key = key, Value = value }: Input) => [`aws:RequestTag/${Key}`, [Value]]),
  ),
});

const withKey = (key: string | undefined, actions: readonly string[]): Ask[] =>
  key === undefined ? [] : actions.map((action) => ({ action: `kms:${action}`, resource: fullKey(key) }));
const fullKey = (key: string): string => (key.startsWith('arn:') ? key : regional('kms', `key/${key}`));

/**
 * Rights that AWS requires besides the request's own, depending on its content: from the column "Dependent actions" of
 * the Service Authorization Reference, and each service's pages on tags and encryption. A caller that lacks one is
 * refused. Add a row for every new action with tags, roles or keys.
 *
 * @param resource of the request itself
 */
const DEPENDENT: Readonly<Record<string, (input: Input, resource: string) => Ask[]>> = {
  'ecs:RunTask': (input) => [
    ...(hasTags(input) || input.enableECSManagedTags ? [taggingOfTask(input)] : []),
    ...passing(input.overrides?.taskRoleArn, 'ecs-tasks.amazonaws.com'),
    ...passing(input.overrides?.executionRoleArn, 'ecs-tasks.amazonaws.com'),
  ],
  'ecs:CreateService': (input, resource) => [
    ...(hasTags(input) ? [tagging('ecs:TagResource', resource, 'CreateService', input.tags)] : []),
    ...passing(input.role, 'ecs.amazonaws.com'),
  ],
  'ecs:RegisterTaskDefinition': (input, resource) => [
    ...(hasTags(input) ? [tagging('ecs:TagResource', resource, 'RegisterTaskDefinition', input.tags)] : []),
    ...passing(input.taskRoleArn, 'ecs-tasks.amazonaws.com'),
    ...passing(input.executionRoleArn, 'ecs-tasks.amazonaws.com'),
  ],
  'logs:CreateLogGroup': (input, resource) => (hasTags(input) ? [{ action: 'logs:TagResource', resource }] : []),
  'elasticloadbalancing:CreateTargetGroup': ({ tags }, resource) =>
    hasTags({ tags }) ? [tagging('elasticloadbalancing:AddTags', resource, 'CreateTargetGroup', tags)] : [],
  'elasticloadbalancing:CreateRule': ({ tags }, resource) => {
    const rule = resource.replace(':listener/', ':listener-rule/').concat('/*');
    return hasTags({ tags }) ? [tagging('elasticloadbalancing:AddTags', rule, 'CreateRule', tags)] : [];
  },
  // Target tracking creates its alarms with the caller's rights.
  'application-autoscaling:PutScalingPolicy': ({ ResourceId }) => [
    { action: 'cloudwatch:PutMetricAlarm', resource: regional('cloudwatch', `alarm:TargetTracking-${ResourceId}-x`) },
    { action: 'cloudwatch:DescribeAlarms', resource: regional('cloudwatch', `alarm:TargetTracking-${ResourceId}-x`) },
  ],
  'application-autoscaling:DeregisterScalableTarget': ({ ResourceId }) => [
    { action: 'cloudwatch:DeleteAlarms', resource: regional('cloudwatch', `alarm:TargetTracking-${ResourceId}-x`) },
  ],
  'scheduler:CreateScheduleGroup': (input, resource) =>
    hasTags(input) ? [{ action: 'scheduler:TagResource', resource }] : [],
  'scheduler:CreateSchedule': scheduleNeeds,
  'scheduler:UpdateSchedule': scheduleNeeds,
  'secretsmanager:CreateSecret': (input, resource) => [
    ...(hasTags(input) ? [{ action: 'secretsmanager:TagResource', resource }] : []),
    ...withKey(input.KmsKeyId, ['GenerateDataKey', 'Decrypt']),
  ],
  's3:PutObject': ({ headers }, resource) => [
    ...(headers['x-amz-tagging'] ? [{ action: 's3:PutObjectTagging', resource }] : []),
    ...(headers['x-amz-acl'] ? [{ action: 's3:PutObjectAcl', resource }] : []),
    ...withKey(headers['x-amz-server-side-encryption-aws-kms-key-id'], ['GenerateDataKey', 'Decrypt']),
  ],
  'sqs:CreateQueue': (input, resource) => (hasTags(input) ? [{ action: 'sqs:TagQueue', resource }] : []),
  'lambda:RunMicrovm': ({ executionRoleArn, tags }, resource) => [
    ...(hasTags({ tags }) ? [{ action: 'lambda:TagResource', resource }] : []),
    ...passing(executionRoleArn, 'lambda.amazonaws.com'),
  ],
};

/** Names of tasks are unknown before they run. */
function taggingOfTask({ cluster = 'default' }: Input): Ask {
  const task = regional('ecs', `task/${cluster.split('/').at(-1)}/*`);
  return tagging('ecs:TagResource', task, 'RunTask');
}

function scheduleNeeds({ Target, KmsKeyArn }: Input): Ask[] {
  return [
    ...passing(Target?.RoleArn, 'scheduler.amazonaws.com'),
    ...withKey(KmsKeyArn, ['DescribeKey', 'GenerateDataKey', 'Decrypt']),
  ];
}

/** Actions that read or write data encrypted with a customer's key, by service. */
const ENCRYPTED_ACTIONS: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^dynamodb:/, ['Decrypt']],
  [/^s3:(GetObject|AbortMultipartUpload)$/, ['Decrypt']],
  [/^s3:PutObject$/, ['GenerateDataKey', 'Decrypt']],
  [/^sqs:SendMessage$/, ['GenerateDataKey', 'Decrypt']],
  [/^sqs:ReceiveMessage$/, ['Decrypt']],
  [/^secretsmanager:GetSecretValue$/, ['Decrypt']],
  [/^secretsmanager:PutSecretValue$/, ['GenerateDataKey', 'Decrypt']],
];

/** Returns the request's own rights and those that its content requires. */
export const withDependent = (asks: readonly Ask[], input: Input): Ask[] =>
  asks.flatMap((ask) => [ask, ...(DEPENDENT[ask.action]?.(input, ask.resource) ?? [])]);

/** Customer keys by the ARN of the table, bucket, queue or secret that they encrypt. */
export type KeysOfResources = ReadonlyMap<string, string>;

/** Returns the rights, with those on the keys of their resources. */
export const withKeys = (asks: readonly Ask[], keys: KeysOfResources): Ask[] =>
  asks.flatMap((ask) => {
    const encrypted = ask.resource.replace(/(^arn:aws:s3:::[^/]+)\/.*/, '$1').replace(/\/index\/.*/, '');
    const [, actions = []] = ENCRYPTED_ACTIONS.find(([pattern]) => pattern.test(ask.action)) ?? [];
    return [ask, ...withKey(keys.get(encrypted), actions)];
  });

/** Returns the customer keys of an assembly. Keys that AWS owns or manages need no rights. */
export function keysOf(assembly: Assembly): KeysOfResources {
  const keyOf: Readonly<Record<string, (properties: Input) => string | undefined>> = {
    'AWS::DynamoDB::GlobalTable': ({ Replicas }) => Replicas?.[0]?.SSESpecification?.KMSMasterKeyId,
    'AWS::DynamoDB::Table': ({ SSESpecification }) => SSESpecification?.KMSMasterKeyId,
    'AWS::S3::Bucket': ({ BucketEncryption }) =>
      BucketEncryption?.ServerSideEncryptionConfiguration?.[0]?.ServerSideEncryptionByDefault?.KMSMasterKeyID,
    'AWS::SQS::Queue': ({ KmsMasterKeyId }) => KmsMasterKeyId,
    'AWS::SecretsManager::Secret': ({ KmsKeyId }) => KmsKeyId,
  };
  const keys = new Map<string, string>();
  for (const { type, arn, properties } of assembly.resources) {
    const key = keyOf[type]?.(properties);
    if (key !== undefined && !key.includes('alias/aws/')) keys.set(arn, key);
  }
  return keys;
}
