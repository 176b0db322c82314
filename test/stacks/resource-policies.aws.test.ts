import { Stack } from 'aws-cdk-lib';
import { describe, expect, test } from 'vitest';
import { defineStage, PROGRAM_RISKS, type StageFile } from '#lib/config.ts';
import { AgentPlatform } from '#lib/platform.ts';
import { needsOf, unreachable } from '#test/helpers/resource-policies.ts';
import { synthesise, TEST_ACCOUNT, type Template } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { stage as prod } from '../../stages/prod.ts';
import { everythingAsked } from './everything-asked.ts';

const STAGES: Readonly<Record<string, StageFile>> = {
  dev,
  prod,
  'prod with mail, costs and no sandbox': {
    ...prod,
    sandbox: { kind: 'none' },
    alarms: { email: 'ops@example.com', dailyUsd: 50 },
  },
  'with all settings': everythingAsked,
  'with MicroVMs, its own key and topic': defineStage({
    ...prod,
    sandbox: { kind: 'microvm' },
    keyArn: `arn:aws:kms:eu-west-1:${TEST_ACCOUNT}:key/0a1b2c3d-0000-4000-8000-000000000000`,
    alarms: { topicArn: `arn:aws:sns:eu-west-1:${TEST_ACCOUNT}:operators` },
  }),
  'with a server of calls and a function for short programs': defineStage({
    ...prod,
    calls: 'web',
    sandbox: { kind: 'fargate', lambda: { acknowledges: PROGRAM_RISKS } },
  }),
};

/** Resources with policies of their own. */
const WITH_POLICY = [
  ...['SNS::Topic', 'SQS::Queue', 'S3::Bucket', 'KMS::Key', 'Lambda::Function'],
  ...['ECR::Repository', 'Logs::LogGroup', 'CodeBuild::Project'],
];

/** Resources that name one of those -> what lets AWS use it. A new pair needs a decision here. */
const PAIRS: Readonly<
  Record<string, 'its policy' | 'a role, seen here' | 'a role of ours' | 'the deployer' | 'nothing'>
> = {
  'ApiGateway::Stage -> Logs::LogGroup': 'a role of ours',
  'Budgets::Budget -> SNS::Topic': 'its policy',
  'CloudFront::Distribution -> S3::Bucket': 'its policy',
  'CloudWatch::Alarm -> SNS::Topic': 'its policy',
  'CodeBuild::Project -> ECR::Repository': 'a role of ours',
  'CodeBuild::Project -> Logs::LogGroup': 'a role of ours',
  'EC2::FlowLog -> Logs::LogGroup': 'a role, seen here',
  'ECS::TaskDefinition -> ECR::Repository': 'a role of ours',
  'ECS::TaskDefinition -> Logs::LogGroup': 'a role of ours',
  'Events::Rule -> CodeBuild::Project': 'a role, seen here',
  'Events::Rule -> Lambda::Function': 'its policy',
  'Events::Rule -> SNS::Topic': 'its policy',
  'Events::Rule -> SQS::Queue': 'its policy',
  'KMS::Alias -> KMS::Key': 'nothing',
  'Lambda::EventInvokeConfig -> Lambda::Function': 'nothing',
  'Lambda::EventInvokeConfig -> SQS::Queue': 'a role, seen here',
  'Lambda::EventSourceMapping -> Lambda::Function': 'a role of ours',
  'Lambda::Function -> ECR::Repository': 'nothing',
  'Lambda::Function -> Logs::LogGroup': 'a role of ours',
  // The text that describes a function of the CDK.
  'Lambda::Function -> S3::Bucket': 'nothing',
  'Lambda::MicrovmImage -> Logs::LogGroup': 'a role of ours',
  'Lambda::Version -> Lambda::Function': 'nothing',
  // Its variables name the function that it calls.
  'Lambda::WebFunctionRevision -> Lambda::Function': 'a role of ours',
  'Lambda::WebFunctionRevision -> Logs::LogGroup': 'a role of ours',
  // The name of the group is that of the function.
  'Logs::LogGroup -> Lambda::Function': 'nothing',
  'Logs::MetricFilter -> Logs::LogGroup': 'nothing',
  'S3::Bucket -> S3::Bucket': 'its policy',
  // Subscriptions of queues and functions would need a policy; `needsOf` knows queues.
  'SNS::Subscription -> SNS::Topic': 'nothing',
  // Queues of one account may send to each other.
  'SQS::Queue -> SQS::Queue': 'nothing',
};

