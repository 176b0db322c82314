import { AgentPlatform } from 'agent-platform-cdk';
import { App, Stack, Stage, Tags } from 'aws-cdk-lib';

const app = new App();

// Use your own account and Region: the stacks of the platform inherit them from the surrounding stage.
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

// Other stacks of the app can be deployed beside it.
new Stack(prod, 'own', { description: 'What uses the platform' });
