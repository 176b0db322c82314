import { readFileSync } from 'node:fs';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { defineStage } from '#lib/config.ts';
import {
  environmentOf,
  functionIdOf,
  policyOf,
  type Resource,
  rendered,
  resourcesOf,
  synthesise,
  type Template,
} from '#test/helpers/templates.ts';
import { allowing, statementOf } from '#test/rehearsal/iam.ts';
import { stage as dev } from '../../stages/dev.ts';

const stage = defineStage({ ...dev, sandbox: { kind: 'fargate', idle: 2, max: 30 }, services: { kind: 'off' } });
const { app, api, compute } = synthesise(stage) as Required<ReturnType<typeof synthesise>>;
const the = (type: string) => resourcesOf(compute, type)[0]![1].Properties;

test('cdk-nag has nothing to say that is not acknowledged', () => {
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
});

test('a stage without programs has none of it', () => {
  expect(
    synthesise(defineStage({ ...dev, sandbox: { kind: 'none' }, services: { kind: 'off' } })).compute,
  ).toBeUndefined();
});

describe('the network', () => {
  test('costs nothing while there are no calls, and has no route between its parts', () => {
    const types = Object.values(compute.Resources).map(({ Type }) => Type);
    expect(types).not.toContain('AWS::EC2::NatGateway');
    expect(types).not.toContain('AWS::EC2::EIP');
    expect(types.filter((type) => type.startsWith('AWS::EC2::VPCPeering') || type.includes('TransitGateway'))).toEqual(
      [],
    );
    const endpoints = resourcesOf(compute, 'AWS::EC2::VPCEndpoint').map(([, { Properties }]) => Properties);
    expect(endpoints.map(({ VpcEndpointType }) => VpcEndpointType)).toEqual(['Gateway', 'Gateway']);
    expect(endpoints.map(({ ServiceName }) => rendered(ServiceName)).sort()).toEqual([
      'com.amazonaws.eu-west-1.dynamodb',
      'com.amazonaws.eu-west-1.s3',
    ]);
  });

  test('lets in to tasks only the dispatcher, at one port, and out only HTTPS', () => {
    const groups = resourcesOf(compute, 'AWS::EC2::SecurityGroup');
    const [taskId, dispatchId] = ['tasks', 'dispatch'].map(
      (name) => groups.find(([id]) => id.startsWith(`network${name}`))![0],
    );
    const group = (id: string) => ({ 'Fn::GetAtt': [id, 'GroupId'] });
    expect(groups).toHaveLength(2);
    for (const [, { Properties }] of groups) {
      expect(Properties.SecurityGroupIngress).toBeUndefined();
      expect(Properties.SecurityGroupEgress).toEqual([
        { CidrIp: '0.0.0.0/0', Description: expect.any(String), IpProtocol: 'tcp', FromPort: 443, ToPort: 443 },
      ]);
    }
    const rule = { IpProtocol: 'tcp', FromPort: 8080, ToPort: 8080, Description: 'jobs' };
    expect(resourcesOf(compute, 'AWS::EC2::SecurityGroupIngress').map(([, { Properties }]) => Properties)).toEqual([
      { ...rule, GroupId: group(taskId!), SourceSecurityGroupId: group(dispatchId!) },
    ]);
    expect(resourcesOf(compute, 'AWS::EC2::SecurityGroupEgress').map(([, { Properties }]) => Properties)).toEqual([
      { ...rule, GroupId: group(dispatchId!), DestinationSecurityGroupId: group(taskId!) },
    ]);
  });

  test('lets out the ports that manifests may name, and the functions know them', () => {
    const asked = defineStage({
      ...dev,
      sandbox: { kind: 'fargate' },
      services: { outboundPorts: [80, 5432] },
      egressPorts: [443, 5432, { from: 27017, to: 27019 }],
      egressPrivateRanges: ['10.20.0.0/16'],
    });
    const stacks = synthesise(asked) as Required<ReturnType<typeof synthesise>>;
    const portsOf = (template: Template, name: string) =>
      resourcesOf(template, 'AWS::EC2::SecurityGroup')
        .find(([id]) => id.startsWith(`network${name}`))![1]
        .Properties.SecurityGroupEgress.map((rule: Record<string, number>) => [rule.FromPort, rule.ToPort]);
    const database = [
      [5432, 5432],
      [27017, 27019],
    ];
    expect(portsOf(stacks.compute, 'tasks')).toEqual([[443, 443], ...database]);
    expect(portsOf(stacks.services, 'instances')).toEqual([[443, 443], [80, 80], ...database]);
    for (const fn of ['calls', 'services', 'agents'] as const) {
      expect(parseAwsConfig(environmentOf(stacks.api, fn))).toMatchObject({
        egressPorts: [
          { from: 443, to: 443 },
          { from: 5432, to: 5432 },
          { from: 27017, to: 27019 },
        ],
        egressPrivateRanges: ['10.20.0.0/16'],
      });
      expect(parseAwsConfig(environmentOf(api, fn))).toMatchObject({ egressPorts: [], egressPrivateRanges: [] });
    }
  });

  test.each([
    [{ egressPorts: [0] }, /egressPorts/],
    [{ egressPorts: [{ from: 9, to: 8 }] }, /`from` must not be above `to`/],
    [{ egressPrivateRanges: ['127.0.0.0/8'] }, /must be part of a private network[\s\S]*egressPrivateRanges/],
    [{ egressPrivateRanges: ['10.0.0.1'] }, /must be a range of addresses/],
  ])('of the settings %j are refused', (wrong, message) => {
    expect(() => defineStage({ ...dev, ...wrong })).toThrow(message);
  });

  test('has the dispatcher where there is no way to the internet', () => {
    const routes = resourcesOf(compute, 'AWS::EC2::Route').map(([, { Properties }]) => Properties);
    expect(routes.map(({ DestinationCidrBlock }) => DestinationCidrBlock)).toEqual(['0.0.0.0/0', '0.0.0.0/0']);
    const open = new Set(routes.map(({ RouteTableId }) => RouteTableId.Ref));
    const subnetsOf = (isOpen: boolean) =>
      resourcesOf(compute, 'AWS::EC2::SubnetRouteTableAssociation')
        .filter(([, { Properties }]) => open.has(Properties.RouteTableId.Ref) === isOpen)
        .map(([, { Properties }]) => Properties.SubnetId.Ref);
    const [, { Properties }] = resourcesOf(compute, 'AWS::Lambda::Function').find(([id]) =>
      id.startsWith('sandboxdispatch'),
    )!;
    expect(Properties.VpcConfig.SubnetIds.map(({ Ref }: { Ref: string }) => Ref)).toEqual(subnetsOf(false));
    const { ecsSubnets } = parseAwsConfig(environmentOf(compute, 'pool-keeper'));
    expect(ecsSubnets).toEqual(subnetsOf(true));
  });
});

