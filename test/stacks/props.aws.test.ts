import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App, PermissionsBoundary, Stack, Stage, Tags } from 'aws-cdk-lib';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { parseServiceSettings } from '#aws/services/settings.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { defineStage } from '#lib/config.ts';
import { AgentPlatform, type AgentPlatformProps } from '#lib/platform.ts';
import { createdBefore } from '#test/helpers/creation-order.ts';
import { needsOf } from '#test/helpers/resource-policies.ts';
import {
  emptyFolders,
  environmentOf,
  functionIdOf,
  policyOf,
  type Resource,
  rendered,
  resourcesOf,
  type Synthesis,
  synthesise,
  type Template,
} from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import {
  ACCOUNT_RULES,
  ACCOUNT_SERVICES,
  BALANCED_SERVICES,
  MICROVMS_OF_YOURS,
  NETWORK_OF_YOURS,
  PRIVATE_NETWORKS,
} from './props.ts';

const REGION_AND_ACCOUNT = 'eu-west-1:111122223333';
const typesOf = (template: Template): string[] => Object.values(template.Resources).map(({ Type }) => Type);
const propertiesOf = (template: Template, type: string) =>
  resourcesOf(template, type).map(([, { Properties }]) => Properties);
const nagOf = ({ app }: Synthesis) => new AwsSolutionsChecks().validateScope(app).violations;

const account = synthesise(ACCOUNT_RULES);
const networks = synthesise(PRIVATE_NETWORKS);
const yours = synthesise(NETWORK_OF_YOURS);
const landing = synthesise(ACCOUNT_SERVICES);
const balanced = synthesise(BALANCED_SERVICES);
const vms = synthesise(MICROVMS_OF_YOURS);

test.each(Object.entries({ account, networks, yours, landing, balanced, vms }))(
  'cdk-nag has no finding: %s',
  (_, synthesis) => {
    expect(nagOf(synthesis)).toEqual([]);
  },
);

