import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { defineStage, PROGRAM_RISKS } from '#lib/config.ts';
import { environmentOf, policyOf, type Resource, rendered, resourcesOf, synthesise } from '#test/helpers/templates.ts';

const common = {
  name: 'short',
  keepsData: false,
  logLevel: 'info',
  logRetentionDays: 7,
  runRetentionDays: 7,
  throttle: { requestsPerSecond: 1, burst: 1 },
  services: { kind: 'off' },
  web: { kind: 'off' },
} as const;
const lambda = { acknowledges: PROGRAM_RISKS, max: 50 } as const;
const stages = {
  microvm: synthesise(defineStage({ ...common, sandbox: { kind: 'microvm', lambda } })),
  fargate: synthesise(defineStage({ ...common, sandbox: { kind: 'fargate', lambda } })),
};
const PROGRAMS = 'arn:aws:lambda:eu-west-1:111122223333:function:platform-short-programs';

test('is off unless a stage acknowledges what it cannot promise, word by word', () => {
  expect(defineStage({ ...common, sandbox: { kind: 'microvm' } }).sandbox).not.toHaveProperty('lambda');
  for (const acknowledges of [undefined, '', 'yes', PROGRAM_RISKS.slice(0, -1)]) {
    const sandbox = { kind: 'microvm', lambda: { acknowledges } } as never;
    expect(() => defineStage({ ...common, sandbox })).toThrow(`as "${PROGRAM_RISKS}"`);
  }
});

describe.each(Object.entries(stages))('short programs beside %s', (_, { app, api, compute }) => {
  const [[id, fn]] = resourcesOf(compute!, 'AWS::Lambda::Function').filter(
    ([, { Properties }]) => Properties.PackageType === 'Image',
  ) as [[string, Resource]];

  test('cdk-nag has nothing to say that is not acknowledged', () => {
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  });

  test('run in a function with an environment for each tenant, in no network', () => {
    expect(fn.Properties).toMatchObject({
      FunctionName: 'platform-short-programs',
      TenancyConfig: { TenantIsolationMode: 'PER_TENANT' },
      Architectures: ['arm64'],
      MemorySize: 640,
      EphemeralStorage: { Size: 6144 },
      Timeout: 900,
      ReservedConcurrentExecutions: 50,
    });
    expect(rendered(fn.Properties.Code.ImageUri)).toMatch(/programsimagerepository\w+>:[0-9a-f]{16}$/);
    for (const member of ['VpcConfig', 'Environment', 'TracingConfig', 'LoggingConfig']) {
      expect(fn.Properties).not.toHaveProperty(member);
    }
    // The image exists before the function.
    expect((fn as Resource & { DependsOn: string[] }).DependsOn).toContainEqual(expect.stringContaining('ready'));
    expect(id).toMatch(/^programs/);
  });

  test('have a role that may do nothing, whatever other policies say', () => {
    const role = fn.Properties.Role['Fn::GetAtt'][0];
    const { Properties } = compute!.Resources[role]!;
    expect(Properties).toEqual({
      AssumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [{ Action: 'sts:AssumeRole', Effect: 'Allow', Principal: { Service: 'lambda.amazonaws.com' } }],
      },
      Tags: expect.anything(),
    });
    const policies = resourcesOf(compute!, 'AWS::IAM::Policy').filter(
      ([
        ,
        {
          Properties: { Roles },
        },
      ]) => JSON.stringify(Roles).includes(`"${role}"`),
    );
    expect(policies.map(([, { Properties: policy }]) => policy.PolicyDocument.Statement)).toEqual([
      [{ Effect: 'Deny', Action: '*', Resource: '*' }],
    ]);
  });

  test('come from an image of its own, for which Lambda may pull and only the build may push', () => {
    const [, { Properties }] = resourcesOf(compute!, 'AWS::ECR::Repository').find(
      ([
        ,
        {
          Properties: { RepositoryName },
        },
      ]) => RepositoryName === 'platform-short-programs',
    )!;
    const statements = Properties.RepositoryPolicyText.Statement;
    expect(statements).toEqual([
      {
        Effect: 'Allow',
        Principal: { Service: 'lambda.amazonaws.com' },
        Action: ['ecr:BatchCheckLayerAvailability', 'ecr:BatchGetImage', 'ecr:GetDownloadUrlForLayer'],
      },
    ]);
    expect(Properties.ImageTagMutability).toBe('IMMUTABLE');
  });

  test.each(['a2a', 'calls', 'loop-worker', 'mcp', 'schedule-fired', 'schedule-sweeper'] as const)(
    '%s may invoke it',
    (name) => {
      const { allowed } = policyOf(api, name);
      expect(allowed[PROGRAMS]).toEqual(['lambda:InvokeFunction']);
      expect(parseAwsConfig(environmentOf(api, name)).programMemoryMb).toBe(640);
      const transfers = Object.entries(allowed).filter(([arn]) => arn.endsWith('/transfers/*'));
      expect(transfers.flatMap(([, actions]) => actions).sort()).toEqual(['s3:GetObject', 's3:PutObject']);
    },
  );

  test('no other function may', () => {
    for (const [, { Properties }] of resourcesOf(api, 'AWS::Lambda::Function')) {
      const name = String(Properties.FunctionName ?? '').replace('platform-short-', '');
      if (['a2a', 'calls', 'loop-worker', 'mcp', 'schedule-fired', 'schedule-sweeper', ''].includes(name)) continue;
      expect([name, policyOf(api, name as 'install').allowed]).not.toHaveProperty([1, PROGRAMS]);
      expect(environmentOf(api, name as 'install')).not.toHaveProperty('PLATFORM_PROGRAM_MEMORY_MB');
    }
  });
});