describe('a task', () => {
  const definition = the('AWS::ECS::TaskDefinition');
  const [container] = definition.ContainerDefinitions;

  test('has no role whose credentials its program could ask for', () => {
    expect(definition.TaskRoleArn).toBeUndefined();
    const roles = resourcesOf(compute, 'AWS::IAM::Role').filter(([, { Properties }]) =>
      JSON.stringify(Properties.AssumeRolePolicyDocument).includes('ecs-tasks'),
    );
    expect(roles).toHaveLength(1);
  });

  test('may do as little as Fargate lets it', () => {
    expect(definition).toMatchObject({
      NetworkMode: 'awsvpc',
      RequiresCompatibilities: ['FARGATE'],
      Cpu: '512',
      Memory: '2048',
      RuntimePlatform: { CpuArchitecture: 'ARM64' },
    });
    expect(definition.ContainerDefinitions).toHaveLength(1);
    expect(container).toMatchObject({
      User: '1000:1000',
      ReadonlyRootFilesystem: true,
      LinuxParameters: { Capabilities: { Drop: ['ALL'] } },
      PortMappings: [{ ContainerPort: 8080, Protocol: 'tcp' }],
    });
    expect(container.Privileged ?? false).toBe(false);
  });

  test('shows nothing in its description but how long it waits', () => {
    expect(container.Environment).toEqual([
      { Name: 'PLATFORM_RUNNER_LEASE_SECONDS', Value: '3600' },
      { Name: 'PLATFORM_RUNNER_NOTICE_SECONDS', Value: '110' },
    ]);
    expect(container.Secrets).toBeUndefined();
  });

  test('may be one of Fargate Spot, and has all the time until it is taken away, unless the stage has none of these', () => {
    const providers = 'AWS::ECS::ClusterCapacityProviderAssociations';
    expect(the(providers)).toMatchObject({ CapacityProviders: ['FARGATE', 'FARGATE_SPOT'] });
    expect(container.StopTimeout).toBe(120);
    expect(parseAwsConfig(environmentOf(api, 'calls')).sandboxSpot).toBe('retried');
    const without = synthesise(defineStage({ ...stage, sandbox: { kind: 'fargate', spot: 'never' } }));
    expect(resourcesOf(without.compute!, providers)).toEqual([]);
    const [task] = resourcesOf(without.compute!, 'AWS::ECS::TaskDefinition')[0]![1].Properties.ContainerDefinitions;
    expect(task).toMatchObject({ StopTimeout: 2, Environment: [{ Name: 'PLATFORM_RUNNER_LEASE_SECONDS' }] });
    expect(parseAwsConfig(environmentOf(without.api, 'calls')).sandboxSpot).toBe('never');
  });

  test('is described only when its image is there', () => {
    const [wait] = resourcesOf(compute, 'AWS::CloudFormation::WaitCondition')[0]!;
    const [, task] = resourcesOf(compute, 'AWS::ECS::TaskDefinition')[0]!;
    expect((task as unknown as { DependsOn: string[] }).DependsOn).toContain(wait);
    const [, parts] = container.Image['Fn::Join'];
    expect(parts.at(-1)).toBe(`:${wait.slice('imageready'.length, 'imageready'.length + 16)}`);
  });
});

