import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { parseLogPlace, parseServiceSettings } from '#aws/services/settings.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { defineStage } from '#lib/config.ts';
import { API_STACK_FUNCTIONS } from '#lib/functions.ts';
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
import { stage as dev } from '../../stages/dev.ts';
import { stage as prod } from '../../stages/prod.ts';

const domain = {
  name: 'services.example.org',
  certificateArn: 'arn:aws:acm:eu-west-1:111122223333:certificate/5d6e7f80-0000-4000-8000-000000000000',
};
type Required<T> = { readonly [Key in keyof T]-?: NonNullable<T[Key]> };
const withServices = (stage: Parameters<typeof synthesise>[0]) =>
  synthesise(stage) as Required<ReturnType<typeof synthesise>>;
/** Reached by an ECS gateway, in a stage to try things in and in one that keeps its data. */
const byGateway = withServices(dev);
const kept = withServices(prod);
/** Reached by a load balancer of the stage's own. */
const byDomain = withServices(defineStage({ ...dev, name: 'own', services: { domain } }));
const recorded = withServices(
  defineStage({
    ...prod,
    name: 'zone',
    domain,
    web: { kind: 'off' },
    services: { domain: { ...domain, hostedZoneId: 'Z0123456789ABC' } },
  }),
);
const all = { byGateway, kept, byDomain, recorded };

const settingsOf = (template: Template) =>
  parseServiceSettings(environmentOf(template, 'service-keeper').PLATFORM_SERVICES!);
const propertiesOf = (template: Template, type: string) =>
  resourcesOf(template, type).map(([, { Properties }]) => Properties);
const idOf = (template: Template, type: string, prefix: string) =>
  resourcesOf(template, type).find(([id]) => id.startsWith(prefix))![0];
const groupOf = (template: Template, name: string) => ({
  'Fn::GetAtt': [idOf(template, 'AWS::EC2::SecurityGroup', `network${name}`), 'GroupId'],
});