describe('what an account may demand', () => {
  const { KEY } = { KEY: ACCOUNT_RULES.keyArn! };

  test('a first part of every name', () => {
    const names = account.stacks.map(({ name }) => name);
    expect(names.every((name) => name.startsWith('acme-ai-trial-'))).toBe(true);
    // Except for tags and titles, every name has the prefix.
    for (const { template } of account.stacks) {
      expect(JSON.stringify(template)).not.toMatch(/platform-trial|platform\/trial/);
    }
    const config = parseAwsConfig(environmentOf(account.api, 'calls'));
    expect(config).toMatchObject({ tablePrefix: 'acme-ai-trial-', secretPrefix: 'acme-ai/trial' });
    const tables = propertiesOf(account.data, 'AWS::DynamoDB::GlobalTable').map(({ TableName }) => TableName);
    expect(tables.sort()).toEqual(['counters', 'main', 'runs'].map((name) => config.tablePrefix + name));
  });

  test('a path of all roles, also where a setting names one', () => {
    const roles = account.stacks.flatMap(({ template }) => propertiesOf(template, 'AWS::IAM::Role'));
    expect(roles.length).toBeGreaterThan(20);
    for (const { Path } of roles) expect(Path).toBe('/agents/');
    const arn = 'arn:aws:iam::111122223333:role/agents/acme-ai-trial-timers-eu-west-1';
    expect(environmentOf(account.api, 'schedules').PLATFORM_TIMER_ROLE_ARN).toBe(arn);
    expect(policyOf(account.api, 'schedules').allowed[arn]).toEqual(['iam:PassRole']);
  });

  test('a key of KMS for tables, bucket and vaults', () => {
    const [table] = propertiesOf(account.data, 'AWS::DynamoDB::GlobalTable');
    expect(table.SSESpecification).toEqual({ SSEEnabled: true, SSEType: 'KMS' });
    expect(rendered(table.Replicas[0].SSESpecification.KMSMasterKeyId)).toBe(KEY);
    const [bucket] = propertiesOf(account.data, 'AWS::S3::Bucket');
    const [encryption] = bucket.BucketEncryption.ServerSideEncryptionConfiguration;
    expect(encryption).toEqual({
      BucketKeyEnabled: true,
      ServerSideEncryptionByDefault: { KMSMasterKeyID: KEY, SSEAlgorithm: 'aws:kms' },
    });
    // Who uses what it encrypts has rights on it, and nobody else.
    for (const fn of FUNCTION_NAMES) {
      const { allowed } = policyOf(account.api, fn);
      const isUser = Object.keys(allowed).some((arn) => /:(dynamodb|s3|secretsmanager):/.test(arn));
      expect(allowed[KEY]?.includes('kms:Decrypt') ?? false, fn).toBe(isUser);
    }
    expect(parseAwsConfig(environmentOf(account.api, 'keys')).secretKey).toBe(undefined);
    const writers = FUNCTION_NAMES.filter((fn) => environmentOf(account.api, fn).PLATFORM_SECRET_KEY === KEY);
    expect(writers.length).toBeGreaterThan(0);
    for (const fn of writers)
      expect(Object.values(policyOf(account.api, fn).allowed).flat()).toContain('secretsmanager:CreateSecret');
  });

  test('a topic of its own for alarms', () => {
    expect(typesOf(account.observability)).not.toContain('AWS::SNS::Topic');
    const alarms = propertiesOf(account.observability, 'AWS::CloudWatch::Alarm');
    for (const { AlarmActions, OKActions } of alarms) {
      expect([AlarmActions, OKActions]).toEqual([[ACCOUNT_RULES.alarms!.topicArn], [ACCOUNT_RULES.alarms!.topicArn]]);
    }
  });

  test('any retention of logs that CloudWatch offers', () => {
    const groups = account.stacks.flatMap(({ template }) => propertiesOf(template, 'AWS::Logs::LogGroup'));
    expect(new Set(groups.map(({ RetentionInDays }) => RetentionInDays))).toEqual(new Set([731]));
  });

  test('reserved and provisioned concurrency', () => {
    const of = (fn: string) =>
      account.api.Resources[functionIdOf(account.api, fn)]!.Properties.ReservedConcurrentExecutions;
    expect([of('calls'), of('schedule-fired'), of('agents')]).toEqual([500, 100, undefined]);
    // Environments are kept of the version that the API calls, by an alias that each deployment replaces.
    const [[aliasId, alias]] = resourcesOf(account.api, 'AWS::Lambda::Alias') as [[string, Resource]];
    const version = { 'Fn::GetAtt': [expect.stringMatching(/^callsFunctionCurrentVersion/), 'Version'] };
    expect(alias.Properties).toMatchObject({
      Name: { 'Fn::Join': ['', ['v', version]] },
      FunctionName: { Ref: functionIdOf(account.api, 'calls') },
      FunctionVersion: version,
      ProvisionedConcurrencyConfig: { ProvisionedConcurrentExecutions: 5 },
    });
    const [[stageId, { Properties }]] = resourcesOf(account.api, 'AWS::ApiGateway::Stage') as [[string, Resource]];
    expect(Properties.Variables.calls).toEqual(alias.Properties.Name);
    expect(createdBefore(account.api, stageId)).toContain(aliasId);
  });

  test('a deployment has room for two versions of what is kept started', () => {
    const concurrency = { reserved: { calls: 9, agents: 1 }, provisioned: { calls: 5, runs: 3 } };
    expect(() => defineStage({ ...dev, concurrency })).toThrow(
      /must be at least twice the provisioned concurrency \(10\)[\s\S]*concurrency\.reserved\.calls/,
    );
  });

  test('a private API, for certain addresses', () => {
    const [[, { Properties }]] = resourcesOf(account.api, 'AWS::ApiGateway::RestApi') as [[string, Resource]];
    const { vpcEndpointIds, ranges } = ACCOUNT_RULES.access;
    expect(Properties.EndpointConfiguration).toEqual({ Types: ['PRIVATE'], VpcEndpointIds: vpcEndpointIds });
    const statements = Properties.Policy.Statement.map(({ Effect, Condition }: Record<string, unknown>) => [
      Effect,
      Condition,
    ]);
    expect(statements).toEqual([
      ['Allow', undefined],
      ['Deny', { StringNotEquals: { 'aws:SourceVpce': vpcEndpointIds } }],
      ['Deny', { NotIpAddress: { 'aws:VpcSourceIp': ranges } }],
    ]);
  });
});