describe.each(Object.entries(STAGES))('%s', (_, stage) => {
  const { stacks } = synthesise(stage);

  test('services of AWS may reach each resource that another one sends them to', () => {
    // docs/cdk.md asks for this statement in the policy of a key that the stacks did not make.
    const otherKeys = { Statement: [new Stack().resolve(AgentPlatform.keyStatement().toStatementJson())] };
    expect(stacks.flatMap(({ template }) => unreachable(template, otherKeys))).toEqual([]);
  });
});

test('each pair of a resource and one with a policy is known', () => {
  const pairs = new Set<string>();
  for (const stage of Object.values(STAGES)) {
    for (const { Resources } of synthesise(stage).stacks.map(({ template }) => template)) {
      for (const { Type, Properties } of Object.values(Resources)) {
        // Policies are the answer, and CloudFormation calls custom resources with the rights of the deployer.
        if (/Policy$|Permission$|^AWS::IAM::|^Custom::/.test(Type)) continue;
        for (const id of referredBy(Properties)) {
          const target = Resources[id]?.Type.replace('AWS::', '') ?? '';
          if (WITH_POLICY.includes(target)) pairs.add(`${Type.replace('AWS::', '')} -> ${target}`);
        }
      }
    }
  }
  expect([...pairs].sort()).toEqual(Object.keys(PAIRS).sort());
});

function referredBy(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(referredBy);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    if (name === 'Ref') return [member as string];
    return name === 'Fn::GetAtt' ? [[member].flat()[0] as string] : referredBy(member);
  });
}

test('alarms, rules, budgets, logs, failed events and CloudFront are looked at', () => {
  const { stacks } = synthesise(STAGES['prod with mail, costs and no sandbox']!);
  const needs = stacks.flatMap(({ template }) => needsOf(template));
  const kinds = new Set(needs.map(({ service, action }) => `${service} ${action}`));
  expect([...kinds].sort()).toEqual([
    'budgets.amazonaws.com sns:Publish',
    'cloudfront.amazonaws.com s3:GetObject',
    'cloudwatch.amazonaws.com sns:Publish',
    'events.amazonaws.com lambda:InvokeFunction',
    'events.amazonaws.com sns:Publish',
    'events.amazonaws.com sqs:SendMessage',
    'lambda.amazonaws.com sqs:SendMessage',
    'logging.s3.amazonaws.com s3:PutObject',
    'vpc-flow-logs.amazonaws.com logs:CreateLogStream',
    'vpc-flow-logs.amazonaws.com logs:PutLogEvents',
  ]);
});

describe('what is refused', () => {
  const { stacks } = synthesise(prod);
  /** The templates without the statements of policies, and without the permissions, that name a service. */
  const without = (service: string): Template[] =>
    stacks.map(({ template: { Resources } }) => ({
      Resources: Object.fromEntries(
        Object.entries(structuredClone(Resources)).flatMap(([id, resource]) => {
          const { PolicyDocument, Principal } = resource.Properties ?? {};
          if (Principal === service) return [];
          if (PolicyDocument?.Statement) {
            PolicyDocument.Statement = PolicyDocument.Statement.filter(
              (statement: { Principal?: { Service?: string } }) => statement.Principal?.Service !== service,
            );
          }
          return [[id, resource]];
        }),
      ),
    }));

  test.each(['cloudwatch', 'events', 'cloudfront', 'logging.s3'])('what only %s may do', (service) => {
    const found = without(`${service}.amazonaws.com`).flatMap((template) => unreachable(template));
    expect(found.length).toBeGreaterThan(0);
    for (const sentence of found) expect(sentence).toContain(`${service}.amazonaws.com may not `);
  });
});

