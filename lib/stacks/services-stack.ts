import { join } from 'node:path';
import { CustomResource, Duration, Fn, Stack, type StackProps, Validations } from 'aws-cdk-lib';
import type { IVpc } from 'aws-cdk-lib/aws-ec2';
import { Cluster, ContainerInsights } from 'aws-cdk-lib/aws-ecs';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { backgroundFunction } from '#core/api/background.ts';
import { apiUrlOf } from '../api-url.ts';
import { apiExportOf, type ServicesSettings, type Stage, serviceNamesOf } from '../config.ts';
import { acknowledgeWildcard } from '../constructs/acknowledge.ts';
import { useCompileCache } from '../constructs/compile-cache.ts';
import { PlatformFunction } from '../constructs/platform-function.ts';
import { RunnerImage } from '../constructs/runner-image.ts';
import { ServiceBalancer, ServiceGateway, type ServiceIngress } from '../constructs/service-ingress.ts';
import { allowKeeping, allowRemoving } from '../constructs/service-rights.ts';
import { ServicesNetwork } from '../constructs/services-network.ts';
import { addSpecifiedFunction } from '../constructs/specified-function.ts';
import { queueEncryptionOf } from '../encryption.ts';

export interface ServicesStackProps extends StackProps {
  readonly stage: Stage;
  readonly settings: ServicesSettings;
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
  /** Docker build context of the runner. */
  readonly runnerContext: string;
}

const KEEPER = 'service-keeper';
/** Time for inspecting events that the keeper could not handle. */
const DEAD_RETENTION = Duration.days(14);
/** After this time the clock repairs a change that could not be applied. */
const MAX_EVENT_AGE = Duration.hours(1);
/** Maximum time limit of a function, and CloudFormation's timeout for it. */
const CLEANER_LIMIT = Duration.minutes(15);

/**
 * Always-on services: their network, the cluster, their ingress, and the one function that may change them. The
 * services themselves are created at run time. Nothing here is billed by the hour before the first service, unless the
 * stage has its own load balancer.
 */
export class ServicesStack extends Stack {
  readonly ingress: ServiceGateway | ServiceBalancer;
  readonly vpc: IVpc;
  readonly keeper: LambdaFunction;
  readonly #props: ServicesStackProps;

  constructor(scope: Construct, id: string, props: ServicesStackProps) {
    super(scope, id, props);
    this.#props = props;
    const { stage, settings, bundles, runnerContext } = props;
    const network = new ServicesNetwork(this, 'network', { stage, settings });
    this.vpc = network.vpc;
    const cluster = new Cluster(this, 'cluster', {
      clusterName: serviceNamesOf(stage).cluster,
      vpc: network.vpc,
      containerInsightsV2: ContainerInsights.DISABLED,
    });
    Validations.of(cluster).acknowledge({
      id: 'AwsSolutions-ECS4',
      reason: 'Insights are billed per service. The platform itself records the health, restarts and minutes of each.',
    });
    // A task that is replaced after a crash pulls its original image. The keeper renews all services within minutes of
    // a deployment with another image.
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
    this.ingress = this.#addIngress(network, cluster, cleaner);
    // Created after everything else that may fail: a protected gateway is left behind if a deployment fails before its
    // protection can be disabled.
    this.ingress.node.addDependency(network, cleaner, image.ready);
    const removal = this.#addRemoval(cleaner, this.ingress);
    removal.node.addDependency(cleaner, cluster, network, this.ingress);

    const execution = this.#addExecutionRole(image);
    const keeper = addSpecifiedFunction(this, KEEPER, { stage, bundles });
    this.keeper = keeper.lambda;
    useCompileCache(keeper, stage);
    const apiUrl = apiUrlOf(stage, Fn.importValue(apiExportOf(stage)));
    // Apps of services get it.
    keeper.lambda.addEnvironment('PLATFORM_CALL_URL', apiUrl);
    allowKeeping(keeper, { stage, isBalanced, executionRoleArn: execution.roleArn });
    keeper.lambda.addEnvironment(
      'PLATFORM_SERVICES',
      this.toJsonString({
        ...this.ingress.settings,
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
        api_url: apiUrl,
      }),
    );
    // Created after everything that services need, and deleted before the services are removed.
    keeper.node.addDependency(removal, execution);
    this.#addEvents(keeper, cluster);
  }

  #addIngress(network: ServicesNetwork, cluster: Cluster, cleaner: PlatformFunction): ServiceGateway | ServiceBalancer {
    const { stage, settings } = this.#props;
    if (settings.domain === undefined) {
      return new ServiceGateway(this, 'gateway', { stage, settings, network, cluster, cleaner });
    }
    return new ServiceBalancer(this, 'balancer', { stage, domain: settings.domain, network });
  }

  /**
   * Removes every service when the stack is deleted: after the keeper, before the cluster, its ingress and its network.
   * It also refuses an update that replaces the ingress while services may be connected to it.
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
        // An invocation of the keeper may outlast the function, until the deletion of its role has propagated in IAM.
        SettleSeconds: '60',
        ...ingress.toClean,
      },
    });
  }

  /** Role of ECS itself, not of a task. */
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
    const logs = `arn:${this.partition}:logs:${this.region}:${this.account}:log-group:${serviceNamesOf(stage).logGroupPrefix}*`;
    role.addToPolicy(
      new PolicyStatement({
        actions: ['logs:CreateLogStream', 'logs:PutLogEvents'],
        resources: [logs],
      }),
    );
    acknowledgeWildcard(role, '*', 'ecr:GetAuthorizationToken has no narrower resource.');
    acknowledgeWildcard(role, logs, 'Their ids are not known before run time.');
    return role;
  }

  /**
   * Invokes the keeper every minute, when an instance has ended or a deployment has failed, and when a function invokes
   * it.
   */
  #addEvents(keeper: PlatformFunction, cluster: Cluster): void {
    const { stage } = this.#props;
    const { lambda } = keeper;
    const dead = new Queue(this, 'dead', {
      queueName: serviceNamesOf(stage).deadQueue,
      ...queueEncryptionOf(this, stage),
      enforceSSL: true,
      retentionPeriod: DEAD_RETENTION,
    });
    Validations.of(dead).acknowledge({
      id: 'AwsSolutions-SQS3',
      reason: 'It is a dead-letter queue itself, of a function and its rules, which cdk-nag does not see.',
    });
    // The CDK's own destination would also let the function read the queue's attributes.
    lambda.addToRolePolicy(new PolicyStatement({ actions: ['sqs:SendMessage'], resources: [dead.queueArn] }));
    keeper.useKeyForQueues();
    lambda.configureAsyncInvoke({
      retryAttempts: 2,
      maxEventAge: MAX_EVENT_AGE,
      onFailure: { bind: () => ({ destination: dead.queueArn }) },
    });
    new Rule(this, 'clock', {
      description: backgroundFunction(KEEPER).about,
      schedule: Schedule.rate(Duration.minutes(backgroundFunction(KEEPER).everyMinutes!)),
      // The next tick makes up for a missed one.
      targets: [new LambdaTarget(lambda, { retryAttempts: 0 })],
    });
    // If this event is lost, an ended instance counts as running until the next tick.
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
        // This is the only field of the event that names its cluster.
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