test('a public API may be open to certain addresses, and ask clients for certificates', () => {
  const { api } = synthesise(
    defineStage({
      ...dev,
      services: { kind: 'off' },
      web: { kind: 'off' },
      sandbox: { kind: 'none' },
      access: { ranges: ['198.51.100.0/24', '2001:db8::/32'] },
      domain: {
        name: 'agents.example.org',
        certificateArn: `arn:aws:acm:${REGION_AND_ACCOUNT}:certificate/0a1b2c3d-0000-4000-8000-000000000000`,
        mtls: { truststore: 's3://trust-of-acme/clients/all.pem', version: 'v1' },
      },
    }),
  );
  const [restApi] = propertiesOf(api, 'AWS::ApiGateway::RestApi');
  expect(restApi.EndpointConfiguration).toEqual({ Types: ['REGIONAL'] });
  expect(restApi.Policy.Statement[1]).toMatchObject({
    Effect: 'Deny',
    Condition: { NotIpAddress: { 'aws:SourceIp': ['198.51.100.0/24', '2001:db8::/32'] } },
  });
  // The address of AWS would let in whoever shows no certificate.
  expect(restApi.DisableExecuteApiEndpoint).toBe(true);
  const [domain] = propertiesOf(api, 'AWS::ApiGateway::DomainName');
  expect(domain.MutualTlsAuthentication).toEqual({
    TruststoreUri: 's3://trust-of-acme/clients/all.pem',
    TruststoreVersion: 'v1',
  });
});