describe('the image', () => {
  const PINNED = `registry.example.org/debian/node:24@sha256:${'0a'.repeat(32)}`;
  const tagIn = (template: Template) =>
    resourcesOf(template, 'AWS::CloudFormation::WaitCondition')[0]![0].slice(-24, -8);

  test('is built again by the clock, from base images of that day, under the tag that tasks are started from', () => {
    const [[id, { Properties }]] = resourcesOf(compute, 'AWS::Events::Rule').filter(([each]) =>
      each.startsWith('image'),
    ) as [[string, Resource]];
    expect([id, Properties.ScheduleExpression]).toEqual([expect.stringMatching(/^imageclock/), 'rate(7 days)']);
    const [{ Arn, Input, RoleArn }] = Properties.Targets;
    const [[project]] = resourcesOf(compute, 'AWS::CodeBuild::Project') as [[string, Resource]];
    expect(rendered(Arn)).toBe(`<${project}.Arn>`);
    const { environmentVariablesOverride } = JSON.parse(Input);
    const [, parts] = the('AWS::ECS::TaskDefinition').ContainerDefinitions[0].Image['Fn::Join'];
    expect(environmentVariablesOverride).toEqual([
      { name: 'TAG', value: parts.at(-1).slice(1) },
      { name: 'AGAIN', value: 'true' },
    ]);
    // EventBridge may start only this build.
    const policies = resourcesOf(compute, 'AWS::IAM::Policy').map(([, each]) => each.Properties);
    const [policy] = policies.filter(({ Roles }) =>
      Roles.some(({ Ref }: { Ref: string }) => Ref === RoleArn['Fn::GetAtt'][0]),
    );
    expect(policy.PolicyDocument.Statement).toEqual([
      { Action: 'codebuild:StartBuild', Effect: 'Allow', Resource: { 'Fn::GetAtt': [project, 'Arn'] } },
    ]);
    expect(the('AWS::ECR::Repository')).toMatchObject({
      ImageTagMutability: 'MUTABLE',
      ImageScanningConfiguration: { ScanOnPush: true },
    });
  });

  test('is built from the base images that a stage pins', () => {
    const pinned = synthesise(defineStage({ ...stage, bases: { node: PINNED } })).compute!;
    const basesOf = (template: Template) => {
      const [[, { Properties }]] = resourcesOf(template, 'AWS::CodeBuild::Project') as [[string, Resource]];
      return Properties.Environment.EnvironmentVariables.find(({ Name }: { Name: string }) => Name === 'BASES').Value;
    };
    expect([basesOf(compute), basesOf(pinned)]).toEqual(['', `--build-arg NODE_IMAGE=${PINNED}`]);
    expect(tagIn(pinned)).not.toBe(tagIn(compute));
    const file = readFileSync(new URL('../../runner/Dockerfile', import.meta.url), 'utf8');
    for (const name of ['NODE_IMAGE', 'PYTHON_IMAGE']) expect(file).toMatch(new RegExp(`^ARG ${name}=`, 'm'));
  });

  test('is not built again for services, whose instances keep the one that they were made with', () => {
    const { services } = synthesise(defineStage({ ...dev, services: {} }));
    expect(resourcesOf(services!, 'AWS::ECR::Repository')[0]![1].Properties.ImageTagMutability).toBe('IMMUTABLE');
    expect(Object.keys(services!.Resources).filter((id) => id.startsWith('imageclock'))).toEqual([]);
  });
});