describe.each(Object.entries(all))('%s', (_, { app, services, stacks }) => {
  test('every finding of cdk-nag is acknowledged', () => {
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  });

  test('costs nothing for the network before the first service', () => {
    const types = Object.values(services.Resources).map(({ Type }) => Type);
    for (const type of ['NatGateway', 'EIP', 'VPCEndpoint']) expect(types).not.toContain(`AWS::EC2::${type}`);
  });

  test('has a network of its own, with no way to another', () => {
    const blocks = stacks
      .flatMap(({ template }) => propertiesOf(template, 'AWS::EC2::VPC'))
      .map((vpc) => vpc.CidrBlock);
    expect(blocks.sort()).toEqual(['10.64.0.0/20', '10.65.0.0/20']);
    const types = Object.values(services.Resources).map(({ Type }) => Type);
    expect(types.filter((type) => /Peering|TransitGateway|VPN/.test(type))).toEqual([]);
    const routes = propertiesOf(services, 'AWS::EC2::Route');
    expect(routes.map(({ DestinationCidrBlock }) => DestinationCidrBlock)).toEqual(['0.0.0.0/0', '0.0.0.0/0']);
    for (const subnet of propertiesOf(services, 'AWS::EC2::Subnet')) expect(subnet.MapPublicIpOnLaunch).toBe(false);
  });

  test('lets in to instances only the load balancers, at the port of the runner', () => {
    const rule = { IpProtocol: 'tcp', FromPort: 8080, ToPort: 8080, Description: 'requests' };
    const [inbound, instances] = ['inbound', 'instances'].map((name) => groupOf(services, name));
    expect(propertiesOf(services, 'AWS::EC2::SecurityGroupIngress')).toEqual([
      { ...rule, GroupId: instances, SourceSecurityGroupId: inbound },
    ]);
    expect(propertiesOf(services, 'AWS::EC2::SecurityGroupEgress')).toEqual([
      { ...rule, GroupId: inbound, DestinationSecurityGroupId: instances },
    ]);
    const ingress = resourcesOf(services, 'AWS::EC2::SecurityGroup').map(([id, { Properties }]) => [
      id.replace(/[0-9A-F]{8}$/, ''),
      Properties.SecurityGroupIngress,
    ]);
    expect(Object.fromEntries(ingress)).toEqual({
      networkinstances: undefined,
      networkinbound: [{ CidrIp: '0.0.0.0/0', Description: 'clients', IpProtocol: 'tcp', FromPort: 443, ToPort: 443 }],
    });
  });

  test('lets ECS clean up the rules that a gateway adds to the group of instances, and to no other', () => {
    const tagged = resourcesOf(services, 'AWS::EC2::SecurityGroup').filter(([, { Properties }]) =>
      JSON.stringify(Properties.Tags).includes('AmazonECSManaged'),
    );
    expect(tagged.map(([id]) => id)).toEqual([groupOf(services, 'instances')['Fn::GetAtt'][0]]);
    expect(tagged[0]![1].Properties.Tags).toContainEqual({ Key: 'AmazonECSManaged', Value: 'true' });
  });

  test('has one role for tasks, which ECS itself uses and which reads the image and writes logs', () => {
    const roles = resourcesOf(services, 'AWS::IAM::Role').filter(([, { Properties }]) =>
      JSON.stringify(Properties.AssumeRolePolicyDocument).includes('ecs-tasks'),
    );
    expect(roles).toHaveLength(1);
    const [[id, { Properties }]] = roles as [[string, Resource]];
    const [trust] = Properties.AssumeRolePolicyDocument.Statement;
    expect(rendered(trust.Condition.StringEquals['aws:SourceAccount'])).toBe('111122223333');
    expect(rendered(trust.Condition.ArnLike['aws:SourceArn'])).toBe('arn:aws:ecs:eu-west-1:111122223333:*');
    const actions = propertiesOf(services, 'AWS::IAM::Policy')
      .filter(({ Roles }) => Roles.some(({ Ref }: { Ref: string }) => Ref === id))
      .flatMap(({ PolicyDocument }) => PolicyDocument.Statement.flatMap(({ Action }: { Action: string }) => Action));
    expect(actions.sort()).toEqual([
      'ecr:BatchCheckLayerAvailability',
      'ecr:BatchGetImage',
      'ecr:GetAuthorizationToken',
      'ecr:GetDownloadUrlForLayer',
      'logs:CreateLogStream',
      'logs:PutLogEvents',
    ]);
  });

  test('keeps what the keeper could not handle, with the rights of these rules alone', () => {
    const [queue] = propertiesOf(services, 'AWS::SQS::Queue');
    expect(queue).toMatchObject({ SqsManagedSseEnabled: true, MessageRetentionPeriod: 14 * 24 * 3600 });
    const queueArn = { 'Fn::GetAtt': [resourcesOf(services, 'AWS::SQS::Queue')[0]![0], 'Arn'] };
    expect(propertiesOf(services, 'AWS::Lambda::EventInvokeConfig')).toMatchObject([
      { MaximumRetryAttempts: 2, DestinationConfig: { OnFailure: { Destination: queueArn } } },
    ]);
    const rules = resourcesOf(services, 'AWS::Events::Rule');
    const byEvent = rules.filter(([, { Properties }]) => Properties.EventPattern);
    expect(byEvent).toHaveLength(2);
    for (const [, { Properties }] of byEvent) {
      expect(Properties.Targets).toMatchObject([{ DeadLetterConfig: { Arn: queueArn } }]);
    }
    const [policy] = propertiesOf(services, 'AWS::SQS::QueuePolicy');
    const senders = policy.PolicyDocument.Statement.filter(({ Effect }: { Effect: string }) => Effect === 'Allow');
    expect(senders.map((each: { Condition: { ArnEquals: object } }) => each.Condition.ArnEquals)).toEqual(
      byEvent.map(([id]) => ({ 'aws:SourceArn': { 'Fn::GetAtt': [id, 'Arn'] } })),
    );
  });

  test('wakes the keeper each minute, and when an instance of this cluster has ended or none can be started', () => {
    const { name } = stacks.find(({ template }) => template === services)!;
    const rules = propertiesOf(services, 'AWS::Events::Rule');
    expect(rules.flatMap(({ ScheduleExpression }) => ScheduleExpression ?? [])).toEqual(['rate(1 minute)']);
    const keeper = `<${functionIdOf(services, 'service-keeper')}.Arn>`;
    for (const { Targets } of rules) expect(Targets.map(({ Arn }: { Arn: object }) => rendered(Arn))).toEqual([keeper]);
    const [ended, failed] = rules.flatMap(({ EventPattern }) => EventPattern ?? []);
    expect(ended).toEqual({
      source: ['aws.ecs'],
      'detail-type': ['ECS Task State Change'],
      detail: {
        clusterArn: [{ 'Fn::GetAtt': [idOf(services, 'AWS::ECS::Cluster', 'cluster'), 'Arn'] }],
        lastStatus: ['STOPPED'],
      },
    });
    expect({
      ...failed,
      resources: failed.resources.map(({ prefix }: { prefix: object }) => rendered(prefix)),
    }).toEqual({
      source: ['aws.ecs'],
      'detail-type': ['ECS Deployment State Change'],
      resources: [`arn:aws:ecs:eu-west-1:111122223333:service/${name}/`],
      detail: { eventName: ['SERVICE_DEPLOYMENT_FAILED'] },
    });
  });

  test('tells the keeper what it must know, in no more than Lambda takes', () => {
    const environment = environmentOf(services, 'service-keeper');
    expect(JSON.stringify(environment).length).toBeLessThan(4096);
    const { services: text, functionPrefix } = parseAwsConfig(environment);
    const settings = parseServiceSettings(text!);
    const { name } = stacks.find(({ template }) => template === services)!;
    const stageName = name.split('-')[1]!;
    expect(settings).toMatchObject({
      cluster: expect.stringMatching(/^cluster/),
      subnets: resourcesOf(services, 'AWS::EC2::Subnet').map(([id]) => id),
      security_group: groupOf(services, 'instances')['Fn::GetAtt'].join('.'),
      family_prefix: `platform-${stageName}-svc-`,
      log_group_prefix: `/platform/${stageName}/services/`,
      stage: stageName,
      cpu: 256,
      memory_mb: 1024,
    });
    expect(settings.image).toMatch(/:[0-9a-f]{16}$/);
    // It orders; nobody else has to be called.
    expect(functionPrefix).toBe('');
  });
});

