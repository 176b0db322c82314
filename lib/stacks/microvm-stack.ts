import { join } from 'node:path';
import { Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import type { Construct } from 'constructs';
import type { MicrovmSettings, Stage } from '../config.ts';
import { useCompileCache } from '../constructs/compile-cache.ts';
import { MicrovmImage } from '../constructs/microvm-image.ts';
import { PlatformFunction } from '../constructs/platform-function.ts';
import { ProgramFunction } from '../constructs/program-function.ts';
import { MICROVM_FUNCTIONS, SANDBOX_CLOCKS } from '../functions.ts';

export interface MicrovmStackProps extends StackProps {
  readonly stage: Stage;
  readonly settings: MicrovmSettings;
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
  /** Docker build context of the runner. */
  readonly runnerContext: string;
}

/** Sandboxes in Lambda MicroVMs: their image, and the function that terminates old ones. Costs nothing while idle. */
export class MicrovmStack extends Stack {
  constructor(scope: Construct, id: string, props: MicrovmStackProps) {
    super(scope, id, props);
    const { stage, settings, bundles, runnerContext } = props;
    new MicrovmImage(this, 'sandbox', { stage, settings, context: runnerContext });
    const { lambda } = settings;
    if (lambda) new ProgramFunction(this, 'programs', { stage, settings: lambda, context: runnerContext });
    const sweeper = new PlatformFunction(this, 'microvm-sweeper', {
      stage,
      bundle: join(bundles, 'microvm-sweeper'),
      ...MICROVM_FUNCTIONS['microvm-sweeper'],
      environment: {},
    });
    useCompileCache(sweeper, stage);
    sweeper.useMicrovms(['ListMicrovms', 'TerminateMicrovm']);
    new Rule(this, 'microvm-clock', {
      description: 'Ends MicroVMs that exceeded their lifetime.',
      schedule: Schedule.rate(Duration.minutes(SANDBOX_CLOCKS['microvm-sweeper'])),
      targets: [new LambdaTarget(sweeper.lambda, { retryAttempts: 0 })],
    });
  }
}