describe('what keys refuse', () => {
  const statement = (Service: string, Action: string | string[]) => ({
    Statement: [{ Effect: 'Allow', Principal: { Service: `${Service}.amazonaws.com` }, Action, Resource: '*' }],
  });
  const templateWith = (KmsMasterKeyId: unknown, KeyPolicy: object = { Statement: [] }): Template => ({
    Resources: {
      topic: { Type: 'AWS::SNS::Topic', Properties: { KmsMasterKeyId } },
      policy: {
        Type: 'AWS::SNS::TopicPolicy',
        Properties: { Topics: [{ Ref: 'topic' }], PolicyDocument: statement('cloudwatch', 'sns:Publish') },
      },
      key: { Type: 'AWS::KMS::Key', Properties: { KeyPolicy } },
      alarm: { Type: 'AWS::CloudWatch::Alarm', Properties: { AlarmActions: [{ Ref: 'topic' }] } },
    },
  });
  const own = { 'Fn::GetAtt': ['key', 'Arn'] };
  const both = ['kms:Decrypt', 'kms:GenerateDataKey*'];

  test.each([
    ['the key that AWS has for topics, which is closed to alarms', templateWith('alias/aws/sns')],
    ['a key whose policy does not name the service', templateWith(own)],
    ['a key for another service', templateWith(own, statement('events', both))],
    ['a key that only decrypts', templateWith(own, statement('cloudwatch', 'kms:Decrypt'))],
  ])('%s', (_, template) => {
    expect(unreachable(template)).toContainEqual(expect.stringMatching(/^cloudwatch.amazonaws.com may not kms:/));
  });

  test('a key that the service may use reaches the topic', () => {
    expect(unreachable(templateWith(own, statement('cloudwatch', both)))).toEqual([]);
  });

  test('a log group whose key does not know CloudWatch Logs', () => {
    const log = { Type: 'AWS::Logs::LogGroup', Properties: { KmsKeyId: own } };
    const template = (policy: object): Template => ({
      Resources: { log, key: { Type: 'AWS::KMS::Key', Properties: { KeyPolicy: policy } } },
    });
    expect(unreachable(template({ Statement: [] }))).toHaveLength(3);
    expect(unreachable(template(statement('logs', 'kms:*')))).toEqual([]);
  });
});

describe('what roles lack', () => {
  const rule = (Service: string, Action: string): Template => ({
    Resources: {
      project: { Type: 'AWS::CodeBuild::Project', Properties: {} },
      role: {
        Type: 'AWS::IAM::Role',
        Properties: {
          AssumeRolePolicyDocument: {
            Statement: [{ Effect: 'Allow', Principal: { Service }, Action: 'sts:AssumeRole' }],
          },
        },
      },
      policy: {
        Type: 'AWS::IAM::Policy',
        Properties: {
          Roles: [{ Ref: 'role' }],
          PolicyDocument: { Statement: [{ Effect: 'Allow', Action, Resource: { 'Fn::GetAtt': ['project', 'Arn'] } }] },
        },
      },
      clock: {
        Type: 'AWS::Events::Rule',
        Properties: {
          Targets: [{ Arn: { 'Fn::GetAtt': ['project', 'Arn'] }, RoleArn: { 'Fn::GetAtt': ['role', 'Arn'] } }],
        },
      },
    },
  });

  test.each([
    ['a role that another service may assume', 'codebuild.amazonaws.com', 'codebuild:StartBuild', 1],
    ['a role with another action', 'events.amazonaws.com', 'codebuild:StopBuild', 1],
    ['a role that fits', 'events.amazonaws.com', 'codebuild:StartBuild', 0],
  ])('%s', (_, service, action, problems) => {
    expect(unreachable(rule(service, action))).toHaveLength(problems);
  });
});
