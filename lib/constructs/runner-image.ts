import { CfnWaitCondition, CfnWaitConditionHandle, Fn, RemovalPolicy, Validations } from 'aws-cdk-lib';
import {
  BuildSpec,
  type CfnProject,
  ComputeType,
  LinuxArmBuildImage,
  Project,
  Source,
} from 'aws-cdk-lib/aws-codebuild';
import { Repository, TagMutability } from 'aws-cdk-lib/aws-ecr';
import { ContainerImage } from 'aws-cdk-lib/aws-ecs';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Asset } from 'aws-cdk-lib/aws-s3-assets';
import { AwsCustomResource, AwsCustomResourcePolicy, PhysicalResourceId } from 'aws-cdk-lib/custom-resources';
import { Construct } from 'constructs';
import type { Stage } from '../config.ts';

export interface RunnerImageProps {
  readonly stage: Stage;
  /** Folder with a Dockerfile and all that it needs. */
  readonly context: string;
}

/** A build takes two to four minutes. */
const BUILD_LIMIT_SECONDS = 1800;
const KEPT_IMAGES = 5;

/**
 * The image of the sandboxes, built by CodeBuild from a folder, so that nobody who deploys needs Docker. It is tagged by
 * what the folder holds. The deployment waits for it, and fails with it.
 */
export class RunnerImage extends Construct {
  readonly image: ContainerImage;
  /** What needs the image waits for this. */
  readonly ready: CfnWaitCondition;

  constructor(scope: Construct, id: string, { stage, context }: RunnerImageProps) {
    super(scope, id);
    const asset = new Asset(this, 'context', { path: context });
    const tag = asset.assetHash.slice(0, 16);
    const repository = new Repository(this, 'repository', {
      repositoryName: `platform-${stage.name}-sandbox`,
      imageTagMutability: TagMutability.IMMUTABLE,
      imageScanOnPush: true,
      lifecycleRules: [{ maxImageCount: KEPT_IMAGES }],
      // It can be built again at any time.
      removalPolicy: RemovalPolicy.DESTROY,
      emptyOnDelete: true,
    });
    const logGroup = new LogGroup(this, 'log', {
      logGroupName: `/platform/${stage.name}/sandbox-image`,
      retention: stage.logRetentionDays,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    const project = new Project(this, 'build', {
      projectName: `platform-${stage.name}-sandbox-image`,
      description: 'Builds the image of the sandboxes',
      source: Source.s3({ bucket: asset.bucket, path: asset.s3ObjectKey }),
      environment: {
        buildImage: LinuxArmBuildImage.AMAZON_LINUX_2023_STANDARD_3_0,
        computeType: ComputeType.SMALL,
        // Docker needs it.
        privileged: true,
      },
      environmentVariables: {
        REGISTRY: { value: Fn.select(0, Fn.split('/', repository.repositoryUri)) },
        NAME: { value: repository.repositoryName },
      },
      logging: { cloudWatch: { logGroup } },
      buildSpec: BuildSpec.fromObject(BUILD),
      grantReportGroupPermissions: false,
    });
    repository.grantPullPush(project);
    repository.grant(project, 'ecr:DescribeImages');

    // Each image has a signal of its own: one that was waited for once is not waited for again.
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
      // The answer has the signal's address in it, and is of no use.
      outputPaths: ['build.id'],
    };
    const build = new AwsCustomResource(this, 'start', {
      onCreate: start,
      onUpdate: start,
      policy: AwsCustomResourcePolicy.fromStatements([
        new PolicyStatement({ actions: ['codebuild:StartBuild'], resources: [project.projectArn] }),
      ]),
      installLatestAwsSdk: false,
      logGroup,
    });
    build.node.addDependency(project, repository);
    this.ready = new CfnWaitCondition(this, `ready-${tag}`, {
      handle: handle.ref,
      count: 1,
      timeout: String(BUILD_LIMIT_SECONDS),
    });
    this.ready.node.addDependency(build);
    this.image = ContainerImage.fromEcrRepository(repository, tag);
    acknowledge(this, project);
  }
}

/** A tag names its content: what is there need not be built again. */
const BUILD = {
  version: '0.2',
  phases: {
    build: {
      commands: [
        'aws ecr describe-images --repository-name "$NAME" --image-ids imageTag="$TAG" || (aws ecr get-login-password | docker login --username AWS --password-stdin "$REGISTRY" && docker build --tag "$REGISTRY/$NAME:$TAG" . && docker push "$REGISTRY/$NAME:$TAG")',
      ],
    },
    // Comes also after a build that failed.
    post_build: {
      commands: [
        'if [ "$CODEBUILD_BUILD_SUCCEEDING" = 1 ]; then STATUS=SUCCESS; else STATUS=FAILURE; fi',
        'curl --fail --retry 5 -X PUT -H "Content-Type:" --data-binary "{\\"Status\\": \\"$STATUS\\", \\"UniqueId\\": \\"$TAG\\", \\"Data\\": \\"$TAG\\", \\"Reason\\": \\"see the log of $CODEBUILD_BUILD_ID\\"}" "$SIGNAL_URL"',
      ],
    },
  },
};

/** What CDK's own grants make of it, and what the build cannot do without. */
function acknowledge(scope: RunnerImage, project: Project): void {
  const { stack } = project;
  const projectId = stack.getLogicalId(project.node.defaultChild as CfnProject);
  const logs = `arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group:/aws/codebuild/<${projectId}>:*`;
  const reasons = {
    CB3: 'Building an image takes a privileged container.',
    CB4: 'The build makes no artifact but the image, which ECR encrypts.',
    'IAM5[Action::s3:GetBucket*]': 'CDK: to read the one asset that is built.',
    'IAM5[Action::s3:GetObject*]': 'CDK: to read the one asset that is built.',
    'IAM5[Action::s3:List*]': 'CDK: to read the one asset that is built.',
    'IAM5[Resource::*]': 'ecr:GetAuthorizationToken knows no resource.',
    [`IAM5[Resource::${logs}]`]: "CDK: the project's own log.",
  };
  for (const [rule, reason] of Object.entries(reasons)) {
    Validations.of(scope).acknowledge({ id: `AwsSolutions-${rule}`, reason });
  }
  // One for the whole stack, outside of this construct.
  const provider = stack.node.tryFindChild('AWS679f53fac002430cb0da5b7982bd2287');
  if (provider === undefined) throw new Error('CDK keeps the function of AwsCustomResource under another name');
  for (const [rule, reason] of Object.entries({
    'IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]':
      'CDK: the function that starts the build writes its log.',
    L1: 'CDK chooses the runtime of its own function.',
  })) {
    Validations.of(provider).acknowledge({ id: `AwsSolutions-${rule}`, reason });
  }
}
