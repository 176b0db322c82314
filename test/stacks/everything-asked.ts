import { defineStage } from '#lib/config.ts';
import { stage as prod } from '../../stages/prod.ts';

/** Stage with every setting that a stage file may have. */
export const everythingAsked = defineStage({
  ...prod,
  domain: {
    name: 'agents.example.org',
    certificateArn: 'arn:aws:acm:eu-west-1:111122223333:certificate/0a1b2c3d-0000-4000-8000-000000000000',
  },
  web: {
    domain: {
      name: 'platform.example.org',
      certificateArn: 'arn:aws:acm:us-east-1:111122223333:certificate/7f8e9d0c-0000-4000-8000-000000000000',
    },
  },
  tables: { maxReadUnits: 12_000, maxWriteUnits: 4000 },
  firewall: { requestsPerFiveMinutes: 3000 },
  sandbox: { kind: 'fargate', idle: 1, zones: ['eu-west-1a', 'eu-west-1b'] },
  services: {
    cpu: 512,
    memoryMb: 2048,
    outboundPorts: [80, 5432, { from: 6000, to: 6999 }],
    zones: ['eu-west-1a', 'eu-west-1b'],
    domain: {
      name: 'services.example.org',
      certificateArn: 'arn:aws:acm:eu-west-1:111122223333:certificate/5d6e7f80-0000-4000-8000-000000000000',
      hostedZoneId: 'Z0123456789ABC',
    },
  },
  egressPorts: [5432, { from: 27017, to: 27019 }],
  egressPrivateRanges: ['10.20.0.0/16'],
  bootstrapQualifier: 'agents',
  permissionsBoundary: 'AgentPlatformBoundary',
  settings: {
    PLATFORM_TRANSPORTS: JSON.stringify({
      anthropic: {
        via: 'bedrock',
        region: 'eu-west-1',
        models: { 'claude-sonnet-5-5': 'eu.anthropic.claude-sonnet-5-5' },
      },
    }),
  },
  alarms: { email: 'operator@example.org', dailyUsd: 50 },
});
