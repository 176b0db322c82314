import { AgentPlatform } from 'agent-platform-cdk';
import { App, type CfnOutput, Stack, Stage, type StageProps } from 'aws-cdk-lib';
import { CodePipeline, CodePipelineSource, ManualApprovalStep, ShellStep } from 'aws-cdk-lib/pipelines';
import type { Construct } from 'constructs';

/** The platform in one account: `test` deletes its data with its stacks, `prod` keeps it. */
class Agents extends Stage {
  readonly baseUrl: CfnOutput;

  constructor(scope: Construct, name: 'test' | 'prod', props: StageProps) {
    super(scope, name, props);
    const platform = new AgentPlatform(this, 'agents', {
      name,
      keepsData: name === 'prod',
      logLevel: 'info',
      logRetentionDays: 90,
      runRetentionDays: 30,
      throttle: { requestsPerSecond: 1000, burst: 2000 },
      sandbox: { kind: 'fargate' },
      services: { kind: 'off' },
      alarms: {},
    });
    this.baseUrl = platform.api.node.findChild('BaseUrl') as CfnOutput;
  }
}

const REGION = 'eu-west-1';
const app = new App();
// Each push to `main` is deployed to `test`, and to `prod` after the health check of `test` and an approval.
const stack = new Stack(app, 'agents-pipeline', { env: { account: '111122223333', region: REGION } });
const pipeline = new CodePipeline(stack, 'pipeline', {
  // Stages in other accounts read the artifacts of the pipeline.
  crossAccountKeys: true,
  synth: new ShellStep('Synth', {
    // A connection to your repository that you created in the console.
    input: CodePipelineSource.connection('acme/agents-in-our-account', 'main', {
      connectionArn: `arn:aws:codeconnections:${REGION}:111122223333:connection/00000000-0000-0000-0000-000000000000`,
    }),
    commands: ['npm ci', "npx cdk synth --app 'node pipeline.ts'"],
  }),
});
const test = new Agents(stack, 'test', { env: { account: '222233334444', region: REGION } });
pipeline.addStage(test, {
  post: [
    new ShellStep('Health', {
      envFromCfnOutputs: { API: test.baseUrl },
      commands: ['curl --fail --silent "$API/health"'],
    }),
  ],
});
pipeline.addStage(new Agents(stack, 'prod', { env: { account: '333344445555', region: REGION } }), {
  pre: [new ManualApprovalStep('Release')],
});
