import { Aws } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { type Stage, serviceNamesOf } from '../config.ts';
import { acknowledgeWildcard } from './acknowledge.ts';
import type { PlatformFunction } from './platform-function.ts';
import { gatewayNameOf } from './service-ingress.ts';

/** ARNs of the services' resources in a stage. Resources created at run time have the service's id at the end. */
function arnsOf(stage: Stage) {
  const { cluster, familyPrefix, logGroupPrefix } = serviceNamesOf(stage);
  const of = (service: string, rest: string): string =>
    `arn:${Aws.PARTITION}:${service}:${Aws.REGION}:${Aws.ACCOUNT_ID}:${rest}`;
  return {
    cluster: of('ecs', `cluster/${cluster}`),
    services: of('ecs', `service/${cluster}/*`),
    tasks: of('ecs', `task/${cluster}/*`),
    taskDefinitions: of('ecs', `task-definition/${familyPrefix}*:*`),
    gateway: of('ecs', `gateway/${gatewayNameOf(stage)}/*`),
    routes: of('ecs', `gateway-route/${gatewayNameOf(stage)}/*`),
    logGroups: of('logs', `log-group:${logGroupPrefix}*`),
    scalableTargets: of('application-autoscaling', 'scalable-target/*'),
    scalingAlarms: of('cloudwatch', `alarm:TargetTracking-service/${cluster}/*`),
    targetGroups: of('elasticloadbalancing', 'targetgroup/*'),
    listener: of('elasticloadbalancing', `listener/app/${cluster}/*`),
    rules: of('elasticloadbalancing', `listener-rule/app/${cluster}/*`),
  };
}

/** Reason for the wildcard at the end of an ARN. */
const UNKNOWN_YET = 'What the platform makes for services: their ids are not known before run time.';
const NO_RESOURCE = 'The action has no narrower resource.';

/** Condition on the tags that the platform sets on all resources of a service (`aws/services/tags.ts`). */
const tagged = (key: 'RequestTag' | 'ResourceTag', stage: Stage) => ({ [`aws:${key}/platform:stage`]: stage.name });

/** Permissions for the functions that manage services, and for the one that removes them. */
class Rights {
  readonly arns: ReturnType<typeof arnsOf>;
  readonly #to: PlatformFunction;

  constructor(to: PlatformFunction, stage: Stage) {
    this.#to = to;
    this.arns = arnsOf(stage);
  }

  /** All `equal` conditions must hold, with wildcards allowed for ARNs. */
  allow(actions: readonly string[], resources: readonly string[], equal: Record<string, string> = {}): void {
    const isArn = ([, value]: [string, string]) => value.startsWith('arn:');
    const entries = Object.entries(equal);
    const [arns, texts] = [entries.filter(isArn), entries.filter((entry) => !isArn(entry))];
    const conditions = {
      ...(arns.length > 0 && { ArnEquals: Object.fromEntries(arns) }),
      ...(texts.length > 0 && { StringEquals: Object.fromEntries(texts) }),
    };
    this.#to.lambda.addToRolePolicy(
      new PolicyStatement({
        actions: [...actions],
        resources: [...resources],
        ...(entries.length > 0 && { conditions }),
      }),
    );
    for (const resource of resources.filter((each) => each.includes('*'))) {
      acknowledgeWildcard(this.#to, resource, resource === '*' ? NO_RESOURCE : UNKNOWN_YET);
    }
  }
}

const ecs = (...names: string[]): string[] => names.map((name) => `ecs:${name}`);
const logs = (...names: string[]): string[] => names.map((name) => `logs:${name}`);
const elb = (...names: string[]): string[] => names.map((name) => `elasticloadbalancing:${name}`);
const scaling = (...names: string[]): string[] => names.map((name) => `application-autoscaling:${name}`);

export interface ServiceRightsProps {
  readonly stage: Stage;
  /** Whether services are behind a load balancer of the stage instead of an ECS gateway. */
  readonly isBalanced: boolean;
}

/**
 * Grants what `aws/services/` needs: to create, change, list and remove services of this stage, and nothing else in
 * ECS.
 */
