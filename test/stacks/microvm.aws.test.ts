import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { defineStage } from '#lib/config.ts';
import { FUNCTIONS } from '#lib/functions.ts';
import { environmentOf, policyOf, type Resource, rendered, resourcesOf, synthesise } from '#test/helpers/templates.ts';

const stage = defineStage({
  name: 'vms',
  keepsData: false,
  logLevel: 'info',
  logRetentionDays: 7,
  runRetentionDays: 7,
  throttle: { requestsPerSecond: 1, burst: 1 },
  sandbox: { kind: 'microvm', launchesPerSecond: 20 },
  services: { kind: 'off' },
});
const { app, api, compute } = synthesise(stage);
const IMAGE = 'arn:aws:lambda:eu-west-1:111122223333:microvm-image:platform-vms-sandbox';
const CONNECTORS = 'arn:aws:lambda:eu-west-1:aws:network-connector:aws-network-connector';

describe('a stage with MicroVMs', () => {
  test('cdk-nag has nothing to say that is not acknowledged', () => {
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  });

  test('has nothing that costs while nothing runs: no network, no cluster, no pool', () => {
    const types = new Set(Object.values(compute!.Resources).map(({ Type }) => Type));
    expect([...types].filter((type) => /^AWS::(EC2|ECS|ECR|CodeBuild)::/.test(type))).toEqual([]);
  });

  test('has an image that AWS builds from the folder, with hooks and without rights', () => {
    const [[, { Properties }]] = resourcesOf(compute!, 'AWS::Lambda::MicrovmImage') as [[string, Resource]];
    expect(Properties).toMatchObject({
      Name: 'platform-vms-sandbox',
      BaseImageVersion: '1',
      CpuConfigurations: [{ Architecture: 'ARM_64' }],
      Resources: [{ MinimumMemoryInMiB: 512 }],
      AdditionalOsCapabilities: [],
      Hooks: {
        Port: 9000,
        MicrovmImageHooks: { Ready: 'ENABLED', Validate: 'ENABLED' },
        MicrovmHooks: { Run: 'ENABLED' },
      },
      EnvironmentVariables: expect.arrayContaining([{ Key: 'PLATFORM_RUNNER_HOOKS_PORT', Value: '9000' }]),
    });
    const { BaseImageArn, CodeArtifact, EgressNetworkConnectors } = Properties;
    expect(rendered(BaseImageArn)).toBe('arn:aws:lambda:eu-west-1:aws:microvm-image:al2023-1');
    expect(rendered(CodeArtifact.Uri)).toMatch(/^s3:\/\/.+\.zip$/);
    expect(EgressNetworkConnectors.map((each: unknown) => rendered(each))).toEqual([`${CONNECTORS}:INTERNET_EGRESS`]);
  });

  test('is built by a role that reads the one folder and writes the one log', () => {
    const [[, { Properties }]] = resourcesOf(compute!, 'AWS::IAM::Role').filter(([id]) => /build/i.test(id)) as [
      [string, Resource],
    ];
    for (const { Principal, Condition } of Properties.AssumeRolePolicyDocument.Statement) {
      expect(Principal).toEqual({ Service: 'lambda.amazonaws.com' });
      expect(Condition.StringEquals['aws:SourceAccount']).toEqual({ Ref: 'AWS::AccountId' });
    }
    const [[, policy]] = resourcesOf(compute!, 'AWS::IAM::Policy').filter(([id]) => /build/i.test(id)) as [
      [string, Resource],
    ];
    const { Statement } = policy.Properties.PolicyDocument;
    const actions = Statement.flatMap(({ Action }: { Action: string | string[] }) => Action);
    expect(actions.sort()).toEqual(['logs:CreateLogStream', 'logs:PutLogEvents', 's3:GetObject']);
  });

  test.each(['a2a', 'calls', 'install', 'loop-worker', 'mcp', 'schedule-fired', 'schedule-sweeper'] as const)(
    '%s may start, reach and end VMs of this image, and nothing more',
    (fn) => {
      const { allowed } = policyOf(api, fn);
      const onImage = [
        'lambda:CreateMicrovmAuthToken',
        'lambda:GetMicrovm',
        'lambda:RunMicrovm',
        'lambda:TerminateMicrovm',
      ];
      const ofLambda = Object.entries(allowed).flatMap(([arn, actions]) =>
        actions.filter((action) => action.startsWith('lambda:')).map((action) => `${action} ${arn}`),
      );
      // Durable runs go on in another function.
      const worker = 'lambda:InvokeFunction arn:aws:lambda:eu-west-1:111122223333:function:platform-vms-loop-worker';
      expect(ofLambda.sort()).toEqual(
        [
          ...(fn === 'install' ? [] : [worker]),
          ...onImage.flatMap((action) => [`${action} ${IMAGE}`, `${action} ${IMAGE}:*`]),
          `lambda:PassNetworkConnector ${CONNECTORS}:HTTP_INGRESS`,
          `lambda:PassNetworkConnector ${CONNECTORS}:INTERNET_EGRESS`,
        ].sort(),
      );
      // Timers of schedules are given the role with which they fire.
      expect(Object.values(allowed).flat().includes('iam:PassRole')).toBe(FUNCTIONS[fn].timers !== undefined);
      const config = parseAwsConfig(environmentOf(api, fn));
      expect(config).toMatchObject({ hostedSandbox: 'microvm', microvmImage: IMAGE, launchesPerSecond: 20 });
    },
  );

  test('starts 5 VMs a second unless it says otherwise, and always some', () => {
    const inStage = (sandbox: object) => defineStage({ ...stage, sandbox: { kind: 'microvm', ...sandbox } }).sandbox;
    expect(inStage({})).toMatchObject({ launchesPerSecond: 5 });
    for (const launchesPerSecond of [0, 2.5, 101]) {
      expect(() => inStage({ launchesPerSecond })).toThrow('launchesPerSecond');
    }
  });

  test('the sweeper may list, and end VMs of this image', () => {
    const { allowed } = policyOf(compute!, 'microvm-sweeper');
    expect(allowed[IMAGE]).toEqual(['lambda:TerminateMicrovm']);
    expect(allowed['*']).toContain('lambda:ListMicrovms');
  });
});
