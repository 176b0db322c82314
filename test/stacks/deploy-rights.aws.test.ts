import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import published from '#lib/deploy-rights/permissions.json' with { type: 'json' };
import {
  DEPLOYER,
  type DeployRightsOptions,
  deployPolicies,
  lengthOf,
  MAX_POLICY_LENGTH,
  type PolicyDocument,
  unknownTypes,
} from '#lib/deploy-rights/policies.ts';
import { type Resource, rendered, synthesise, TEST_ACCOUNT, TEST_REGION } from '#test/helpers/templates.ts';
import { allowing, statementOf } from '#test/rehearsal/iam.ts';
import { EVERY_KIND } from './every-kind.ts';
import { ACCOUNT_RULES } from './props.ts';

const FOLDER = join(import.meta.dirname, '../../lib/deploy-rights');
const DEFAULTS: DeployRightsOptions = { namePrefix: 'platform', rolePath: '/' };
const stacks = Object.values(EVERY_KIND).flatMap((stage) => synthesise(stage).stacks);
const templates = stacks.map(({ template }) => template);
const policies = deployPolicies(templates, published, DEFAULTS);
const statementsOf = (documents: Readonly<Record<string, PolicyDocument>>) =>
  Object.values(documents).flatMap(({ Statement }) => Statement.map(statementOf));
const statements = statementsOf(policies);
const may = (action: string, resource: string, context = {}, of = statements) =>
  allowing(of, { action, resource, context }) !== undefined;

const regional = (service: string, rest: string) => `arn:aws:${service}:${TEST_REGION}:${TEST_ACCOUNT}:${rest}`;
const role = (name: string) => `arn:aws:iam::${TEST_ACCOUNT}:role/${name}`;
/** Property with the name of a resource, its ARN, and actions on it, for the types that the stacks name. */
const NAMED: Record<string, [property: string, arnOf: (name: string) => string, actions: string[]]> = {
  'AWS::CloudWatch::Alarm': [
    'AlarmName',
    (name) => regional('cloudwatch', `alarm:${name}`),
    ['cloudwatch:PutMetricAlarm', 'cloudwatch:DeleteAlarms', 'cloudwatch:TagResource'],
  ],
  'AWS::CloudWatch::Dashboard': [
    'DashboardName',
    (name) => `arn:aws:cloudwatch::${TEST_ACCOUNT}:dashboard/${name}`,
    ['cloudwatch:PutDashboard', 'cloudwatch:TagResource'],
  ],
  'AWS::CodeBuild::Project': ['Name', (name) => regional('codebuild', `project/${name}`), ['codebuild:CreateProject']],
  'AWS::DynamoDB::GlobalTable': [
    'TableName',
    (name) => regional('dynamodb', `table/${name}`),
    ['dynamodb:CreateTable', 'dynamodb:UpdateContinuousBackups', 'dynamodb:DeleteTable', 'dynamodb:TagResource'],
  ],
  'AWS::ECR::Repository': ['RepositoryName', (name) => regional('ecr', `repository/${name}`), ['ecr:CreateRepository']],
  'AWS::ECS::Cluster': ['ClusterName', (name) => regional('ecs', `cluster/${name}`), ['ecs:CreateCluster']],
  'AWS::IAM::Role': ['RoleName', role, ['iam:CreateRole', 'iam:PutRolePolicy', 'iam:DeleteRole']],
  'AWS::Lambda::Function': [
    'FunctionName',
    (name) => regional('lambda', `function:${name}`),
    ['lambda:CreateFunction', 'lambda:UpdateFunctionCode', 'lambda:InvokeFunction', 'lambda:TagResource'],
  ],
  'AWS::Lambda::LayerVersion': [
    'LayerName',
    (name) => regional('lambda', `layer:${name}`),
    ['lambda:PublishLayerVersion'],
  ],
  'AWS::Lambda::WebFunction': [
    'FunctionName',
    (name) => regional('lambda', `web-function/${name}`),
    ['lambda:CreateWebFunction', 'lambda:GetWebFunction', 'lambda:DeleteWebFunction', 'lambda:TagResource'],
  ],
  'AWS::Logs::LogGroup': [
    'LogGroupName',
    (name) => regional('logs', `log-group:${name}:*`),
    ['logs:CreateLogGroup', 'logs:PutRetentionPolicy', 'logs:DeleteLogGroup', 'logs:TagResource'],
  ],
  'AWS::S3::Bucket': ['BucketName', (name) => `arn:aws:s3:::${name}`, ['s3:CreateBucket', 's3:PutBucketPolicy']],
  'AWS::Scheduler::ScheduleGroup': [
    'Name',
    (name) => regional('scheduler', `schedule-group/${name}`),
    ['scheduler:CreateScheduleGroup', 'scheduler:DeleteScheduleGroup'],
  ],
  'AWS::SNS::Topic': ['TopicName', (name) => regional('sns', name), ['sns:CreateTopic', 'sns:Subscribe']],
  'AWS::SQS::Queue': ['QueueName', (name) => regional('sqs', name), ['sqs:CreateQueue', 'sqs:SetQueueAttributes']],
};