describe('the functions', () => {
  const POOL = 'arn:aws:dynamodb:eu-west-1:111122223333:table/platform-dev-counters';
  const NETWORK = [
    'ec2:AssignPrivateIpAddresses',
    'ec2:CreateNetworkInterface',
    'ec2:DeleteNetworkInterface',
    'ec2:DescribeNetworkInterfaces',
    'ec2:DescribeSubnets',
    'ec2:UnassignPrivateIpAddresses',
  ];
  const ITEMS = ['dynamodb:DeleteItem', 'dynamodb:PutItem', 'dynamodb:Query', 'dynamodb:UpdateItem'];
  const withoutLogs = (name: string) =>
    Object.fromEntries(
      Object.entries(policyOf(compute, name).allowed)
        .map(([arn, actions]) => [arn, actions.filter((action) => !/^(logs|xray):/.test(action)).sort()] as const)
        .filter(([, actions]) => actions.length > 0),
    );

  test('sandbox-dispatch may write the pool, and what Lambda needs to put it into the network', () => {
    expect(withoutLogs('sandbox-dispatch')).toEqual({
      [POOL]: ['dynamodb:DeleteItem', 'dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query', 'dynamodb:UpdateItem'],
      '*': NETWORK,
    });
  });

  test("sandbox-dispatch's own code may not change the network", () => {
    const { denied } = policyOf(compute, 'sandbox-dispatch');
    expect(denied).toEqual([
      {
        Effect: 'Deny',
        Action: [...NETWORK, 'ec2:DetachNetworkInterface'].sort(),
        Resource: '*',
        Condition: { ArnEquals: { 'lambda:SourceFunctionArn': expect.anything() } },
      },
    ]);
    const inText = (value: unknown) =>
      JSON.parse(
        JSON.stringify(value).replaceAll(/\{"Fn::Sub":"[^"]+"\}/g, (sub) => JSON.stringify(rendered(JSON.parse(sub)))),
      );
    const own = 'arn:aws:lambda:eu-west-1:111122223333:function:platform-dev-sandbox-dispatch';
    const statements = [{ Effect: 'Allow', Action: NETWORK, Resource: '*' }, ...denied.map(inText)].map(statementOf);
    const ask = { action: 'ec2:CreateNetworkInterface', resource: 'arn:aws:ec2:eu-west-1:111122223333:subnet/x' };
    // Lambda itself calls without the ARN of the function.
    expect(allowing(statements, ask)).toBeDefined();
    expect(allowing(statements, { ...ask, context: { 'lambda:SourceFunctionArn': [own] } })).toBeUndefined();
  });

  test('pool-keeper may run these tasks in this cluster, and stop them', () => {
    const [taskId] = resourcesOf(compute, 'AWS::ECS::TaskDefinition')[0]!;
    const [roleId] = resourcesOf(compute, 'AWS::IAM::Role').find(([id]) => id.startsWith('taskexecution'))!;
    expect(withoutLogs('pool-keeper')).toEqual({
      [POOL]: ITEMS,
      [`<${taskId}>`]: ['ecs:RunTask'],
      'arn:aws:ecs:eu-west-1:111122223333:task/platform-dev-sandbox/*': [
        'ecs:DescribeTasks',
        'ecs:StopTask',
        'ecs:TagResource',
      ],
      '*': ['ecs:ListTasks'],
      [`<${roleId}.Arn>`]: ['iam:PassRole'],
    });
    const statements = resourcesOf(compute, 'AWS::IAM::Policy').flatMap(
      ([, { Properties }]) => Properties.PolicyDocument.Statement,
    );
    for (const action of ['ecs:RunTask', 'ecs:TagResource', 'ecs:ListTasks', 'iam:PassRole']) {
      expect(statements.find(({ Action }) => Action === action).Condition).toBeDefined();
    }
  });

  test('pool-cleaner may look at tasks and stop them, after the keeper has gone and before what they are in', () => {
    expect(withoutLogs('pool-cleaner')).toEqual({
      'arn:aws:ecs:eu-west-1:111122223333:task/platform-dev-sandbox/*': ['ecs:DescribeTasks', 'ecs:StopTask'],
      '*': ['ecs:ListTasks'],
    });
    const [[id, cleaner]] = resourcesOf(compute, 'Custom::StopTasks') as [[string, Resource]];
    const places = ['AWS::ECS::Cluster', 'AWS::EC2::VPC', 'AWS::EC2::Subnet', 'AWS::EC2::SecurityGroup'];
    for (const type of places) {
      for (const [place] of resourcesOf(compute, type)) expect(cleaner.DependsOn).toContain(place);
    }
    const { DependsOn } = compute.Resources[functionIdOf(compute, 'pool-keeper')]!;
    expect(DependsOn).toContain(id);
  });

  test('pool-keeper is told of tasks of this cluster that run or have ended, and comes every minute', () => {
    const all = resourcesOf(compute, 'AWS::Events::Rule').filter(([id]) => !id.startsWith('image'));
    const rules = all.map(([, { Properties }]) => Properties);
    expect(rules.map(({ ScheduleExpression }) => ScheduleExpression).filter(Boolean)).toEqual(['rate(1 minute)']);
    const { EventPattern } = rules.find((rule) => rule.EventPattern)!;
    expect({
      ...EventPattern,
      detail: { ...EventPattern.detail, clusterArn: rendered(EventPattern.detail.clusterArn[0]) },
    }).toEqual({
      source: ['aws.ecs'],
      'detail-type': ['ECS Task State Change'],
      detail: {
        clusterArn: 'arn:aws:ecs:eu-west-1:111122223333:cluster/platform-dev-sandbox',
        lastStatus: ['RUNNING', 'STOPPED'],
      },
    });
  });

  test('have the settings of the stage', () => {
    expect(parseAwsConfig(environmentOf(compute, 'pool-keeper'))).toMatchObject({
      poolIdle: 2,
      poolMax: 30,
      ecsCluster: 'platform-dev-sandbox',
    });
    expect(parseAwsConfig(environmentOf(compute, 'sandbox-dispatch')).poolMax).toBe(30);
  });

  test.each(['a2a', 'calls', 'install', 'loop-worker', 'mcp', 'schedule-fired', 'schedule-sweeper'])(
    '%s may call them, and read what it gives to tasks',
    (fn) => {
      const { allowed } = policyOf(api, fn);
      const name = 'arn:aws:lambda:eu-west-1:111122223333:function:platform-dev-';
      expect(allowed[`${name}sandbox-dispatch`]).toEqual(['lambda:InvokeFunction']);
      expect(allowed[`${name}pool-keeper`]).toEqual(['lambda:InvokeFunction']);
      const blobs = 'arn:aws:s3:::platform-dev-111122223333-eu-west-1';
      for (const folder of ['bundles', 'layers']) expect(allowed[`${blobs}/${folder}/*`]).toContain('s3:GetObject');
      expect(parseAwsConfig(environmentOf(api, fn)).hostedSandbox).toBe('fargate');
    },
  );

  test('no other function may', () => {
    // CDK's own functions have no name.
    const others = resourcesOf(api, 'AWS::Lambda::Function').flatMap(
      ([, { Properties }]) => Properties.FunctionName?.slice('platform-dev-'.length) ?? [],
    );
    for (const fn of others.filter(
      (name) => !['a2a', 'calls', 'install', 'loop-worker', 'mcp', 'schedule-fired', 'schedule-sweeper'].includes(name),
    )) {
      expect(Object.keys(policyOf(api, fn).allowed).filter((arn) => /sandbox-dispatch|pool-keeper/.test(arn))).toEqual(
        [],
      );
    }
  });
});
