import { describe, expect, test } from 'vitest';
import { DISPOSABLE_TAG } from '#aws/release/empty-stage.ts';
import { defineStage } from '#lib/config.ts';
import { createdBefore } from '#test/helpers/creation-order.ts';
import {
  functionIdOf,
  policyOf,
  type Resource,
  resourcesOf,
  type Synthesis,
  synthesise,
  type Template,
} from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { everythingAsked } from './everything-asked.ts';

/** Types that hold data which a user may want back. */
const HOLDS = [
  'AWS::DynamoDB::GlobalTable',
  'AWS::KMS::Alias',
  'AWS::KMS::Key',
  'AWS::Logs::LogGroup',
  'AWS::S3::Bucket',
];
/** Types that can be recreated or are useless alone, and cost money while they exist. */
const COSTS = [
  'AWS::CloudWatch::Alarm',
  'AWS::CloudWatch::Dashboard',
  'AWS::EC2::VPC',
  'AWS::ECR::Repository',
  'AWS::ECS::Cluster',
  'AWS::ECS::Gateway',
  'AWS::ElasticLoadBalancingV2::LoadBalancer',
  'AWS::Lambda::MicrovmImage',
  'AWS::SQS::Queue',
  'AWS::Scheduler::ScheduleGroup',
  'AWS::WAFv2::WebACL',
];
/** Types that cost nothing while unused. */
const FREE =
  /^(Custom::\w+|AWS::(ApiGateway::\w+|Budgets::Budget|CDK::Metadata|CloudFront::(Distribution|Function|OriginAccessControl|ResponseHeadersPolicy)|CloudFormation::WaitCondition(Handle)?|CodeBuild::Project|EC2::(FlowLog|InternetGateway|Route|RouteTable|SecurityGroup(Egress|Ingress)?|Subnet|SubnetRouteTableAssociation|VPCEndpoint|VPCGatewayAttachment)|ECS::(ClusterCapacityProviderAssociations|GatewayClusterAssociations|TaskDefinition)|ElasticLoadBalancingV2::Listener|Events::Rule|IAM::(Policy|Role)|Lambda::(EventInvokeConfig|EventSourceMapping|Function|LayerVersion|Permission|Version)|Logs::MetricFilter|Route53::RecordSet|S3::BucketPolicy|SNS::(Subscription|Topic|TopicPolicy)|SQS::QueuePolicy|WAFv2::WebACLAssociation))$/;

const disposable: Record<string, Synthesis> = {
  'a stage to try things in': synthesise(defineStage({ ...everythingAsked, name: 'tried', keepsData: dev.keepsData })),
  'one with MicroVMs': synthesise(defineStage({ ...dev, name: 'vms', sandbox: { kind: 'microvm' } })),
};
const kept: Record<string, Synthesis> = {
  'a stage that keeps its data': synthesise(everythingAsked),
  'one with addresses of AWS': synthesise(defineStage({ ...everythingAsked, name: 'hosts', services: {} })),
};
const allOf = ({ stacks }: Synthesis): [id: string, resource: Resource][] =>
  stacks.flatMap(({ template }) => Object.entries((template as Template).Resources));

test.each(Object.entries({ ...disposable, ...kept }))(
  '%s has only resources whose idle costs are known',
  (_, synthesis) => {
    const types = new Set(allOf(synthesis).map(([, { Type }]) => Type));
    expect([...types].filter((type) => !HOLDS.includes(type) && !COSTS.includes(type) && !FREE.test(type))).toEqual([]);
    // Gateways of a network are free, its interfaces are not.
    for (const [, { Type, Properties }] of allOf(synthesis)) {
      if (Type === 'AWS::EC2::VPCEndpoint') expect(Properties.VpcEndpointType).toBe('Gateway');
    }
  },
);