test('every type of every kind of stage has its actions, and the files in the repository are those of the templates', () => {
  const files = globSync('AgentPlatform*.json', { cwd: FOLDER }).map((file) => [
    basename(file, '.json'),
    JSON.parse(readFileSync(join(FOLDER, file), 'utf8')),
  ]);
  // After a new type of resource: npm run aws:rights.
  expect(Object.fromEntries(files)).toEqual({ ...policies, AgentPlatformDeployer: DEPLOYER });
});

test('a type whose actions are unknown is refused by name', () => {
  const strange = { Resources: { gate: { Type: 'AWS::New::Gate' } } };
  expect(unknownTypes(['AWS::New::Gate', 'AWS::SQS::Queue'], published)).toEqual(['AWS::New::Gate']);
  expect(() => deployPolicies([strange], published, DEFAULTS)).toThrow(/AWS::New::Gate[\s\S]*npm run aws:rights/);
});

test('each policy has the size that IAM takes, and a role takes all of them', () => {
  expect(Object.values(policies).filter((policy) => lengthOf(policy) > MAX_POLICY_LENGTH)).toEqual([]);
  expect(Object.keys(policies).length).toBeLessThanOrEqual(10);
});

test('what the stacks name may be created, changed and deleted', () => {
  const arns = new Map<string, string>();
  for (const { name: stack, template } of stacks.filter(({ name }) => name.startsWith('platform-'))) {
    for (const { Type, Properties } of Object.values(template.Resources) as Resource[]) {
      const [property, arnOf] = NAMED[Type] ?? [];
      if (!property || !arnOf) continue;
      const nameOf = ([, id]: string[]) => rendered(template.Resources[id!]?.Properties?.FunctionName ?? `<${id}>`);
      // CloudFormation's own names begin with the stack's.
      const name = rendered(Properties?.[property] ?? `${stack}-id`).replace(/<(\w+)>/g, (...match) => nameOf(match));
      arns.set(arnOf(name), Type);
    }
  }
  const missing = [...arns].flatMap(([arn, type]) => NAMED[type]![2].filter((action) => !may(action, arn)));
  expect(missing).toEqual([]);
  expect([...new Set(arns.values())].sort()).toEqual(Object.keys(NAMED).sort());
});

