import { join } from 'node:path';
import { CustomResource, Duration, Fn, Stack, type StackProps, Validations } from 'aws-cdk-lib';
import { Cluster, ContainerInsights } from 'aws-cdk-lib/aws-ecs';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { backgroundFunction } from '#core/api/background.ts';
import { apiUrlOf } from '../api-url.ts';
import { apiExportOf, type ServicesSettings, type Stage, serviceNamesOf } from '../config.ts';
import { useCompileCache } from '../constructs/compile-cache.ts';
import { PlatformFunction } from '../constructs/platform-function.ts';
import { RunnerImage } from '../constructs/runner-image.ts';
import { ServiceBalancer, ServiceGateway, type ServiceIngress } from '../constructs/service-ingress.ts';
import { allowKeeping, allowRemoving } from '../constructs/service-rights.ts';
import { ServicesNetwork } from '../constructs/services-network.ts';
import { addSpecifiedFunction } from '../constructs/specified-function.ts';

export interface ServicesStackProps extends StackProps {
  readonly stage: Stage;
  readonly settings: ServicesSettings;
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
  /** Docker build context of the runner. */
  readonly runnerContext: string;
}

const KEEPER = 'service-keeper';
/** Time to look at what the keeper could not do. */
const DEAD_RETENTION = Duration.days(14);
/** A change that could not be applied for so long is repaired by the clock. */
const MAX_EVENT_AGE = Duration.hours(1);
/** Longest time limit of a function, and of what CloudFormation waits for it. */
const CLEANER_LIMIT = Duration.minutes(15);

/**
 * Always-on services: their network, the cluster, how they are reached, and the one function that may change them. What
 * runs in it is made at run time. Nothing here costs by the hour before the first service, unless the stage has a load
 * balancer of its own.
 */
export class ServicesStack extends Stack {
  readonly #props: ServicesStackProps;

  constructor(scope: Construct, id: string, props: ServicesStackProps) {
    super(scope, id, props);
    this.#props = props;
    const { stage, settings, bundles, runnerContext } = props;
    const network = new ServicesNetwork(this, 'network', { stage, settings });
    const cluster = new Cluster(this, 'cluster', {
      clusterName: serviceNamesOf(stage).cluster,
      vpc: network.vpc,
      containerInsightsV2: ContainerInsights.DISABLED,
    });
    Validations.of(cluster).acknowledge({
      id: 'AwsSolutions-ECS4',
      reason: 'Insights are paid by the service. The platform itself records health, restarts and minutes of each.',
    });
    // A service that is replaced after a crash pulls the image that it was made with. The keeper renews all of them within
    // minutes of a deployment with another image.
    const image = new RunnerImage(this, 'image', { stage, name: 'services', kept: 10, context: runnerContext });
    const cleaner = new PlatformFunction(this, 'services-cleaner', {
      stage,
      bundle: join(bundles, 'services-cleaner'),
      memoryMb: 256,
      timeoutSeconds: CLEANER_LIMIT.toSeconds(),
      environment: {},
    });
    const isBalanced = settings.domain !== undefined;
    allowRemoving(cleaner, { stage, isBalanced });
    const ingress = this.#addIngress(network, cluster, cleaner);
    // Last of what may fail: a protected gateway stays behind a deployment that fails before its protection can be lifted.
    ingress.node.addDependency(network, cleaner, image.ready);
    const removal = this.#addRemoval(cleaner, ingress);
    removal.node.addDependency(cleaner, cluster, network, ingress);

    const execution = this.#addExecutionRole(image);
    const keeper = addSpecifiedFunction(this, KEEPER, { stage, bundles });
    useCompileCache(keeper, stage);
    allowKeeping(keeper, { stage, isBalanced, executionRoleArn: execution.roleArn });
    keeper.lambda.addEnvironment(
      'PLATFORM_SERVICES',
      this.toJsonString({
        ...ingress.settings,
        cluster: cluster.clusterName,
        subnets: network.vpc.selectSubnets(network.instanceSubnets).subnetIds,
        public_ip: network.hasPublicAddresses,
        security_group: network.instances.securityGroupId,
        image: image.uri,
        execution_role: execution.roleArn,
        family_prefix: serviceNamesOf(stage).familyPrefix,
        log_group_prefix: serviceNamesOf(stage).logGroupPrefix,
        log_retention_days: stage.logRetentionDays,
        stage: stage.name,
        cpu: settings.cpu,
        memory_mb: settings.memoryMb,
        api_url: apiUrlOf(stage, Fn.importValue(apiExportOf(stage))),
      }),
    );
    // It orders no service before one can start, and is gone before the others are removed.
    keeper.node.addDependency(removal, execution);
    this.#addEvents(keeper, cluster);
  }

