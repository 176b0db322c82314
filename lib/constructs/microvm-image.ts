import { Fn, RemovalPolicy } from 'aws-cdk-lib';
import { PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import { CfnMicrovmImage } from 'aws-cdk-lib/aws-lambda';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Asset } from 'aws-cdk-lib/aws-s3-assets';
import { Construct } from 'constructs';
import { type MicrovmSettings, managedConnectorOf, microvmImageNameOf, platformPathOf, type Stage } from '../config.ts';
import { serviceOfThisAccount } from './trust.ts';

export interface MicrovmImageProps {
  readonly stage: Stage;
  readonly settings: MicrovmSettings;
  /** Docker build context. */
  readonly context: string;
}

const HOOKS_PORT = 9000;
/** A VM whose runner gets no connection within this time ends, because its starter has died. */
const LEASE_SECONDS = 60;

/**
 * Image of sandboxes in MicroVMs. AWS builds it from a folder, starts it, and takes a snapshot of memory and disk, from
 * which each VM starts. Deploying needs no Docker. The deployment waits for the build and fails with it; see its log.
 */
export class MicrovmImage extends Construct {
  constructor(scope: Construct, id: string, { stage, settings, context }: MicrovmImageProps) {
    super(scope, id);
    const asset = new Asset(this, 'context', { path: context });
    const logGroup = new LogGroup(this, 'log', {
      logGroupName: `/${platformPathOf(stage)}/sandbox-image`,
      retention: stage.logRetentionDays,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    const lambda = serviceOfThisAccount('lambda.amazonaws.com');
    const role = new Role(this, 'build', { assumedBy: lambda });
    role.assumeRolePolicy!.addStatements(new PolicyStatement({ actions: ['sts:TagSession'], principals: [lambda] }));
    role.addToPolicy(
      new PolicyStatement({ actions: ['s3:GetObject'], resources: [asset.bucket.arnForObjects(asset.s3ObjectKey)] }),
    );
    // Only this log contains the reason of a failed build.
    logGroup.grantWrite(role);
    const image = new CfnMicrovmImage(this, 'image', {
      name: microvmImageNameOf(stage),
      description: 'Runs programs of agents, one session in each VM',
      baseImageArn: Fn.sub(`arn:\${AWS::Partition}:lambda:\${AWS::Region}:aws:microvm-image:al2023-1`),
      baseImageVersion: settings.baseImageVersion,
      buildRoleArn: role.roleArn,
      codeArtifact: { uri: asset.s3ObjectUrl },
      cpuConfigurations: [{ architecture: 'ARM_64' }],
      resources: [{ minimumMemoryInMiB: settings.memoryMb }],
      additionalOsCapabilities: [],
      egressNetworkConnectors: [Fn.sub(managedConnectorOf('INTERNET_EGRESS'))],
      environmentVariables: Object.entries({
        PLATFORM_RUNNER_HOOKS_PORT: String(HOOKS_PORT),
        PLATFORM_RUNNER_LEASE_SECONDS: String(LEASE_SECONDS),
      }).map(([key, value]) => ({ key, value })),
      hooks: {
        port: HOOKS_PORT,
        microvmImageHooks: {
          ready: 'ENABLED',
          readyTimeoutInSeconds: 60,
          validate: 'ENABLED',
          validateTimeoutInSeconds: 60,
        },
        microvmHooks: { run: 'ENABLED', runTimeoutInSeconds: 15 },
      },
      logging: { cloudWatch: { logGroup: logGroup.logGroupName } },
    });
    // The build must not start before the role has its permissions.
    image.node.addDependency(role);
  }
}