describe('the rights that a deployment needs besides its resources', () => {
  test('reading the version of the bootstrap stack, and code in its bucket', () => {
    expect(may('ssm:GetParameters', regional('ssm', 'parameter/cdk-bootstrap/agents/version'))).toBe(true);
    expect(may('s3:GetObject', 'arn:aws:s3:::cdk-agents-assets-111122223333-eu-west-1/0a1b.zip')).toBe(true);
  });

  test('budgets, and the roles of services', () => {
    expect(may('budgets:ModifyBudget', `arn:aws:budgets::${TEST_ACCOUNT}:budget/platform-prod-eu-west-1`)).toBe(true);
    const create = (service: string) =>
      may('iam:CreateServiceLinkedRole', role(`aws-service-role/${service}/AWSServiceRoleForECS`), {
        'iam:AWSServiceName': [service],
      });
    expect([create('ecs.amazonaws.com'), create('elasticloadbalancing.amazonaws.com')]).toEqual([true, true]);
    expect(create('organizations.amazonaws.com')).toBe(false);
  });

  test('a customer key, through the services that encrypt with it', () => {
    const key = regional('kms', 'key/0a1b2c3d');
    const via = (service?: string) =>
      may('kms:Decrypt', key, service && { 'kms:ViaService': [`${service}.${TEST_REGION}.amazonaws.com`] });
    expect([via('dynamodb'), via('s3'), via('ec2'), via()]).toEqual([true, true, false, false]);
    expect(may('kms:DescribeKey', key)).toBe(true);
  });

  test('passing the roles of the stacks to the services that use them', () => {
    const pass = (name: string, service: string) =>
      may('iam:PassRole', role(name), { 'iam:PassedToService': [`${service}.amazonaws.com`] });
    expect(['lambda', 'ecs-tasks', 'apigateway', 'codebuild'].map((to) => pass('platform-prod-x', to))).not.toContain(
      false,
    );
    expect([pass('platform-prod-x', 'ec2'), pass('Administrator', 'lambda')]).toEqual([false, false]);
  });
});

describe('a deployment may not', () => {
  test.each([
    ['iam:CreateUser', `arn:aws:iam::${TEST_ACCOUNT}:user/x`],
    ['iam:PutUserPolicy', `arn:aws:iam::${TEST_ACCOUNT}:user/x`],
    ['iam:CreatePolicyVersion', `arn:aws:iam::${TEST_ACCOUNT}:policy/x`],
    ['iam:PutRolePolicy', role('Administrator')],
    ['iam:UpdateAssumeRolePolicy', role('cdk-agents-deploy-role')],
    ['lambda:UpdateFunctionCode', regional('lambda', 'function:payroll')],
    ['lambda:InvokeFunction', regional('lambda', 'function:payroll')],
    ['dynamodb:DeleteTable', regional('dynamodb', 'table/payroll')],
    ['dynamodb:GetItem', regional('dynamodb', 'table/platform-prod-main')],
    ['dynamodb:Scan', regional('dynamodb', 'table/platform-prod-main')],
    ['s3:GetObject', 'arn:aws:s3:::payroll/2026.csv'],
    ['s3:ListBucket', 'arn:aws:s3:::payroll'],
    ['s3:DeleteObject', 'arn:aws:s3:::platform-prod-111122223333-eu-west-1/definitions/x'],
    ['secretsmanager:GetSecretValue', regional('secretsmanager', 'secret:platform/prod/wks-0a1b2c')],
    ['logs:DeleteLogGroup', regional('logs', 'log-group:/aws/lambda/payroll:*')],
    ['sns:Publish', regional('sns', 'payroll')],
    ['sts:AssumeRole', role('Administrator')],
  ])('%s %s', (action, resource) => {
    expect(may(action, resource)).toBe(false);
  });
});

test('a stage with a prefix, a role path and a boundary has policies of its own', () => {
  const { namePrefix, rolePath } = ACCOUNT_RULES;
  const own = statementsOf(
    deployPolicies(templates, published, { namePrefix, rolePath, permissionsBoundary: 'AgentPlatformBoundary' }),
  );
  const create = (name: string, boundary?: string) =>
    may('iam:CreateRole', role(name), boundary && { 'iam:PermissionsBoundary': [boundary] }, own);
  const boundary = `arn:aws:iam::${TEST_ACCOUNT}:policy/AgentPlatformBoundary`;
  expect(create('agents/acme-ai-trial-x', boundary)).toBe(true);
  expect(create('agents/acme-ai-trial-x')).toBe(false);
  expect(create('agents/acme-ai-trial-x', `${boundary}Other`)).toBe(false);
  expect(create('acme-ai-trial-x', boundary)).toBe(false);
  expect(may('iam:DeleteRolePermissionsBoundary', role('agents/acme-ai-trial-x'), {}, own)).toBe(false);
  expect(may('lambda:CreateFunction', regional('lambda', 'function:platform-prod-x'), {}, own)).toBe(false);
});
