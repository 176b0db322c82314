import { defineStage } from '#lib/config.ts';

/** For experiments: all data is deleted with the stacks. */
export const stage = defineStage({
  name: 'dev',
  keepsData: false,
  logLevel: 'debug',
  logRetentionDays: 14,
  runRetentionDays: 7,
  sandbox: { kind: 'fargate' },
  release: { kind: 'at-once' },
  throttle: { requestsPerSecond: 50, burst: 100 },
});
