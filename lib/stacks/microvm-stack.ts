import { join } from 'node:path';
import { Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import type { Construct } from 'constructs';
import type { MicrovmSettings, Stage } from '../config.ts';
import { HouseFunction } from '../constructs/house-function.ts';
import { MicrovmImage } from '../constructs/microvm-image.ts';
import { MICROVM_FUNCTIONS } from '../functions.ts';

export interface MicrovmStackProps extends StackProps {
  readonly stage: Stage;
  readonly settings: MicrovmSettings;
  /** Folder that holds a bundle a function, made by scripts/build-functions.ts. */
  readonly bundles: string;
  /** Folder with the runner's Dockerfile and all that it needs. */
  readonly runnerContext: string;
}

/** Sandboxes in Lambda MicroVMs: their image, and the function that looks after them. Nothing here waits, or costs, idle. */
export class MicrovmStack extends Stack {
  constructor(scope: Construct, id: string, props: MicrovmStackProps) {
    super(scope, id, props);
    const { stage, settings, bundles, runnerContext } = props;
    new MicrovmImage(this, 'sandbox', { stage, settings, context: runnerContext });
    const sweeper = new HouseFunction(this, 'microvm-sweeper', {
      stage,
      bundle: join(bundles, 'microvm-sweeper'),
      ...MICROVM_FUNCTIONS['microvm-sweeper'],
      environment: {},
    });
    sweeper.useMicrovms(['ListMicrovms', 'TerminateMicrovm']);
    new Rule(this, 'microvm-clock', {
      description: 'Ends VMs that outlived their time',
      schedule: Schedule.rate(Duration.minutes(15)),
      targets: [new LambdaTarget(sweeper.lambda, { retryAttempts: 0 })],
    });
  }
}