describe('addresses by an ECS gateway', () => {
  const gatewayOf = ({ services }: typeof byGateway) => propertiesOf(services, 'AWS::ECS::Gateway')[0];

  test('names the gateway by its stage and Region, and gives its load balancers the one group that reaches instances', () => {
    const { GatewayName, Configuration } = gatewayOf(byGateway);
    expect(rendered(GatewayName)).toBe('platform-dev-services-eu-west-1');
    expect(Configuration.HostSharedAlb).toEqual({
      Scheme: 'internet-facing',
      MaxAlbCount: 4,
      NetworkConfiguration: {
        IpAddressType: 'ipv4',
        Subnets: resourcesOf(byGateway.services, 'AWS::EC2::Subnet').map(([Ref]) => ({ Ref })),
        InboundSecurityGroup: groupOf(byGateway.services, 'inbound'),
      },
    });
  });

  test('is protected where the stage keeps its data', () => {
    expect([byGateway, kept].map((each) => gatewayOf(each).DeletionProtection)).toEqual([false, true]);
    const lifts = [byGateway, kept].map(({ services }) => resourcesOf(services, 'Custom::LiftProtection').length);
    expect(lifts).toEqual([0, 1]);
  });

  test('belongs to the cluster', () => {
    const { services } = byGateway;
    expect(propertiesOf(services, 'AWS::ECS::GatewayClusterAssociations')).toEqual([
      {
        Gateway: { 'Fn::GetAtt': [resourcesOf(services, 'AWS::ECS::Gateway')[0]![0], 'Arn'] },
        Cluster: { 'Fn::GetAtt': [resourcesOf(services, 'AWS::ECS::Cluster')[0]![0], 'Arn'] },
      },
    ]);
  });

  test("lets ECS make load balancers with AWS's own policy, for this account and Region", () => {
    const { services } = byGateway;
    const [role] = propertiesOf(services, 'AWS::IAM::Role').filter(({ Description }) =>
      /load balancers/.test(Description),
    );
    expect(role.ManagedPolicyArns.map((arn: object) => rendered(arn))).toEqual([
      'arn:aws:iam::aws:policy/AmazonECSInfrastructureRoleForGatewayHostSharedALB',
    ]);
    const [{ Principal, Condition }] = role.AssumeRolePolicyDocument.Statement;
    expect(Principal).toEqual({ Service: 'ecs.amazonaws.com' });
    expect(rendered(Condition.ArnLike['aws:SourceArn'])).toBe('arn:aws:ecs:eu-west-1:111122223333:*');
  });

  test('there is no load balancer before the first service', () => {
    const types = Object.values(byGateway.services.Resources).map(({ Type }) => Type);
    expect(types.filter((type) => type.startsWith('AWS::ElasticLoadBalancing'))).toEqual([]);
    expect(settingsOf(byGateway.services)).toMatchObject({
      kind: 'ecs-gateway',
      gateway: `${resourcesOf(byGateway.services, 'AWS::ECS::Gateway')[0]![0]}.Arn`,
    });
  });
});

