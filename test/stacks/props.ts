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
