import { RunTaskCommand } from '@aws-sdk/client-ecs';
import { describe, expect, test } from 'vitest';
import { defineStage } from '#lib/config.ts';
import { TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import { synthesise } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { type Assembly, readAssembly } from './assembly.ts';
import { keysOf, withKeys } from './dependent-actions.ts';
import { ecsReader } from './ecs-wire.ts';
import { type Ask, allowing, policiesOf } from './iam.ts';
import { SERVICES_WIRE } from './services-wire.ts';
import { WIRE, type WireRequest } from './wire.ts';

const arn = (service: string, rest: string) => `arn:aws:${service}:${TEST_REGION}:${TEST_ACCOUNT}:${rest}`;
const ROLE = `arn:aws:iam::${TEST_ACCOUNT}:role/r`;
const KEY = arn('kms', 'key/k');

const request = (input: object, more: Partial<WireRequest> = {}): WireRequest => ({
  method: 'POST',
  url: new URL('http://aws/'),
  headers: {},
  body: Buffer.from(JSON.stringify(input)),
  ...more,
});
const json = (action: string, input: object) => request(input, { headers: { 'x-amz-target': `Service.${action}` } });
const put = (headers: Record<string, string>) =>
  request({}, { method: 'PUT', url: new URL('http://aws/bucket/runs/key'), headers });
const create = (input: object, path = '/schedules/s') => request(input, { url: new URL(path, 'http://aws') });
const ecs = ecsReader([]);
const LISTENER = arn('elasticloadbalancing', 'listener/app/b/1/2');
const form = (fields: Record<string, string>) => request({}, { body: Buffer.from(`${new URLSearchParams(fields)}`) });

/** Rights that a request needs besides its own action, by AWS's documentation. */
const cases: [what: string, Ask[], needed: string[]][] = [
  ['a task with tags', ecs(json('RunTask', { taskDefinition: 'd', tags: [{ key: 'a' }] })), ['ecs:TagResource']],
  [
    'a task that ECS tags',
    ecs(json('RunTask', { taskDefinition: 'd', enableECSManagedTags: true })),
    ['ecs:TagResource'],
  ],
  ['a task without tags', ecs(json('RunTask', { taskDefinition: 'd', propagateTags: 'TASK_DEFINITION' })), []],
  [
    'a task with roles of its own',
    ecs(json('RunTask', { taskDefinition: 'd', overrides: { taskRoleArn: ROLE, executionRoleArn: ROLE } })),
    ['iam:PassRole', 'iam:PassRole'],
  ],
  [
    'a service with tags and a role',
    ecs(json('CreateService', { serviceName: 's', tags: [{ key: 'a' }], role: ROLE })),
    ['ecs:TagResource', 'iam:PassRole'],
  ],
  [
    'a task definition with tags and roles',
    ecs(
      json('RegisterTaskDefinition', { family: 'f', tags: [{ key: 'a' }], taskRoleArn: ROLE, executionRoleArn: ROLE }),
    ),
    ['ecs:TagResource', 'iam:PassRole', 'iam:PassRole'],
  ],
  [
    'a log group with tags',
    SERVICES_WIRE.logs!(json('CreateLogGroup', { logGroupName: 'g', tags: { a: 'b' } })),
    ['logs:TagResource'],
  ],
  [
    'a target group with tags',
    SERVICES_WIRE.elasticloadbalancing!(form({ Action: 'CreateTargetGroup', Name: 'g', 'Tags.member.1.Key': 'a' })),
    ['elasticloadbalancing:AddTags'],
  ],
  [
    'a rule with tags',
    SERVICES_WIRE.elasticloadbalancing!(
      form({ Action: 'CreateRule', ListenerArn: LISTENER, 'Tags.member.1.Key': 'a' }),
    ),
    ['elasticloadbalancing:AddTags'],
  ],
  [
    'scaling by a target',
    SERVICES_WIRE['application-autoscaling']!(json('PutScalingPolicy', { ResourceId: 'service/c/s' })),
    ['cloudwatch:PutMetricAlarm', 'cloudwatch:DescribeAlarms'],
  ],
  ['a schedule with a role', WIRE.scheduler!(create({ Target: { RoleArn: ROLE } })), ['iam:PassRole']],
  [
    'an encrypted schedule',
    WIRE.scheduler!(create({ KmsKeyArn: KEY })),
    ['kms:DescribeKey', 'kms:GenerateDataKey', 'kms:Decrypt'],
  ],
  [
    'a group of schedules with tags',
    WIRE.scheduler!(create({ Tags: [{ Key: 'a', Value: 'b' }] }, '/schedule-groups/g')),
    ['scheduler:TagResource'],
  ],
  [
    'a secret with tags and a key',
    WIRE.secretsmanager!(json('CreateSecret', { Name: 's', Tags: [{ Key: 'a', Value: 'b' }], KmsKeyId: 'k' })),
    ['secretsmanager:TagResource', 'kms:GenerateDataKey', 'kms:Decrypt'],
  ],
  ['an object with tags', WIRE.s3!(put({ 'x-amz-tagging': 'a=b' })), ['s3:PutObjectTagging']],
  ['an object with an ACL', WIRE.s3!(put({ 'x-amz-acl': 'private' })), ['s3:PutObjectAcl']],
  [
    'an object with a key of its own',
    WIRE.s3!(put({ 'x-amz-server-side-encryption-aws-kms-key-id': KEY })),
    ['kms:GenerateDataKey', 'kms:Decrypt'],
  ],
  ['a queue with tags', WIRE.sqs!(json('CreateQueue', { QueueName: 'q', tags: { a: 'b' } })), ['sqs:TagQueue']],
];

test.each(cases)('%s needs further rights', (_, [, ...dependent], needed) => {
  expect(dependent.map(({ action }) => action)).toEqual(needed);
});

describe('what a customer encrypts', () => {
  const resource = (type: string, name: string, properties: object) => ({
    id: 'x',
    type,
    properties,
    arn: name,
    stack: 's',
  });
  const table = arn('dynamodb', 'table/t');
  const resources = [
    resource('AWS::DynamoDB::GlobalTable', table, { Replicas: [{ SSESpecification: { KMSMasterKeyId: KEY } }] }),
    resource('AWS::SQS::Queue', arn('sqs', 'q'), { KmsMasterKeyId: 'alias/aws/sqs' }),
    resource('AWS::S3::Bucket', 'arn:aws:s3:::b', {
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { KMSMasterKeyID: KEY } }],
      },
    }),
  ];
  const keys = keysOf({ resources } as unknown as Assembly);
  const needs = (action: string, what: string) =>
    withKeys([{ action, resource: what }], keys).map((ask) => `${ask.action} ${ask.resource}`);

  test('needs its key, also by an index or for an object', () => {
    expect(needs('dynamodb:Query', `${table}/index/gsi1`)).toContain(`kms:Decrypt ${KEY}`);
    expect(needs('s3:PutObject', 'arn:aws:s3:::b/runs/1')).toContain(`kms:GenerateDataKey ${KEY}`);
  });

  test('with a key of AWS needs no right on it', () => {
    expect(needs('sqs:SendMessage', arn('sqs', 'q'))).toHaveLength(1);
  });
});