describe('addresses below a domain', () => {
  const [balancer] = propertiesOf(byDomain.services, 'AWS::ElasticLoadBalancingV2::LoadBalancer');
  const [listener] = propertiesOf(byDomain.services, 'AWS::ElasticLoadBalancingV2::Listener');

  test('come by one load balancer with HTTPS alone, and with the one group that reaches instances', () => {
    expect(balancer).toMatchObject({
      Scheme: 'internet-facing',
      IpAddressType: 'ipv4',
      SecurityGroups: [groupOf(byDomain.services, 'inbound')],
    });
    expect(balancer.LoadBalancerAttributes).toContainEqual({ Key: 'idle_timeout.timeout_seconds', Value: '600' });
    expect(resourcesOf(byDomain.services, 'AWS::ElasticLoadBalancingV2::Listener')).toHaveLength(1);
    expect(listener).toMatchObject({
      Port: 443,
      Protocol: 'HTTPS',
      SslPolicy: 'ELBSecurityPolicy-TLS13-1-2-2021-06',
      Certificates: [{ CertificateArn: domain.certificateArn }],
    });
  });

  test("answer 503 in the platform's envelope where no service is", () => {
    const [{ Type, FixedResponseConfig }] = listener.DefaultActions;
    expect([Type, FixedResponseConfig.StatusCode, FixedResponseConfig.ContentType]).toEqual([
      'fixed-response',
      '503',
      'application/json',
    ]);
    expect(JSON.parse(FixedResponseConfig.MessageBody)).toEqual({
      error: { code: 'SERVICE_UNAVAILABLE', message: expect.any(String), is_retryable: true },
      metadata: {},
    });
    // All that a load balancer takes.
    expect(FixedResponseConfig.MessageBody.length).toBeLessThanOrEqual(1024);
  });

  test('have a record for all names, or say where to point one', () => {
    expect(propertiesOf(recorded.services, 'AWS::Route53::RecordSet')).toMatchObject([
      { Name: '*.services.example.org.', Type: 'A', HostedZoneId: 'Z0123456789ABC' },
    ]);
    expect(resourcesOf(byDomain.services, 'AWS::Route53::RecordSet')).toEqual([]);
    expect(JSON.stringify(byDomain.services.Outputs)).toContain('CNAME record of *.services.example.org');
    expect(JSON.stringify(recorded.services.Outputs ?? {})).not.toContain('CNAME');
  });

  test('take the place of the gateway', () => {
    for (const { services } of [byDomain, recorded]) {
      expect(
        Object.values(services.Resources).filter(
          ({ Type }) => /Gateway(ClusterAssociations)?$/.test(Type) && /ECS/.test(Type),
        ),
      ).toEqual([]);
    }
    expect(settingsOf(byDomain.services)).toMatchObject({
      kind: 'alb',
      listener: expect.stringContaining('balancer'),
      vpc: idOf(byDomain.services, 'AWS::EC2::VPC', 'network'),
      domain: 'services.example.org',
    });
  });
});