export function allowKeeping(
  keeper: PlatformFunction,
  { stage, isBalanced, executionRoleArn }: ServiceRightsProps & { readonly executionRoleArn: string },
): void {
  const rights = new Rights(keeper, stage);
  const { arns } = rights;
  const ofCluster = { 'ecs:cluster': arns.cluster };
  rights.allow(ecs('CreateService'), [arns.services], { ...ofCluster, ...tagged('RequestTag', stage) });
  rights.allow(ecs('UpdateService', 'DeleteService', 'DescribeServices'), [arns.services], ofCluster);
  rights.allow(ecs('DescribeTasks'), [arns.tasks], ofCluster);
  rights.allow(ecs('ListServices', 'ListTasks'), ['*'], ofCluster);
  rights.allow(ecs('RegisterTaskDefinition'), [arns.taskDefinitions], tagged('RequestTag', stage));
  rights.allow(ecs('DeleteTaskDefinitions'), [arns.taskDefinitions]);
  rights.allow(ecs('DeregisterTaskDefinition', 'ListTaskDefinitions'), ['*']);
  // Task definitions are tagged on creation, services with every order.
  rights.allow(ecs('TagResource'), [arns.taskDefinitions], { 'ecs:CreateAction': 'RegisterTaskDefinition' });
  rights.allow(ecs('TagResource'), [arns.services], tagged('RequestTag', stage));
  rights.allow(['iam:PassRole'], [executionRoleArn], { 'iam:PassedToService': 'ecs-tasks.amazonaws.com' });
  rights.allow(logs('CreateLogGroup', 'PutRetentionPolicy', 'TagResource', 'DeleteLogGroup'), [arns.logGroups]);
  allowScaling(rights);
  if (!isBalanced) {
    rights.allow(ecs('ListGatewayRoutes'), [arns.cluster, arns.gateway, arns.routes, arns.services]);
    rights.allow(ecs('DescribeGatewayRoute'), [arns.gateway, arns.routes]);
    return;
  }
  rights.allow(elb('CreateTargetGroup'), [arns.targetGroups], tagged('RequestTag', stage));
  rights.allow(
    elb('ModifyTargetGroupAttributes', 'DeleteTargetGroup'),
    [arns.targetGroups],
    tagged('ResourceTag', stage),
  );
  rights.allow(elb('CreateRule'), [arns.listener], tagged('RequestTag', stage));
  rights.allow(elb('DeleteRule'), [arns.rules]);
  rights.allow(elb('AddTags'), [arns.targetGroups], { 'elasticloadbalancing:CreateAction': 'CreateTargetGroup' });
  rights.allow(elb('AddTags'), [arns.rules], { 'elasticloadbalancing:CreateAction': 'CreateRule' });
  rights.allow(elb('DescribeRules', 'DescribeTargetGroups'), ['*']);
}

/**
 * Grants auto scaling:
 * docs.aws.amazon.com/autoscaling/application/userguide/security_iam_id-based-policy-examples.html. Target tracking
 * creates its alarms with the caller's permissions.
 */
function allowScaling(rights: Rights): void {
  const { arns } = rights;
  rights.allow(scaling('RegisterScalableTarget', 'PutScalingPolicy'), [arns.scalableTargets], {
    'application-autoscaling:service-namespace': 'ecs',
  });
  rights.allow(scaling('DeregisterScalableTarget'), [arns.scalableTargets]);
  const alarms = ['PutMetricAlarm', 'DescribeAlarms', 'DeleteAlarms'].map((name) => `cloudwatch:${name}`);
  rights.allow(alarms, [arns.scalingAlarms]);
  // The first scaled service of an account creates the service-linked role.
  const principal = 'ecs.application-autoscaling.amazonaws.com';
  const role = `role/aws-service-role/${principal}/AWSServiceRoleForApplicationAutoScaling_ECSService`;
  rights.allow(['iam:CreateServiceLinkedRole'], [`arn:${Aws.PARTITION}:iam::${Aws.ACCOUNT_ID}:${role}`], {
    'iam:AWSServiceName': principal,
  });
}

/** Grants what `aws/services/remove-all.ts` needs. */
export function allowRemoving(cleaner: PlatformFunction, { stage, isBalanced }: ServiceRightsProps): void {
  const rights = new Rights(cleaner, stage);
  const { arns } = rights;
  const ofCluster = { 'ecs:cluster': arns.cluster };
  rights.allow(ecs('ListServices'), ['*'], ofCluster);
  rights.allow(ecs('DeleteService'), [arns.services], ofCluster);
  rights.allow(ecs('DescribeClusters'), [arns.cluster]);
  rights.allow(ecs('ListTaskDefinitionFamilies', 'ListTaskDefinitions', 'DeregisterTaskDefinition'), ['*']);
  rights.allow(ecs('DeleteTaskDefinitions'), [arns.taskDefinitions]);
  rights.allow(scaling('DescribeScalableTargets'), ['*']);
  rights.allow(scaling('DeregisterScalableTarget'), [arns.scalableTargets]);
  rights.allow(['cloudwatch:DescribeAlarms', 'cloudwatch:DeleteAlarms'], [arns.scalingAlarms]);
  // A stage that keeps its data keeps the logs.
  if (!stage.keepsData) {
    rights.allow(logs('DescribeLogGroups'), ['*']);
    rights.allow(logs('DeleteLogGroup'), [arns.logGroups]);
  }
  if (isBalanced) {
    rights.allow(elb('DescribeRules', 'DescribeTargetGroups'), ['*']);
    rights.allow(elb('DeleteRule'), [arns.rules]);
    rights.allow(elb('DeleteTargetGroup'), [arns.targetGroups], tagged('ResourceTag', stage));
    return;
  }
  rights.allow(ecs('ListGatewayRoutes'), [arns.cluster, arns.gateway, arns.routes, arns.services]);
  if (stage.keepsData) rights.allow(ecs('DescribeGateway', 'UpdateGateway'), [arns.gateway]);
}
