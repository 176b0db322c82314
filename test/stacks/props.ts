import { defineStage } from '#lib/config.ts';
import { stage as dev } from '../../stages/dev.ts';

const ACCOUNT = 'eu-west-1:111122223333';

/** A stage in an account with rules of its own, behind a private API. */
export const ACCOUNT_RULES = defineStage({
  ...dev,
  name: 'trial',
  namePrefix: 'acme-ai',
  rolePath: '/agents/',
  keyArn: `arn:aws:kms:${ACCOUNT}:key/0a1b2c3d-0000-4000-8000-000000000000`,
  logRetentionDays: 731,
  alarms: { topicArn: `arn:aws:sns:${ACCOUNT}:operators` },
  access: { vpcEndpointIds: ['vpce-0123456789abcdef0'], ranges: ['10.20.0.0/16'] },
  concurrency: { reserved: { calls: 500, 'schedule-fired': 100 }, provisioned: { calls: 5 } },
  services: { kind: 'off' },
  web: { kind: 'off' },
});

/** Tasks and instances without public addresses, in networks with addresses of the owner's choice. */
export const PRIVATE_NETWORKS = defineStage({
  ...dev,
  sandbox: { kind: 'fargate', cidr: '10.90.0.0/18', egress: 'nat', zones: ['eu-west-1a', 'eu-west-1b'] },
  services: { cidr: '10.91.0.0/19', egress: 'nat', zones: ['eu-west-1a', 'eu-west-1b'] },
});

/** Everything in one network that exists, logs in a central bucket, and names in hosted zones. */
export const ACCOUNT_SERVICES = defineStage({
  ...dev,
  name: 'landing',
  keepsData: true,
  keyArn: ACCOUNT_RULES.keyArn,
  functionVpc: {
    id: 'vpc-0123456789abcdef0',
    subnetIds: ['subnet-0123456789abcdef2', 'subnet-0123456789abcdef3'],
    securityGroupIds: ['sg-0123456789abcdef0'],
  },
  accessLogs: { bucketName: 'acme-access-logs', prefix: 'agents/' },
  sandbox: {
    kind: 'fargate',
    vpc: {
      id: 'vpc-0123456789abcdef0',
      taskSubnetIds: ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'],
      functionSubnetIds: ['subnet-0123456789abcdef2', 'subnet-0123456789abcdef3'],
    },
  },
  services: {
    vpc: {
      id: 'vpc-0123456789abcdef0',
      instanceSubnetIds: ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'],
      balancerSubnetIds: ['subnet-0123456789abcdef4', 'subnet-0123456789abcdef5'],
    },
  },
  domain: {
    name: 'api.example.org',
    certificateArn: `arn:aws:acm:${ACCOUNT}:certificate/0a1b2c3d-0000-4000-8000-000000000000`,
    hostedZoneId: 'Z0123456789API',
  },
  web: {
    domain: {
      name: 'agents.example.org',
      certificateArn: 'arn:aws:acm:us-east-1:111122223333:certificate/7f8e9d0c-0000-4000-8000-000000000000',
      hostedZoneId: 'Z0123456789WEB',
    },
    webAclArn: 'arn:aws:wafv2:us-east-1:111122223333:global/webacl/acme/0a1b2c3d-0000-4000-8000-000000000000',
    countries: { kind: 'allow', codes: ['DE', 'AT'] },
  },
  alarms: { email: 'operators@example.org', dailyUsd: 20, thresholds: { 'slow-agents': 7000 } },
});

/** Services of the account's own domain, in its own network. */
export const BALANCED_SERVICES = defineStage({
  ...ACCOUNT_SERVICES,
  sandbox: { kind: 'none' },
  web: {
    countries: { kind: 'deny', codes: ['AQ'] },
    domain: ACCOUNT_SERVICES.web.kind === 'off' ? undefined : ACCOUNT_SERVICES.web.domain,
  },
  services: {
    vpc: ACCOUNT_SERVICES.services.kind === 'off' ? undefined : ACCOUNT_SERVICES.services.vpc,
    domain: {
      name: 'services.example.org',
      certificateArn: `arn:aws:acm:${ACCOUNT}:certificate/5d6e7f80-0000-4000-8000-000000000000`,
      hostedZoneId: 'Z0123456789SVC',
    },
  },
});

/** MicroVMs with functions in a network that exists. */
export const MICROVMS_OF_YOURS = defineStage({
  ...dev,
  name: 'vms',
  functionVpc: ACCOUNT_SERVICES.functionVpc,
  keyArn: ACCOUNT_RULES.keyArn,
  accessLogs: { bucketName: 'acme-access-logs' },
  sandbox: { kind: 'microvm' },
  services: { kind: 'off' },
  web: {},
});

/** Tasks in a network that exists. */
export const NETWORK_OF_YOURS = defineStage({
  ...dev,
  services: { kind: 'off' },
  sandbox: {
    kind: 'fargate',
    vpc: {
      id: 'vpc-0123456789abcdef0',
      taskSubnetIds: ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'],
      functionSubnetIds: ['subnet-0123456789abcdef2', 'subnet-0123456789abcdef3'],
    },
  },
});
