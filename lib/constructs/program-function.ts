import { Duration, Size, Validations } from 'aws-cdk-lib';
import { Effect, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  Code,
  Handler,
  Function as LambdaFunction,
  Runtime,
  TenancyConfig,
} from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { functionNameOf, type ProgramSettings, type Stage } from '../config.ts';
import { RunnerImage } from './runner-image.ts';

export interface ProgramFunctionProps {
  readonly stage: Stage;
  readonly settings: ProgramSettings;
  /** Docker build context of the runner. */
  readonly context: string;
}

/** Lambda's maximum. */
const SECONDS = 900;
/** The largest layer, a bundle and the files of a program, unpacked. */
const DISK_GB = 6;

/**
 * Lambda function for runs of one short command, each environment for runs of one kind. Programs see the credentials of
 * its role, which may do nothing, not even what policies of other resources allow it: it has no log and no network of
 * ours either.
 */
export class ProgramFunction extends Construct {
  constructor(scope: Construct, id: string, { stage, settings, context }: ProgramFunctionProps) {
    super(scope, id);
    const image = new RunnerImage(this, 'image', { stage, name: 'programs', kept: 5, context, target: 'function' });
    const role = new Role(this, 'role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    role.addToPolicy(new PolicyStatement({ effect: Effect.DENY, actions: ['*'], resources: ['*'] }));
    for (const finding of ['Action::*', 'Resource::*']) {
      Validations.of(role).acknowledge({ id: `AwsSolutions-IAM5[${finding}]`, reason: 'It denies everything.' });
    }
    const fn = new LambdaFunction(this, 'function', {
      functionName: functionNameOf(stage, 'programs'),
      description: 'Runs one command of an agent in the environment of its kind of runs.',
      code: Code.fromEcrImage(image.repository, { tagOrDigest: image.tag }),
      runtime: Runtime.FROM_IMAGE,
      handler: Handler.FROM_IMAGE,
      // Same architecture as where dependencies are installed.
      architecture: Architecture.ARM_64,
      tenancyConfig: TenancyConfig.PER_TENANT,
      memorySize: settings.memoryMb,
      ephemeralStorageSize: Size.gibibytes(DISK_GB),
      timeout: Duration.seconds(SECONDS),
      reservedConcurrentExecutions: settings.max,
      role,
    });
    fn.node.addDependency(image.ready);
  }
}