  #addIngress(network: ServicesNetwork, cluster: Cluster, cleaner: PlatformFunction): ServiceIngress {
    const { stage, settings } = this.#props;
    if (settings.domain === undefined) {
      return new ServiceGateway(this, 'gateway', { stage, settings, network, cluster, cleaner });
    }
    return new ServiceBalancer(this, 'balancer', { stage, domain: settings.domain, network });
  }

  /**
   * Removes every service when the stack is deleted: after the keeper, before the cluster, the way to it and its network.
   * It also refuses an update that replaces the way while services may be connected to it.
   */
  #addRemoval(cleaner: PlatformFunction, ingress: ServiceIngress): CustomResource {
    const { stage } = this.#props;
    const { cluster, familyPrefix, logGroupPrefix } = serviceNamesOf(stage);
    return new CustomResource(this, 'remove-services', {
      resourceType: 'Custom::RemoveServices',
      serviceToken: cleaner.lambda.functionArn,
      serviceTimeout: CLEANER_LIMIT,
      properties: {
        Cluster: cluster,
        FamilyPrefix: familyPrefix,
        // A stage that keeps its data keeps the logs.
        ...(!stage.keepsData && { LogGroupPrefix: logGroupPrefix }),
        // An invocation of the keeper may outlast the function, until IAM knows everywhere that its role is gone.
        SettleSeconds: '60',
        ...ingress.toClean,
      },
    });
  }

  /** ECS itself has this role, no task. */
  #addExecutionRole(image: RunnerImage): Role {
    const { stage } = this.#props;
    const role = new Role(this, 'execution', {
      description: 'ECS pulls the image of services and writes their logs with this role.',
      assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com', {
        conditions: {
          StringEquals: { 'aws:SourceAccount': this.account },
          ArnLike: { 'aws:SourceArn': `arn:${this.partition}:ecs:${this.region}:${this.account}:*` },
        },
      }),
    });
    image.repository.grantPull(role);
    const logs = `log-group:${serviceNamesOf(stage).logGroupPrefix}*`;
    role.addToPolicy(
      new PolicyStatement({
        actions: ['logs:CreateLogStream', 'logs:PutLogEvents'],
        resources: [`arn:${this.partition}:logs:${this.region}:${this.account}:${logs}`],
      }),
    );
    for (const [resource, reason] of [
      ['*', 'ecr:GetAuthorizationToken has no narrower resource.'],
      [`arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:${logs}`, 'Their ids are not known before run time.'],
    ]) {
      Validations.of(role).acknowledge({ id: `AwsSolutions-IAM5[Resource::${resource}]`, reason: reason! });
    }
    return role;
  }

  /** The keeper comes every minute, when an instance has ended or a deployment has failed, and when a function calls it. */
  #addEvents({ lambda }: PlatformFunction, cluster: Cluster): void {
    const { stage } = this.#props;
    const dead = new Queue(this, 'dead', {
      queueName: serviceNamesOf(stage).deadQueue,
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      retentionPeriod: DEAD_RETENTION,
    });
    Validations.of(dead).acknowledge({
      id: 'AwsSolutions-SQS3',
      reason: 'It is a dead-letter queue itself, of a function and its rules, which cdk-nag does not see.',
    });
    // The CDK's own destination would also let the function look at the queue.
    lambda.addToRolePolicy(new PolicyStatement({ actions: ['sqs:SendMessage'], resources: [dead.queueArn] }));
    lambda.configureAsyncInvoke({
      retryAttempts: 2,
      maxEventAge: MAX_EVENT_AGE,
      onFailure: { bind: () => ({ destination: dead.queueArn }) },
    });
    new Rule(this, 'clock', {
      description: backgroundFunction(KEEPER).about,
      schedule: Schedule.rate(Duration.minutes(backgroundFunction(KEEPER).everyMinutes!)),
      // The next tick does what this one missed.
      targets: [new LambdaTarget(lambda, { retryAttempts: 0 })],
    });
    // Without its event an ended instance would count as running until the next tick.
    const target = new LambdaTarget(lambda, { deadLetterQueue: dead, maxEventAge: MAX_EVENT_AGE });
    new Rule(this, 'instance-ended', {
      description: 'An instance of a service has ended.',
      eventPattern: {
        source: ['aws.ecs'],
        detailType: ['ECS Task State Change'],
        detail: { clusterArn: [cluster.clusterArn], lastStatus: ['STOPPED'] },
      },
      targets: [target],
    });
    new Rule(this, 'deployment-failed', {
      description: 'New instances of a service could not be started.',
      eventPattern: {
        source: ['aws.ecs'],
        detailType: ['ECS Deployment State Change'],
        // The event names its cluster nowhere else.
        resources: [
          {
            prefix: `arn:${this.partition}:ecs:${this.region}:${this.account}:service/${serviceNamesOf(stage).cluster}/`,
          },
        ] as unknown as string[],
        detail: { eventName: ['SERVICE_DEPLOYMENT_FAILED'] },
      },
      targets: [target],
    });
  }
}