/** Resource -> actions: a second opinion on lib/constructs/service-rights.ts, so that no right is granted by accident. */
describe('rights', () => {
  const ECS = 'arn:aws:ecs:eu-west-1:111122223333:';
  const ELB = 'arn:aws:elasticloadbalancing:eu-west-1:111122223333:';
  const TARGETS = 'arn:aws:application-autoscaling:eu-west-1:111122223333:scalable-target/*';
  const withoutItsOwn = (template: Template, fn: string) =>
    Object.fromEntries(
      Object.entries(policyOf(template, fn).allowed)
        .filter(([arn]) => !arn.includes(`${functionIdOf(template, fn).replace(/Function.*/, '')}Logs`))
        .map(([arn, actions]) => [arn, actions.filter((action) => !action.startsWith('xray:')).sort()] as const)
        .filter(([, actions]) => actions.length > 0),
    );
  const keeperRights = (stage: string) => ({
    [`arn:aws:dynamodb:eu-west-1:111122223333:table/platform-${stage}-main`]: [
      'dynamodb:DeleteItem',
      'dynamodb:GetItem',
      'dynamodb:PutItem',
      'dynamodb:UpdateItem',
    ],
    [`arn:aws:dynamodb:eu-west-1:111122223333:table/platform-${stage}-main/index/gsi2`]: ['dynamodb:Query'],
    [`arn:aws:dynamodb:eu-west-1:111122223333:table/platform-${stage}-runs`]: ['dynamodb:UpdateItem'],
    [`arn:aws:dynamodb:eu-west-1:111122223333:table/platform-${stage}-counters`]: ['dynamodb:GetItem'],
    [`arn:aws:s3:::platform-${stage}-111122223333-eu-west-1`]: ['s3:ListBucket'],
    [`arn:aws:s3:::platform-${stage}-111122223333-eu-west-1/definitions/*`]: ['s3:GetObject'],
    [`arn:aws:secretsmanager:eu-west-1:111122223333:secret:platform/${stage}/*`]: ['secretsmanager:GetSecretValue'],
    [`${ECS}service/platform-${stage}-services/*`]: [
      'ecs:CreateService',
      'ecs:DeleteService',
      'ecs:DescribeServices',
      'ecs:TagResource',
      'ecs:UpdateService',
    ],
    [`${ECS}task/platform-${stage}-services/*`]: ['ecs:DescribeTasks'],
    [`${ECS}task-definition/platform-${stage}-svc-*:*`]: [
      'ecs:DeleteTaskDefinitions',
      'ecs:RegisterTaskDefinition',
      'ecs:TagResource',
    ],
    '*': ['ecs:DeregisterTaskDefinition', 'ecs:ListServices', 'ecs:ListTaskDefinitions', 'ecs:ListTasks'],
    [`arn:aws:logs:eu-west-1:111122223333:log-group:/platform/${stage}/services/*`]: [
      'logs:CreateLogGroup',
      'logs:DeleteLogGroup',
      'logs:PutRetentionPolicy',
      'logs:TagResource',
    ],
    [TARGETS]: [
      'application-autoscaling:DeregisterScalableTarget',
      'application-autoscaling:PutScalingPolicy',
      'application-autoscaling:RegisterScalableTarget',
    ],
    [`arn:aws:cloudwatch:eu-west-1:111122223333:alarm:TargetTracking-service/platform-${stage}-services/*`]: [
      'cloudwatch:DeleteAlarms',
      'cloudwatch:DescribeAlarms',
      'cloudwatch:PutMetricAlarm',
    ],
    'arn:aws:iam::111122223333:role/aws-service-role/ecs.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_ECSService':
      ['iam:CreateServiceLinkedRole'],
  });
  const dead = ({ services }: typeof byGateway) => ({
    [`<${resourcesOf(services, 'AWS::SQS::Queue')[0]![0]}.Arn>`]: ['sqs:SendMessage'],
  });
  const passed = ({ services }: typeof byGateway) => ({
    [`<${idOf(services, 'AWS::IAM::Role', 'execution')}.Arn>`]: ['iam:PassRole'],
  });
  const routes = (stage: string, ...more: string[]) => ({
    [`${ECS}gateway/platform-${stage}-services-eu-west-1/*`]: [...more, 'ecs:ListGatewayRoutes'].sort(),
    [`${ECS}gateway-route/platform-${stage}-services-eu-west-1/*`]: [
      ...more.filter((action) => action.endsWith('Route')),
      'ecs:ListGatewayRoutes',
    ],
  });

  test.each([
    ['dev', byGateway],
    ['prod', kept],
  ] as const)('the keeper of %s may keep services of its cluster, reached by its gateway', (stage, synthesis) => {
    const common = keeperRights(stage);
    const services = `${ECS}service/platform-${stage}-services/*`;
    expect(withoutItsOwn(synthesis.services, 'service-keeper')).toEqual({
      ...common,
      ...routes(stage, 'ecs:DescribeGatewayRoute'),
      ...dead(synthesis),
      ...passed(synthesis),
      [services]: [...common[services]!, 'ecs:ListGatewayRoutes'].sort(),
      [`${ECS}cluster/platform-${stage}-services`]: ['ecs:ListGatewayRoutes'],
    });
  });

  test('the keeper of a stage with a domain may also make rules and target groups for its load balancer', () => {
    const common = keeperRights('own');
    expect(withoutItsOwn(byDomain.services, 'service-keeper')).toEqual({
      ...common,
      ...dead(byDomain),
      ...passed(byDomain),
      '*': [...common['*']!, 'elasticloadbalancing:DescribeRules', 'elasticloadbalancing:DescribeTargetGroups'].sort(),
      [`${ELB}listener/app/platform-own-services/*`]: ['elasticloadbalancing:CreateRule'],
      [`${ELB}listener-rule/app/platform-own-services/*`]: [
        'elasticloadbalancing:AddTags',
        'elasticloadbalancing:DeleteRule',
      ],
      [`${ELB}targetgroup/*`]: [
        'elasticloadbalancing:AddTags',
        'elasticloadbalancing:CreateTargetGroup',
        'elasticloadbalancing:DeleteTargetGroup',
        'elasticloadbalancing:ModifyTargetGroupAttributes',
      ],
    });
  });

  const statementsOf = (template: Template, fn: string) => {
    const role = template.Resources[functionIdOf(template, fn)]!.Properties.Role['Fn::GetAtt'][0];
    return propertiesOf(template, 'AWS::IAM::Policy')
      .filter(({ Roles }) => Roles.some(({ Ref }: { Ref: string }) => Ref === role))
      .flatMap(({ PolicyDocument }) => PolicyDocument.Statement);
  };
  /** Conditions under which an action is allowed, once for each statement. */
  const conditionsOf = (template: Template, fn: string, action: string) =>
    statementsOf(template, fn)
      .filter(({ Action }) => [Action].flat().includes(action))
      .map(({ Condition = {} }) =>
        Object.fromEntries(
          Object.values(Condition)
            .flatMap((keys) => Object.entries(keys as object))
            .map(([key, value]) => [key, rendered(value)]),
        ),
      );

  test('hold for the cluster and the tags of the stage alone', () => {
    const cluster = { 'ecs:cluster': `${ECS}cluster/platform-own-services` };
    const [made, given] = ['aws:RequestTag/platform:stage', 'aws:ResourceTag/platform:stage'];
    const conditions = (action: string) => conditionsOf(byDomain.services, 'service-keeper', action);
    expect(conditions('ecs:CreateService')).toEqual([{ ...cluster, [made!]: 'own' }]);
    for (const action of [
      'UpdateService',
      'DeleteService',
      'DescribeServices',
      'DescribeTasks',
      'ListServices',
      'ListTasks',
    ])
      expect(conditions(`ecs:${action}`), action).toEqual([cluster]);
    expect(conditions('ecs:RegisterTaskDefinition')).toEqual([{ [made!]: 'own' }]);
    expect(conditions('ecs:TagResource')).toEqual([
      { 'ecs:CreateAction': 'RegisterTaskDefinition' },
      { [made!]: 'own' },
    ]);
    expect(conditions('iam:PassRole')).toEqual([{ 'iam:PassedToService': 'ecs-tasks.amazonaws.com' }]);
    for (const action of ['RegisterScalableTarget', 'PutScalingPolicy'])
      expect(conditions(`application-autoscaling:${action}`)).toEqual([
        { 'application-autoscaling:service-namespace': 'ecs' },
      ]);
    for (const action of ['CreateTargetGroup', 'CreateRule'])
      expect(conditions(`elasticloadbalancing:${action}`)).toEqual([{ [made!]: 'own' }]);
    for (const action of ['ModifyTargetGroupAttributes', 'DeleteTargetGroup'])
      expect(conditions(`elasticloadbalancing:${action}`)).toEqual([{ [given!]: 'own' }]);
    expect(conditions('elasticloadbalancing:AddTags')).toEqual([
      { 'elasticloadbalancing:CreateAction': 'CreateTargetGroup' },
      { 'elasticloadbalancing:CreateAction': 'CreateRule' },
    ]);
    expect(conditions('iam:CreateServiceLinkedRole')).toEqual([
      { 'iam:AWSServiceName': 'ecs.application-autoscaling.amazonaws.com' },
    ]);
  });

  test('no role may be passed but that of ECS, and by no other function', () => {
    for (const { services, api } of Object.values(all)) {
      const passers = (template: Template) =>
        propertiesOf(template, 'AWS::IAM::Policy').flatMap(({ PolicyDocument }) =>
          PolicyDocument.Statement.filter(({ Action }: { Action: string }) => [Action].flat().includes('iam:PassRole')),
        );
      expect(passers(services).map(({ Resource }) => rendered(Resource))).toEqual([
        `<${idOf(services, 'AWS::IAM::Role', 'execution')}.Arn>`,
      ]);
      for (const { Resource } of passers(api)) expect(rendered(Resource)).toMatch(/:role\/platform-\w+-timers-/);
    }
  });

  test('of the one that removes everything are those, and no more', () => {
    const removal = (stage: string) => ({
      [`${ECS}service/platform-${stage}-services/*`]: ['ecs:DeleteService'],
      [`${ECS}cluster/platform-${stage}-services`]: ['ecs:DescribeClusters'],
      [`${ECS}task-definition/platform-${stage}-svc-*:*`]: ['ecs:DeleteTaskDefinitions'],
      [TARGETS]: ['application-autoscaling:DeregisterScalableTarget'],
      [`arn:aws:cloudwatch:eu-west-1:111122223333:alarm:TargetTracking-service/platform-${stage}-services/*`]: [
        'cloudwatch:DeleteAlarms',
        'cloudwatch:DescribeAlarms',
      ],
      '*': [
        'application-autoscaling:DescribeScalableTargets',
        'ecs:DeregisterTaskDefinition',
        'ecs:ListServices',
        'ecs:ListTaskDefinitionFamilies',
        'ecs:ListTaskDefinitions',
      ],
    });
    const listing = (stage: string, ...more: string[]) => ({
      ...routes(stage, ...more),
      [`${ECS}cluster/platform-${stage}-services`]: ['ecs:DescribeClusters', 'ecs:ListGatewayRoutes'],
      [`${ECS}service/platform-${stage}-services/*`]: ['ecs:DeleteService', 'ecs:ListGatewayRoutes'],
    });
    const deletesLogs = (stage: string) => ({
      [`arn:aws:logs:eu-west-1:111122223333:log-group:/platform/${stage}/services/*`]: ['logs:DeleteLogGroup'],
    });
    const plus = (stage: string, ...actions: string[]) => ({ '*': [...removal(stage)['*'], ...actions].sort() });
    expect(withoutItsOwn(byGateway.services, 'services-cleaner')).toEqual({
      ...removal('dev'),
      ...listing('dev'),
      ...deletesLogs('dev'),
      ...plus('dev', 'logs:DescribeLogGroups'),
    });
    expect(withoutItsOwn(kept.services, 'services-cleaner')).toEqual({
      ...removal('prod'),
      ...listing('prod', 'ecs:DescribeGateway', 'ecs:UpdateGateway'),
    });
    const elb = ['elasticloadbalancing:DescribeRules', 'elasticloadbalancing:DescribeTargetGroups'];
    expect(withoutItsOwn(byDomain.services, 'services-cleaner')).toEqual({
      ...removal('own'),
      ...deletesLogs('own'),
      ...plus('own', 'logs:DescribeLogGroups', ...elb),
      [`${ELB}listener-rule/app/platform-own-services/*`]: ['elasticloadbalancing:DeleteRule'],
      [`${ELB}targetgroup/*`]: ['elasticloadbalancing:DeleteTargetGroup'],
    });
    for (const [stage, template] of [
      ['dev', byGateway.services],
      ['own', byDomain.services],
    ] as const) {
      for (const action of ['ecs:ListServices', 'ecs:DeleteService'])
        expect(conditionsOf(template, 'services-cleaner', action)).toEqual([
          { 'ecs:cluster': `${ECS}cluster/platform-${stage}-services` },
        ]);
    }
  });
});