describe('the role of pool-keeper', () => {
  const { folder, stacks } = synthesise(
    defineStage({ ...dev, sandbox: { kind: 'fargate' }, services: { kind: 'off' } }),
  );
  const assembly = readAssembly(folder, stacks);
  const definitions = assembly.of('AWS::ECS::TaskDefinition');
  const keeper = assembly.of('AWS::Lambda::Function').find(({ arn: name }) => name.endsWith('-pool-keeper'))!;
  const { input } = new RunTaskCommand({
    cluster: assembly.of('AWS::ECS::Cluster')[0]!.properties.ClusterName,
    taskDefinition: definitions[0]!.arn,
    propagateTags: 'TASK_DEFINITION',
  });
  const asks = ecsReader(definitions)(json('RunTask', input));
  const policies = policiesOf(assembly, keeper.properties.Role);
  const refused = (without?: string) => {
    const statements = policies.map((each) => ({
      ...each,
      actions: each.actions.filter((action) => action !== without),
      notActions: each.actions.length > 0 ? ['*'] : each.notActions,
    }));
    return asks.filter((ask) => allowing(statements, ask) === undefined).map(({ action }) => action);
  };

  test('has every right that a tagged task takes', () => {
    expect(asks.map(({ action }) => action)).toEqual(['ecs:RunTask', 'ecs:TagResource', 'iam:PassRole']);
    expect(refused()).toEqual([]);
  });

  test.each(['ecs:RunTask', 'ecs:TagResource', 'iam:PassRole'])('is refused without %s', (action) => {
    expect(refused(action)).toEqual([action]);
  });

  test('may tag a task only as it runs it', () => {
    const [tag] = asks.filter(({ action }) => action === 'ecs:TagResource');
    expect(allowing(policies, { ...tag!, context: {} })).toBeUndefined();
  });
});