describe('networks', () => {
  const subnetsIn = ({ compute, services }: Synthesis) =>
    [compute!, services].filter((each) => each !== undefined).flatMap((each) => propertiesOf(each, 'AWS::EC2::Subnet'));

  test('have the addresses that the stage names', () => {
    const cidrs = [networks.compute!, networks.services!].map(
      (each) => propertiesOf(each, 'AWS::EC2::VPC')[0].CidrBlock,
    );
    expect(cidrs).toEqual(['10.90.0.0/18', '10.91.0.0/19']);
    for (const { CidrBlock } of subnetsIn(networks)) expect(CidrBlock).toMatch(/^10\.9[01]\./);
  });

  test('may hold tasks and instances in private subnets with NAT', () => {
    for (const template of [networks.compute!, networks.services!]) {
      expect(propertiesOf(template, 'AWS::EC2::NatGateway')).toHaveLength(2);
    }
    const config = parseAwsConfig(environmentOf(networks.compute!, 'pool-keeper'));
    expect(config.ecsPublicIp).toBe(false);
    const routed = (template: Template, ids: readonly string[]) =>
      ids.map((id) => {
        const tables = propertiesOf(template, 'AWS::EC2::SubnetRouteTableAssociation');
        const table = tables.find(({ SubnetId }) => SubnetId.Ref === id).RouteTableId.Ref;
        return propertiesOf(template, 'AWS::EC2::Route').some(
          (route) => route.RouteTableId.Ref === table && route.NatGatewayId,
        );
      });
    expect(routed(networks.compute!, config.ecsSubnets)).toEqual([true, true]);
    const services = parseServiceSettings(environmentOf(networks.services!, 'service-keeper').PLATFORM_SERVICES!);
    expect(services.public_ip).toBe(false);
    expect(routed(networks.services!, services.subnets)).toEqual([true, true]);
    // Load balancers stay reachable.
    const [gateway] = propertiesOf(networks.services!, 'AWS::ECS::Gateway');
    const balancers = gateway.Configuration.HostSharedAlb.NetworkConfiguration.Subnets.map(
      ({ Ref }: { Ref: string }) => Ref,
    );
    expect(balancers.some((id: string) => services.subnets.includes(id))).toBe(false);
  });

  test('may reach AWS by endpoints alone', () => {
    const { compute } = synthesise(
      defineStage({ ...dev, services: { kind: 'off' }, sandbox: { kind: 'fargate', egress: 'endpoints' } }),
    );
    const types = typesOf(compute!);
    for (const type of ['NatGateway', 'InternetGateway']) expect(types).not.toContain(`AWS::EC2::${type}`);
    const endpoints = propertiesOf(compute!, 'AWS::EC2::VPCEndpoint').map(({ ServiceName }) =>
      rendered(ServiceName).split('.').slice(3).join('.'),
    );
    expect(endpoints.sort()).toEqual(['dynamodb', 'ecr.api', 'ecr.dkr', 'logs', 's3']);
    expect(parseAwsConfig(environmentOf(compute!, 'pool-keeper')).ecsPublicIp).toBe(false);
  });

  test('may be yours', () => {
    expect(typesOf(yours.compute!).filter((type) => /EC2::(VPC|Subnet|NatGateway|Route)/.test(type))).toEqual([]);
    const { vpc } = NETWORK_OF_YOURS.sandbox as {
      vpc: { id: string; taskSubnetIds: string[]; functionSubnetIds: string[] };
    };
    for (const { VpcId } of propertiesOf(yours.compute!, 'AWS::EC2::SecurityGroup')) expect(VpcId).toBe(vpc.id);
    const config = parseAwsConfig(environmentOf(yours.compute!, 'pool-keeper'));
    expect([config.ecsSubnets, config.ecsPublicIp]).toEqual([vpc.taskSubnetIds, false]);
    const dispatch = yours.compute!.Resources[functionIdOf(yours.compute!, 'sandbox-dispatch')]!.Properties;
    expect(dispatch.VpcConfig.SubnetIds).toEqual(vpc.functionSubnetIds);
  });
});