describe('the API', () => {
  test.each(Object.entries(all))('of %s is what instances ask', (name, { api, services }) => {
    const settings = settingsOf(services);
    const { Outputs } = api as { Outputs: Record<string, { Value: unknown; Export?: { Name: string } }> };
    const { callUrl, baseUrl } = parseAwsConfig(environmentOf(api, 'calls'));
    const { Value, Export } = Outputs.ApiId!;
    // Always exported, so that no change of a stage takes it away from a stack that still uses it.
    expect(rendered(Value)).toBe(`<${resourcesOf(api, 'AWS::ApiGateway::RestApi')[0]![0]}>`);
    const id = rendered(Value).replaceAll(/[<>]/g, '');
    expect(settings.api_url).toBe((callUrl ?? baseUrl)!.replace(id, Export!.Name));
    expect(JSON.stringify(services).includes('Fn::ImportValue')).toBe(name !== 'recorded');
  });
});

describe('a stage without services', () => {
  const { app, api, observability, stacks, services } = synthesise(
    defineStage({ ...prod, name: 'off', services: { kind: 'off' } }),
  );

  test('has no stack for them, and nothing that calls it', () => {
    expect(services).toBeUndefined();
    expect(stacks.map(({ name }) => name).filter((name) => name.endsWith('-services'))).toEqual([]);
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
    expect(JSON.stringify([api.Resources, observability.Resources])).not.toMatch(/service-keeper|services-dead/);
    for (const fn of [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS]) {
      expect(Object.keys(policyOf(api, fn).allowed).filter((arn) => arn.includes('/services/'))).toEqual([]);
    }
  });

  test('tells its functions that the platform keeps none', () => {
    expect(parseAwsConfig(environmentOf(api, 'services')).serviceLogs).toBeUndefined();
    expect(parseLogPlace(environmentOf(kept.api, 'services').PLATFORM_SERVICES_LOGS!)).toEqual({
      log_group_prefix: '/platform/prod/services/',
    });
  });
});

