import { defineStage } from '#lib/config.ts';
import { stage as prod } from '../../stages/prod.ts';

/** A stage with whatever a stage file may ask for. */
export const everythingAsked = defineStage({
  ...prod,
  domain: {
    name: 'agents.example.org',
    certificateArn: 'arn:aws:acm:eu-west-1:111122223333:certificate/0a1b2c3d-0000-4000-8000-000000000000',
  },
  firewall: { requestsPerFiveMinutes: 3000 },
  sandbox: { kind: 'fargate', idle: 1 },
  alarms: { email: 'operator@example.org' },
});