describe('an account with services of its own', () => {
  const all = landing.stacks.map(({ template }) => template);
  const every = (type: string, among = all) => among.flatMap((template) => propertiesOf(template, type));
  const KEY = ACCOUNT_RULES.keyArn!;
  const { functionVpc } = ACCOUNT_SERVICES;

  test.each(Object.entries({ landing, balanced, vms }))(
    'has no function outside its network: %s',
    (name, { stacks }) => {
      const functions = every(
        'AWS::Lambda::Function',
        stacks.map(({ template }) => template),
      );
      expect(functions.length).toBeGreaterThan(20);
      for (const { VpcConfig, FunctionName } of functions) {
        expect(VpcConfig?.SubnetIds, `${name} ${FunctionName}`).toEqual(functionVpc!.subnetIds);
      }
      const own = functions.filter(({ VpcConfig }) => VpcConfig.SecurityGroupIds.includes('sg-0123456789abcdef0'));
      // The CDK's function that starts builds makes its own group, as does the one that connects to sandboxes.
      expect(functions.length - own.length).toBeLessThanOrEqual(3);
    },
  );

  test('has no network of the stacks, and services in its own', () => {
    expect(
      all.flatMap(typesOf).filter((type) => /EC2::(VPC|Subnet|NatGateway|Route|InternetGateway)/.test(type)),
    ).toEqual([]);
    const { vpc } = ACCOUNT_SERVICES.services as {
      vpc: { id: string; instanceSubnetIds: string[]; balancerSubnetIds: string[] };
    };
    const settings = parseServiceSettings(environmentOf(landing.services!, 'service-keeper').PLATFORM_SERVICES!);
    expect([settings.subnets, settings.public_ip]).toEqual([vpc.instanceSubnetIds, false]);
    const [gateway] = propertiesOf(landing.services!, 'AWS::ECS::Gateway');
    expect(gateway.Configuration.HostSharedAlb.NetworkConfiguration.Subnets).toEqual(vpc.balancerSubnetIds);
    const [balancer] = propertiesOf(balanced.services!, 'AWS::ElasticLoadBalancingV2::LoadBalancer');
    expect([balancer.Subnets, balancer.Scheme]).toEqual([vpc.balancerSubnetIds, 'internet-facing']);
    for (const { VpcId } of every('AWS::EC2::SecurityGroup')) expect(VpcId).toBe(vpc.id);
  });

  test('encrypts queues, topic and images with its key, and only their users may use it', () => {
    const queues = every('AWS::SQS::Queue');
    expect(queues.map(({ KmsMasterKeyId }) => rendered(KmsMasterKeyId))).toEqual([KEY, KEY, KEY, KEY]);
    expect(every('AWS::SNS::Topic').map(({ KmsMasterKeyId }) => rendered(KmsMasterKeyId))).toEqual([KEY]);
    const repositories = every('AWS::ECR::Repository').map(({ EncryptionConfiguration }) => EncryptionConfiguration);
    expect(repositories).toEqual([
      { EncryptionType: 'KMS', KmsKey: KEY },
      { EncryptionType: 'KMS', KmsKey: KEY },
    ]);

    const onQueues = (policy: object) => JSON.stringify(policy).includes('"kms:ViaService":{"Fn::Join":["",["sqs."');
    const roles = landing.stacks.flatMap(({ template }) =>
      [...resourcesOf(template, 'AWS::IAM::Policy'), ...resourcesOf(template, 'AWS::IAM::Role')]
        .filter(([, { Properties }]) => onQueues(Properties))
        .map(([id]) => id.replace(/(Role)?(DefaultPolicy)?[\dA-F]{8}$/, '')),
    );
    expect(roles.sort()).toEqual(['schedulefired', 'servicekeeper', 'timerrole', 'usagewriter']);
  });

  test('gives its key the one statement that services of AWS need', () => {
    const services = ['cloudwatch.amazonaws.com', 'events.amazonaws.com', 'budgets.amazonaws.com'];
    const statement = new Stack().resolve(AgentPlatform.keyStatement().toJSON());
    expect(statement).toMatchObject({ Effect: 'Allow', Principal: { Service: services } });
    const page = readFileSync(join(import.meta.dirname, '../../docs/cdk.md'), 'utf8');
    expect(JSON.parse(/```json\n([\s\S]*?)```/.exec(page)![1]!)).toEqual(statement);
    const senders = landing.stacks
      .flatMap(({ template }) => needsOf(template))
      .filter(({ action, role }) => role === undefined && /^(sns|sqs):/.test(action))
      .map(({ service }) => service);
    expect([...new Set(senders)].sort()).toEqual([...services].sort());
  });

  test('gets the access logs of all buckets, and no other bucket for them', () => {
    const logged = every('AWS::S3::Bucket').map(({ LoggingConfiguration }) => LoggingConfiguration);
    expect(logged).toEqual([
      { DestinationBucketName: 'acme-access-logs', LogFilePrefix: 'agents/platform-landing/data/' },
      { DestinationBucketName: 'acme-access-logs', LogFilePrefix: 'agents/platform-landing/web/' },
    ]);
  });

  test('has a record in its zone for each name', () => {
    const records = every('AWS::Route53::RecordSet', [...all, balanced.services!]);
    expect(records.map(({ Name, HostedZoneId }) => [Name, HostedZoneId])).toEqual([
      ['api.example.org.', 'Z0123456789API'],
      ['agents.example.org.', 'Z0123456789WEB'],
      ['*.services.example.org.', 'Z0123456789SVC'],
    ]);
  });

  test('has a web ACL in front of CloudFront, and countries that it answers', () => {
    const [of, ofOthers] = [landing, balanced].map(
      ({ web }) => propertiesOf(web!, 'AWS::CloudFront::Distribution')[0].DistributionConfig,
    );
    expect(of.WebACLId).toMatch(/global\/webacl\/acme/);
    expect(of.Restrictions.GeoRestriction).toEqual({ RestrictionType: 'whitelist', Locations: ['DE', 'AT'] });
    expect(ofOthers.Restrictions.GeoRestriction).toEqual({ RestrictionType: 'blacklist', Locations: ['AQ'] });
  });

  test('chooses thresholds of alarms by their names', () => {
    const of = (name: string) =>
      every('AWS::CloudWatch::Alarm').find(({ AlarmName }) => AlarmName === `platform-landing-${name}`).Threshold;
    expect(of('slow')).toBe(7000);
    const stage = { ...dev, alarms: { thresholds: { slows: 1 } } };
    expect(() => synthesise(defineStage(stage))).toThrow(/no alarm slows, only .*slow/);
  });
});