describe.each(Object.entries(disposable))('of %s nothing stays that costs', (_, synthesis) => {
  const { data, compute, services } = synthesis;

  test('CloudFormation deletes everything', () => {
    const stay = allOf(synthesis).filter(
      // Lambda deletes versions with their function.
      ([, { Type, DeletionPolicy = 'Delete' }]) => DeletionPolicy !== 'Delete' && Type !== 'AWS::Lambda::Version',
    );
    // API Gateway shares these between all stages of an account.
    expect(stay.map(([, { Type }]) => Type).sort()).toEqual(['AWS::ApiGateway::Account', 'AWS::IAM::Role']);
    for (const [, { Properties }] of resourcesOf(data, 'AWS::DynamoDB::GlobalTable')) {
      for (const replica of Properties.Replicas) expect(replica.DeletionProtectionEnabled ?? false).toBe(false);
    }
    expect(synthesis.stacks.filter(({ terminationProtection }) => terminationProtection)).toEqual([]);
  });

  test('the bucket and the vaults are emptied before', () => {
    const [[bucketId, bucket]] = resourcesOf(data, 'AWS::S3::Bucket') as [[string, Resource]];
    expect(resourcesOf(data, 'AWS::S3::Bucket')).toHaveLength(1);
    expect(bucket.Properties.Tags).toContainEqual({ Key: DISPOSABLE_TAG, Value: 'true' });
    const [[, cleaner]] = resourcesOf(data, 'Custom::EmptyStage') as [[string, Resource]];
    // The custom resource is deleted before the bucket and the vaults, so it acts while they exist.
    const role = data.Resources[functionIdOf(data, 'cleaner')]!.Properties.Role['Fn::GetAtt'][0];
    const policies = resourcesOf(data, 'AWS::IAM::Policy').filter(([, { Properties }]) =>
      Properties.Roles.some(({ Ref }: { Ref: string }) => Ref === role),
    );
    expect(cleaner.DependsOn).toEqual(expect.arrayContaining([bucketId, ...policies.map(([id]) => id)]));
    const actions = Object.values(policyOf(data, 'cleaner').allowed).flat();
    for (const action of ['s3:DeleteObject', 's3:DeleteObjectVersion', 'secretsmanager:DeleteSecret']) {
      expect(actions).toContain(action);
    }
  });

  test('images go with their repository, and tasks before their cluster', () => {
    const repositories = [compute!, services!].flatMap((template) => resourcesOf(template, 'AWS::ECR::Repository'));
    for (const [, { Properties }] of repositories) expect(Properties.EmptyOnDelete).toBe(true);
    expect(resourcesOf(compute!, 'Custom::StopTasks')).toHaveLength(resourcesOf(compute!, 'AWS::ECS::Cluster').length);
  });

  test('services go after what could make new ones, and before all that they hold', () => {
    const [[removal, { Properties, DependsOn }]] = resourcesOf(services!, 'Custom::RemoveServices') as [
      [string, Resource],
    ];
    expect(createdBefore(services!, functionIdOf(services!, 'service-keeper'))).toContain(removal);
    const held = [
      ...['AWS::ECS::Cluster', 'AWS::ECS::Gateway', 'AWS::ECS::GatewayClusterAssociations'],
      ...['AWS::ElasticLoadBalancingV2::LoadBalancer', 'AWS::ElasticLoadBalancingV2::Listener', 'AWS::IAM::Role'],
      ...['AWS::EC2::VPC', 'AWS::EC2::Subnet', 'AWS::EC2::SecurityGroup', 'AWS::EC2::SecurityGroupIngress'],
    ].flatMap((type) => resourcesOf(services!, type).map(([id]) => id));
    const ofGateway = (id: string) => !/^(execution|servicekeeper|image|AWS679)/.test(id);
    for (const id of held.filter(ofGateway)) expect(DependsOn, id).toContain(id);
    for (const [, { Properties: gateway }] of resourcesOf(services!, 'AWS::ECS::Gateway')) {
      expect(gateway.DeletionProtection).toBe(false);
    }
    const { name } = synthesis.stacks.find((stack) => stack.name.endsWith('-services'))!;
    expect(Properties).toMatchObject({
      Cluster: name,
      FamilyPrefix: name.replace(/services$/, 'svc-'),
      LogGroupPrefix: `/platform/${name.split('-')[1]}/services/`,
    });
    // The function must end before CloudFormation gives up, which waits as long as Lambda's maximum timeout.
    expect(services!.Resources[functionIdOf(services!, 'services-cleaner')]!.Properties.Timeout).toBe(900);
    expect(Properties.ServiceTimeout).toBe('900');
  });
});

describe.each(Object.entries(kept))('of %s nothing is lost', (_, synthesis) => {
  test('what holds something outlives its stack, whatever replaces it', () => {
    // Every deployment uploads the files of the dashboard again.
    const holders = allOf(synthesis).filter(([id, { Type }]) => HOLDS.includes(Type) && !/^webFiles/.test(id));
    const lost = holders.filter(
      ([, resource]) => resource.DeletionPolicy !== 'RetainExceptOnCreate' || resource.UpdateReplacePolicy !== 'Retain',
    );
    // These are the build logs of images.
    expect(lost.map(([, { Properties }]) => Properties.LogGroupName).sort()).toEqual([
      expect.stringMatching(/^\/platform\/\w+\/sandbox-image$/),
      expect.stringMatching(/^\/platform\/\w+\/services-image$/),
    ]);
  });

  test('nothing empties it, and the stack cannot be deleted by mistake', () => {
    const { data, stacks } = synthesis;
    expect(resourcesOf(data, 'Custom::EmptyStage')).toEqual([]);
    expect(JSON.stringify(data)).not.toContain(DISPOSABLE_TAG);
    const isProtected = ({ terminationProtection }: { terminationProtection: boolean }) => terminationProtection;
    expect(stacks.filter(isProtected).map(({ name }) => name.split('-').at(-1))).toEqual(['data', 'services']);
  });

  test('the logs of services stay when their stack goes', () => {
    const [[, { Properties }]] = resourcesOf(synthesis.services!, 'Custom::RemoveServices') as [[string, Resource]];
    expect(Properties.LogGroupPrefix).toBeUndefined();
    expect(Object.values(policyOf(synthesis.services!, 'services-cleaner').allowed).flat()).not.toContain(
      'logs:DeleteLogGroup',
    );
  });
});
