import { defineStage } from '#lib/config.ts';

export const stage = defineStage({
  name: 'prod',
  keepsData: true,
  logLevel: 'info',
  logRetentionDays: 90,
  runRetentionDays: 30,
  alarms: {},
  sandbox: { kind: 'fargate' },
  throttle: { requestsPerSecond: 1000, burst: 2000 },
});
