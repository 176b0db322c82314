import { createHash } from 'node:crypto';
import { Aws, CfnWaitCondition, CfnWaitConditionHandle, Duration, Fn, RemovalPolicy, Validations } from 'aws-cdk-lib';
import {
  BuildSpec,
  type CfnProject,
  ComputeType,
  LinuxArmBuildImage,
  Project,
  Source,
} from 'aws-cdk-lib/aws-codebuild';
import { Repository, RepositoryEncryption, TagMutability } from 'aws-cdk-lib/aws-ecr';
import { ContainerImage } from 'aws-cdk-lib/aws-ecs';
import { Rule, RuleTargetInput, Schedule } from 'aws-cdk-lib/aws-events';
import { CodeBuildProject } from 'aws-cdk-lib/aws-events-targets';
import { PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Asset } from 'aws-cdk-lib/aws-s3-assets';
import { AwsCustomResource, AwsCustomResourcePolicy, PhysicalResourceId } from 'aws-cdk-lib/custom-resources';
import { Construct } from 'constructs';
import { platformPathOf, runnerImageNameOf, type Stage } from '../config.ts';
import { operatorsKey } from '../encryption.ts';
import { acknowledgeWildcard } from './acknowledge.ts';
import { functionNetworkOf } from './tenant-vpc.ts';
import { serviceOfThisAccount } from './trust.ts';

export interface RunnerImageProps {
  readonly stage: Stage;
  /** Purpose of the image: part of the names of repository, build and log. */
  readonly name: 'sandbox' | 'programs' | 'services';
  /** Number of images that the repository keeps. Only these can start tasks. */
  readonly kept: number;
  /** Docker build context. */
  readonly context: string;
  /** Stage of the Dockerfile. @default - its last one */
  readonly target?: 'function';
  /** Number of days after which the image is rebuilt under the same tag. @default - it is built once */
  readonly rebuildDays?: number;
}

/** Build timeout; a build takes two to four minutes. */
const BUILD_LIMIT_SECONDS = 1800;

/**
 * Image of the runner, for sandboxes or for services, built by CodeBuild from a folder, so that deploying needs no
 * Docker. Its tag is a hash of the folder and of pinned base images. The deployment waits for the build and fails with
 * it.
 */
export class RunnerImage extends Construct {
  readonly image: ContainerImage;
  readonly repository: Repository;
  /** Hash of what the image is built from. */
  readonly tag: string;
  /** URI of the image with its tag. */
  readonly uri: string;
  /** Dependency for resources that need the image. */
  readonly ready: CfnWaitCondition;

