import { AgentPlatform } from 'agent-platform-cdk';
import { App, Stack, Stage, Tags } from 'aws-cdk-lib';

const app = new App();

// An account and Region of yours: the stacks of the platform take them from the stage around them.
const prod = new Stage(app, 'prod', { env: { account: '111122223333', region: 'eu-west-1' } });

const platform = new AgentPlatform(prod, 'agents', {
  name: 'prod',
  keepsData: true,
  logLevel: 'info',
  logRetentionDays: 90,
  runRetentionDays: 30,
  throttle: { requestsPerSecond: 1000, burst: 2000 },
  sandbox: { kind: 'fargate', max: 50 },
  services: { kind: 'off' },
  alarms: {},
});
Tags.of(platform).add('team', 'agents');

// Whatever else the app deploys beside it.
new Stack(prod, 'own', { description: 'What uses the platform' });
