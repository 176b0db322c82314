import { join } from 'node:path';
import { CustomResource, Duration, Stack, type StackProps, Validations } from 'aws-cdk-lib';
import type { IVpc } from 'aws-cdk-lib/aws-ec2';
import {
  Capability,
  type CfnTaskDefinition,
  Cluster,
  ContainerInsights,
  CpuArchitecture,
  FargateTaskDefinition,
  LinuxParameters,
  LogDriver,
  OperatingSystemFamily,
} from 'aws-cdk-lib/aws-ecs';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import { PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { type FargateSettings, platformNameOf, platformPathOf, type Stage } from '../config.ts';
import { acknowledgeWildcard } from '../constructs/acknowledge.ts';
import { useCompileCache } from '../constructs/compile-cache.ts';
import { PlatformFunction } from '../constructs/platform-function.ts';
import { ProgramFunction } from '../constructs/program-function.ts';
import { RunnerImage } from '../constructs/runner-image.ts';
import { SandboxNetwork } from '../constructs/sandbox-network.ts';
import { serviceOfThisAccount } from '../constructs/trust.ts';
import { POOL_FUNCTIONS, type PoolFunctionName, SANDBOX_CLOCKS } from '../functions.ts';
import { removalPolicyOf } from '../removal.ts';

export interface ComputeStackProps extends StackProps {
  readonly stage: Stage;
  readonly settings: FargateSettings;
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
  /** Docker build context of the runner. */
  readonly runnerContext: string;
}

/** Maximum age of an idle task, after which it ends by itself and is replaced. */
const LEASE_SECONDS = 3600;
/**
 * Grace period from SIGTERM to SIGKILL. Fargate gives Spot tasks two minutes before it reclaims them, which is also the
 * maximum.
 */
const STOP_SECONDS = { retried: 120, never: 2 };
const LOG_STREAM_PREFIX = 'task';
/** Volume -> writable path, where runner/Dockerfile has a volume. Everything else is read-only. */
const WRITABLE = { home: '/home/user', layer: '/layer', tmp: '/tmp' };

/**
 * Sandboxes on Fargate: their network, the cluster, the task definition, and the functions that manage and call tasks.
 */
export class ComputeStack extends Stack {
  readonly vpc: IVpc;
  readonly #props: ComputeStackProps;
  readonly #network: SandboxNetwork;

  constructor(scope: Construct, id: string, props: ComputeStackProps) {
    super(scope, id, props);
    this.#props = props;
    const { stage, settings, runnerContext: context } = props;
    const clusterName = `${platformNameOf(stage)}-sandbox`;
    const network = new SandboxNetwork(this, 'network', { stage, settings });
    this.#network = network;
    this.vpc = network.vpc;
    const cluster = new Cluster(this, 'cluster', {
      clusterName,
      vpc: network.vpc,
      containerInsightsV2: ContainerInsights.DISABLED,
      enableFargateCapacityProviders: settings.spot !== 'never',
    });
    Validations.of(cluster).acknowledge({
      id: 'AwsSolutions-ECS4',
      reason: 'Tasks live for seconds or minutes: their insights would cost more than the tasks.',
    });
    const task = this.#addTask();
    const { lambda } = settings;
    if (lambda) new ProgramFunction(this, 'programs', { stage, settings: lambda, context });

    const environment = { PLATFORM_POOL_MAX: String(settings.max), ...stage.settings };
    this.#addFunction('sandbox-dispatch', environment);
    const keeper = this.#addFunction('pool-keeper', {
      ...environment,
      PLATFORM_POOL_IDLE: String(settings.idle),
      PLATFORM_ECS_CLUSTER: clusterName,
      PLATFORM_ECS_TASK_DEFINITION: task.taskDefinitionArn,
      PLATFORM_ECS_SUBNETS: network.vpc.selectSubnets(network.taskSubnets).subnetIds.join(','),
      PLATFORM_ECS_PUBLIC_IP: String(network.hasPublicAddresses),
      PLATFORM_ECS_SECURITY_GROUP: network.taskGroup.securityGroupId,
    });
    this.#allowKeeper(keeper, clusterName, task);
    this.#addCleaner(keeper, cluster);
    const target = new LambdaTarget(keeper.lambda, { retryAttempts: 0 });
    new Rule(this, 'task-states', {
      description: 'A sandbox has started or ended.',
      eventPattern: {
        source: ['aws.ecs'],
        detailType: ['ECS Task State Change'],
        detail: { clusterArn: [this.#arnOf(`cluster/${clusterName}`)], lastStatus: ['RUNNING', 'STOPPED'] },
      },
      targets: [target],
    });
    new Rule(this, 'pool-clock', {
      description: 'Compares the pool with the tasks of the cluster.',
      schedule: Schedule.rate(Duration.minutes(SANDBOX_CLOCKS['pool-keeper'])),
      targets: [target],
    });
  }

  #addTask(): FargateTaskDefinition {
    const { stage, settings, runnerContext } = this.#props;
    const image = new RunnerImage(this, 'image', {
      stage,
      name: 'sandbox',
      kept: 5,
      context: runnerContext,
      // Each task pulls the tag's current image when it starts, and lives no longer than its lease and its run.
      rebuildDays: settings.rebuildDays,
    });
    const task = new FargateTaskDefinition(this, 'task', {
      family: `${platformNameOf(stage)}-sandbox`,
      executionRole: new Role(this, 'task-execution', {
        description: 'ECS pulls the image of sandboxes and writes their log with this role.',
        assumedBy: serviceOfThisAccount('ecs-tasks.amazonaws.com'),
      }),
      cpu: settings.cpu,
      memoryLimitMiB: settings.memoryMb,
      // Same architecture as the functions: installed dependencies run only where they were installed.
      runtimePlatform: { cpuArchitecture: CpuArchitecture.ARM64, operatingSystemFamily: OperatingSystemFamily.LINUX },
      volumes: Object.keys(WRITABLE).map((name) => ({ name })),
    });
    task.node.addDependency(image.ready);
    // CDK adds a task role, whose credentials Fargate would expose to every program in the task.
    task.node.tryRemoveChild('TaskRole');
    (task.node.defaultChild as CfnTaskDefinition).addPropertyDeletionOverride('TaskRoleArn');
    // No init process: the runner is process 1, which processes inside cannot signal.
    const linuxParameters = new LinuxParameters(this, 'linux');
    linuxParameters.dropCapabilities(Capability.ALL);
    const container = task.addContainer('runner', {
      image: image.image,
      // The image's user: not root, and unable to become root.
      user: '1000:1000',
      readonlyRootFilesystem: true,
      linuxParameters,
      stopTimeout: Duration.seconds(STOP_SECONDS[settings.spot]),
      portMappings: [{ containerPort: 8080 }],
      // DescribeTasks shows these values: none may be secret.
      environment: {
        PLATFORM_RUNNER_LEASE_SECONDS: String(LEASE_SECONDS),
        ...(settings.spot !== 'never' && { PLATFORM_RUNNER_NOTICE_SECONDS: String(STOP_SECONDS.retried - 10) }),
      },
      logging: LogDriver.awsLogs({
        streamPrefix: LOG_STREAM_PREFIX,
        logGroup: new LogGroup(this, 'log', {
          logGroupName: `/${platformPathOf(stage)}/sandbox`,
          retention: stage.logRetentionDays,
          removalPolicy: removalPolicyOf(stage),
        }),
      }),
    });
    container.addMountPoints(
      ...Object.entries(WRITABLE).map(([sourceVolume, containerPath]) => ({
        sourceVolume,
        containerPath,
        readOnly: false,
      })),
    );
    Validations.of(task).acknowledge({
      id: 'AwsSolutions-ECS2',
      reason: 'The variables say how long to wait for a job, and for its end.',
    });
    acknowledgeWildcard(task.executionRole!, '*', 'ecr:GetAuthorizationToken has no narrower resource.');
    return task;
  }

  #addFunction(name: PoolFunctionName, environment: Record<string, string>): PlatformFunction {
    const { stage, bundles } = this.#props;
    const network = this.#network;
    const { tables, ...spec } = POOL_FUNCTIONS[name];
    const platformFunction = new PlatformFunction(this, name, {
      stage,
      bundle: join(bundles, name),
      ...spec,
      environment,
      network:
        name === 'sandbox-dispatch'
          ? {
              vpc: network.vpc,
              vpcSubnets: network.functionSubnets,
              securityGroups: [network.dispatchGroup],
            }
          : undefined,
    });
    platformFunction.useTable('counters', tables.counters);
    useCompileCache(platformFunction, stage);
    return platformFunction;
  }

  /** Stops all tasks when the stack is deleted: after the keeper, and before the cluster and its network. */
  #addCleaner(keeper: PlatformFunction, cluster: Cluster): void {
    const { stage, bundles } = this.#props;
    const cleaner = new PlatformFunction(this, 'pool-cleaner', {
      stage,
      bundle: join(bundles, 'pool-cleaner'),
      memoryMb: 256,
      timeoutSeconds: 300,
      environment: { PLATFORM_ECS_CLUSTER: cluster.clusterName },
    });
    this.#allowTasks(cleaner, `${platformNameOf(stage)}-sandbox`);
    const resource = new CustomResource(this, 'stop-tasks', {
      resourceType: 'Custom::StopTasks',
      serviceToken: cleaner.lambda.functionArn,
      serviceTimeout: Duration.minutes(5),
    });
    resource.node.addDependency(cleaner, cluster, this.#network);
    keeper.node.addDependency(resource);
  }

  #allowKeeper(keeper: PlatformFunction, clusterName: string, task: FargateTaskDefinition): void {
    this.#allow(keeper, ['ecs:RunTask'], task.taskDefinitionArn, this.#ofCluster(clusterName));
    // Tasks inherit the tags of their definition, so starting a task requires the permission to tag it.
    this.#allow(keeper, ['ecs:TagResource'], this.#arnOf(`task/${clusterName}/*`), {
      StringEquals: { 'ecs:CreateAction': 'RunTask' },
    });
    this.#allowTasks(keeper, clusterName);
    this.#allow(keeper, ['iam:PassRole'], task.executionRole!.roleArn, {
      StringEquals: { 'iam:PassedToService': 'ecs-tasks.amazonaws.com' },
    });
  }

  /** Grants describing and stopping the tasks of the cluster. */
  #allowTasks(platformFunction: PlatformFunction, clusterName: string): void {
    this.#allow(platformFunction, ['ecs:DescribeTasks', 'ecs:StopTask'], this.#arnOf(`task/${clusterName}/*`));
    // The action cannot be restricted to resources.
    this.#allow(platformFunction, ['ecs:ListTasks'], '*', this.#ofCluster(clusterName));
    const reason = 'Tasks of this cluster: their names are not known before they start.';
    acknowledgeWildcard(platformFunction, this.#arnOf(`task/${clusterName}/*`), reason);
  }

  #allow(
    platformFunction: PlatformFunction,
    actions: string[],
    resource: string,
    conditions?: Record<string, object>,
  ): void {
    platformFunction.lambda.addToRolePolicy(new PolicyStatement({ actions, resources: [resource], conditions }));
  }

  #ofCluster(clusterName: string) {
    return { ArnEquals: { 'ecs:cluster': this.#arnOf(`cluster/${clusterName}`) } };
  }

  #arnOf(resource: string): string {
    return `arn:${this.partition}:ecs:${this.region}:${this.account}:${resource}`;
  }
}