describe('settings of a stage', () => {
  const define = (services: object) => defineStage({ ...dev, services } as Parameters<typeof defineStage>[0]);

  test('are services with addresses of AWS, unless it says otherwise', () => {
    expect(dev.services).toEqual({
      cpu: 256,
      memoryMb: 1024,
      maxAlbs: 4,
      outboundPorts: [80],
      cidr: '10.65.0.0/20',
      egress: 'public',
    });
    expect(define({ kind: 'off' }).services).toEqual({ kind: 'off' });
  });

  test('open ports for apps beside HTTPS', () => {
    const { services } = withServices(define({ outboundPorts: [443, 5432, { from: 6000, to: 6999 }] }));
    const group = services.Resources[groupOf(services, 'instances')['Fn::GetAtt'][0]!]!.Properties;
    const ports = group.SecurityGroupEgress.map(({ FromPort, ToPort }: Record<string, number>) => [FromPort, ToPort]);
    expect(ports).toEqual([
      [443, 443],
      [5432, 5432],
      [6000, 6999],
    ]);
  });

  test.each([
    [{ memoryMb: 4096 }, /Fargate offers 512 to 2048 MB in steps of 512 for 256 CPU units[\s\S]*services\.memoryMb/],
    [{ cpu: 1024, memoryMb: 2560 }, /services\.memoryMb/],
    [{ cpu: 100 }, /services\.cpu/],
    [{ maxAlbs: 11 }, /services\.maxAlbs/],
    [{ zones: ['eu-west-1a'] }, /services\.zones/],
    [{ outboundPorts: [0] }, /services\.outboundPorts/],
    [{ outboundPorts: [{ from: 9, to: 8 }] }, /`from` must not be above `to`[\s\S]*services\.outboundPorts/],
    [
      { domain: { name: 'x y', certificateArn: 'mine' } },
      /services\.domain\.name[\s\S]*must be the ARN of a certificate[\s\S]*services\.domain\.certificateArn/,
    ],
    [{ domain: { ...domain, hostedZoneId: 'example.org' } }, /must be the id of a hosted zone/],
    [{ kind: 'off', cpu: 256 }, /"cpu"/],
    [{ kind: 'alb' }, /services/],
  ])('are checked: %j', (services, problem) => {
    expect(() => define(services)).toThrow(problem);
  });
});