describe('wrong props', () => {
  test.each<[string, object, RegExp]>([
    [
      'a network that is not private',
      { sandbox: { kind: 'fargate', cidr: '8.8.0.0/16' } },
      /private network of \/16 to \/20[\s\S]*sandbox\.cidr/,
    ],
    ['a network that is too small', { services: { cidr: '10.0.0.0/24' } }, /services\.cidr/],
    [
      'a subnet by its name',
      { sandbox: { kind: 'fargate', vpc: { id: 'vpc-0a1b2c3d', taskSubnetIds: ['a'], functionSubnetIds: ['b'] } } },
      /id of a subnet[\s\S]*taskSubnetIds/,
    ],
    ['an alias of a key', { keyArn: `arn:aws:kms:${REGION_AND_ACCOUNT}:alias/mine` }, /not of an alias[\s\S]*keyArn/],
    ['a prefix that AWS keeps for itself', { namePrefix: 'aws-agents' }, /not begin with aws[\s\S]*namePrefix/],
    ['a path without a slash', { rolePath: 'agents' }, /begin and end with a slash[\s\S]*rolePath/],
    [
      'a private API with a domain',
      {
        services: { kind: 'off' },
        access: { vpcEndpointIds: ['vpce-0a1b2c3d'] },
        domain: { name: 'a.example.org', certificateArn: `arn:aws:acm:${REGION_AND_ACCOUNT}:certificate/0a` },
      },
      /cannot be used with a private API[\s\S]*domain/,
    ],
    ['services that could not ask the API', { access: { ranges: ['10.0.0.0/8'] } }, /must be off[\s\S]*services/],
    ['a function that there is not', { concurrency: { reserved: { call: 3 } } }, /concurrency\.reserved/],
    ['a clock that is kept started', { concurrency: { provisioned: { sweeper: 3 } } }, /concurrency\.provisioned/],
    [
      'two topics',
      { alarms: { email: 'a@example.org', topicArn: `arn:aws:sns:${REGION_AND_ACCOUNT}:mine` } },
      /alarms\.email/,
    ],
    [
      'a base image without its digest',
      { bases: { node: 'public.ecr.aws/docker/library/node:24' } },
      /digest[\s\S]*bases\.node/,
    ],
    ['an image that is built again at once', { sandbox: { kind: 'fargate', rebuildDays: 0 } }, /sandbox\.rebuildDays/],
    [
      'a web ACL of a Region',
      { web: { webAclArn: 'arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/mine/0a' } },
      /scope CLOUDFRONT[\s\S]*web\.webAclArn/,
    ],
    ['a country by its name', { web: { countries: { kind: 'allow', codes: ['Germany'] } } }, /such as DE/],
    [
      'one subnet for load balancers',
      {
        services: {
          vpc: {
            id: 'vpc-0a1b2c3d',
            instanceSubnetIds: ['subnet-0a1b2c3d', 'subnet-0a1b2c3e'],
            balancerSubnetIds: ['subnet-0a1b2c3f'],
          },
        },
      },
      /services\.vpc\.balancerSubnetIds/,
    ],
    [
      'functions in a network without a group',
      { functionVpc: { id: 'vpc-0a1b2c3d', subnetIds: ['subnet-0a1b2c3d'], securityGroupIds: [] } },
      /functionVpc\.securityGroupIds/,
    ],
    ['a bucket for logs by its ARN', { accessLogs: { bucketName: 'arn:aws:s3:::logs' } }, /accessLogs\.bucketName/],
    ['a retention that CloudWatch lacks', { logRetentionDays: 10 }, /logRetentionDays/],
  ])('%s', (_, wrong, message) => {
    expect(() => defineStage({ ...dev, ...wrong } as never)).toThrow(message);
  });
});