  constructor(scope: Construct, id: string, { stage, name, kept, context, target, rebuildDays }: RunnerImageProps) {
    super(scope, id);
    const asset = new Asset(this, 'context', { path: context });
    const bases = Object.entries(stage.bases).map(
      ([base, image]) => `--build-arg ${base.toUpperCase()}_IMAGE=${image}`,
    );
    if (target !== undefined) bases.push(`--target ${target}`);
    const tag = createHash('sha256')
      .update([asset.assetHash, ...bases].join(' '))
      .digest('hex')
      .slice(0, 16);
    const key = operatorsKey(this, stage);
    const repository = new Repository(this, 'repository', {
      repositoryName: runnerImageNameOf(stage, name),
      // Mutable tags are safe, because only the build below may push.
      imageTagMutability: rebuildDays === undefined ? TagMutability.IMMUTABLE : TagMutability.MUTABLE,
      imageScanOnPush: true,
      ...(key && { encryption: RepositoryEncryption.KMS, encryptionKey: key }),
      lifecycleRules: [{ maxImageCount: kept }],
      // Images can be rebuilt at any time.
      removalPolicy: RemovalPolicy.DESTROY,
      emptyOnDelete: true,
    });
    const logGroup = new LogGroup(this, 'log', {
      logGroupName: `/${platformPathOf(stage)}/${name}-image`,
      retention: stage.logRetentionDays,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    const project = new Project(this, 'build', {
      projectName: `${runnerImageNameOf(stage, name)}-image`,
      description: `Builds the image of the runner (${name})`,
      role: new Role(this, 'role', { assumedBy: serviceOfThisAccount('codebuild.amazonaws.com') }),
      source: Source.s3({ bucket: asset.bucket, path: asset.s3ObjectKey }),
      environment: {
        buildImage: LinuxArmBuildImage.AMAZON_LINUX_2023_STANDARD_3_0,
        computeType: ComputeType.SMALL,
        // Required by Docker.
        privileged: true,
      },
      environmentVariables: {
        REGISTRY: { value: Fn.select(0, Fn.split('/', repository.repositoryUri)) },
        NAME: { value: repository.repositoryName },
        BASES: { value: bases.join(' ') },
        // Lambda accepts an image, but no list of an image and its attestations.
        BUILDX_NO_DEFAULT_ATTESTATIONS: { value: '1' },
      },
      logging: { cloudWatch: { logGroup } },
      buildSpec: BuildSpec.fromObject(BUILD),
      grantReportGroupPermissions: false,
    });
    repository.grantPullPush(project);
    repository.grant(project, 'ecr:DescribeImages');

    if (rebuildDays !== undefined) {
      const environmentVariablesOverride = [
        { name: 'TAG', value: tag },
        { name: 'AGAIN', value: 'true' },
      ];
      const event = RuleTargetInput.fromObject({ environmentVariablesOverride });
      new Rule(this, 'clock', {
        description: `Rebuilds the image of the runner (${name}) with the latest updates.`,
        schedule: Schedule.rate(Duration.days(rebuildDays)),
        targets: [new CodeBuildProject(project, { event })],
      });
    }

    // Each image needs its own signal: CloudFormation waits for a signal only once.
    const handle = new CfnWaitConditionHandle(this, `signal-${tag}`);
    const start = {
      service: 'CodeBuild',
      action: 'startBuild',
      parameters: {
        projectName: project.projectName,
        environmentVariablesOverride: [
          { name: 'TAG', value: tag },
          { name: 'SIGNAL_URL', value: handle.ref },
        ],
      },
      physicalResourceId: PhysicalResourceId.of(tag),
      // The rest of the response is not needed, and contains the signal's URL.
      outputPaths: ['build.id'],
    };
    const network = functionNetworkOf(this, stage);
    const build = new AwsCustomResource(this, 'start', {
      onCreate: start,
      onUpdate: start,
      policy: AwsCustomResourcePolicy.fromStatements([
        new PolicyStatement({ actions: ['codebuild:StartBuild'], resources: [project.projectArn] }),
      ]),
      installLatestAwsSdk: false,
      logGroup,
      ...(network && { vpc: network.vpc, vpcSubnets: network.vpcSubnets }),
    });
    build.node.addDependency(project, repository);
    this.ready = new CfnWaitCondition(this, `ready-${tag}`, {
      handle: handle.ref,
      count: 1,
      timeout: String(BUILD_LIMIT_SECONDS),
    });
    this.ready.node.addDependency(build);
    this.image = ContainerImage.fromEcrRepository(repository, tag);
    this.repository = repository;
    this.tag = tag;
    this.uri = `${Aws.ACCOUNT_ID}.dkr.ecr.${Aws.REGION}.${Aws.URL_SUFFIX}/${repository.repositoryName}:${tag}`;
    acknowledge(this, project);
  }
}

/**
 * A tag identifies the sources: an existing image is rebuilt only by the schedule, from the base images and packages of
 * that day. An image that does not start is not pushed.
 */
const BUILD = {
  version: '0.2',
  phases: {
    build: {
      commands: [
        '([ -z "$AGAIN" ] && aws ecr describe-images --repository-name "$NAME" --image-ids imageTag="$TAG") || (aws ecr get-login-password | docker login --username AWS --password-stdin "$REGISTRY" && docker build --pull $BASES --tag "$REGISTRY/$NAME:$TAG" . && docker run --rm --network none --entrypoint /bin/sh "$REGISTRY/$NAME:$TAG" -c "node --version && npm --version && python3 --version && perl -e 1 && git --version" && docker push "$REGISTRY/$NAME:$TAG")',
      ],
    },
    // Also runs after a failed build.
    post_build: {
      commands: [
        'if [ "$CODEBUILD_BUILD_SUCCEEDING" = 1 ]; then STATUS=SUCCESS; else STATUS=FAILURE; fi',
        '[ -z "$SIGNAL_URL" ] || curl --fail --retry 5 -X PUT -H "Content-Type:" --data-binary "{\\"Status\\": \\"$STATUS\\", \\"UniqueId\\": \\"$TAG\\", \\"Data\\": \\"$TAG\\", \\"Reason\\": \\"see the log of $CODEBUILD_BUILD_ID\\"}" "$SIGNAL_URL"',
      ],
    },
  },
};

/** Acknowledges findings about CDK's own grants and about permissions that the build needs. */
function acknowledge(scope: RunnerImage, project: Project): void {
  const { stack } = project;
  const { partition, region, account } = stack;
  const projectId = stack.getLogicalId(project.node.defaultChild as CfnProject);
  const logs = `arn:${partition}:logs:${region}:${account}:log-group:/aws/codebuild/\${${projectId}}:*`;
  const reasons = {
    CB3: 'Building an image takes a privileged container.',
    CB4: 'The build makes no artifact but the image, which ECR encrypts.',
    'IAM5[Action::s3:GetBucket*]': 'CDK: the build reads its one asset.',
    'IAM5[Action::s3:GetObject*]': 'CDK: the build reads its one asset.',
    'IAM5[Action::s3:List*]': 'CDK: the build reads its one asset.',
  };
  for (const [rule, reason] of Object.entries(reasons)) {
    Validations.of(scope).acknowledge({ id: `AwsSolutions-${rule}`, reason });
  }
  acknowledgeWildcard(scope, '*', 'ecr:GetAuthorizationToken has no narrower resource.');
  acknowledgeWildcard(scope, logs, "CDK: the project's own log.");
  Validations.of(project).acknowledge({
    id: 'CloudFormation-Validate::E3050',
    reason: 'The rule mistakes the ARN of a role with a path for its name.',
  });
  // Shared by the whole stack, outside this construct.
  const provider = stack.node.tryFindChild('AWS679f53fac002430cb0da5b7982bd2287');
  if (provider === undefined) throw new Error('CDK keeps the function of AwsCustomResource under another name');
  for (const [rule, reason] of Object.entries({
    'IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]':
      'CDK: the function that starts the build writes its log.',
    'IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole]':
      'CDK: with `functionVpc` the same function joins the network.',
    L1: 'CDK chooses the runtime of its own function.',
  })) {
    Validations.of(provider).acknowledge({ id: `AwsSolutions-${rule}`, reason });
  }
}