describe('in an app of the owner', () => {
  const surroundings = emptyFolders();
  const props = { ...dev, services: { kind: 'off' } } satisfies AgentPlatformProps;

  test('the platform takes what stacks of the app make', () => {
    const app = new App();
    const own = new Stack(app, 'own', { env: { account: '111122223333', region: 'eu-west-1' } });
    const vpc = new Vpc(own, 'vpc', { maxAzs: 2 });
    const key = new Key(own, 'key');
    const topic = new Topic(own, 'topic');
    const idsOf = (subnets: readonly { subnetId: string }[]) => subnets.map(({ subnetId }) => subnetId);
    const platform = new AgentPlatform(
      own,
      'agents',
      {
        ...props,
        keyArn: key.keyArn,
        alarms: { topicArn: topic.topicArn },
        sandbox: {
          kind: 'fargate',
          vpc: {
            id: vpc.vpcId,
            taskSubnetIds: idsOf(vpc.privateSubnets),
            functionSubnetIds: idsOf(vpc.privateSubnets),
          },
        },
      },
      surroundings,
    );
    const assembly = app.synth();
    // It shares the environment of the stack around it.
    const { environment, template } = assembly.getStackByName(platform.compute!.stackName);
    expect(environment).toMatchObject({ account: '111122223333', region: 'eu-west-1' });
    for (const { VpcId } of propertiesOf(template, 'AWS::EC2::SecurityGroup'))
      expect(JSON.stringify(VpcId)).toContain('own');
    const { dependencies } = assembly.getStackByName(platform.data.stackName);
    expect(dependencies.map(({ id }) => id)).toContain('own');
  });

  test('what the CDK does for any construct, it does for this one', () => {
    const app = new App();
    const around = new Stage(app, 'prod', { permissionsBoundary: PermissionsBoundary.fromName('Boundary') });
    const platform = new AgentPlatform(around, 'agents', { ...props, sandbox: { kind: 'none' } }, surroundings);
    Tags.of(platform).add('team', 'agents');
    const templates = around.synth().stacks.map(({ template }) => template as Template);
    const roles = templates.flatMap((template) => propertiesOf(template, 'AWS::IAM::Role'));
    for (const { PermissionsBoundary: boundary, Tags: tags } of roles) {
      expect(rendered(boundary)).toBe('arn:aws:iam::111122223333:policy/Boundary');
      expect(tags).toContainEqual({ Key: 'team', Value: 'agents' });
    }
    expect(roles.length).toBeGreaterThan(20);
  });

  test('the same app gives the same templates', () => {
    const [first, second] = [1, 2].map(() => {
      const app = new App();
      new AgentPlatform(app, 'agents', dev, surroundings);
      return app.synth().stacks.map(({ template }) => template);
    });
    expect(first!.length).toBeGreaterThan(4);
    expect(second).toEqual(first);
  });
});
