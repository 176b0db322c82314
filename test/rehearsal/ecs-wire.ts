import type { Deployed } from './assembly.ts';
import { passing, requestTags, withDependent } from './dependent-actions.ts';
import type { Ask } from './iam.ts';
import { fullArn, type Reader, regional } from './wire.ts';

// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
type Input = any;

/**
 * Returns the rights that a request to ECS needs. Running a task passes the roles of its definition, and copies the
 * tags of the definition if the request says so.
 */
export const ecsReader =
  (definitions: readonly Deployed[]): Reader =>
  ({ headers, body }) => {
    const action = String(headers['x-amz-target']).split('.').at(-1)!;
    const input: Input = JSON.parse(body.toString());
    const {
      TaskRoleArn,
      ExecutionRoleArn,
      Tags = [],
    } = definitions.find(({ arn }) => arn === input.taskDefinition)?.properties ?? {};
    const tags = [...(input.tags ?? []), ...(input.propagateTags === 'TASK_DEFINITION' ? Tags : [])];
    const asks = ecsAsks(action, input).map((ask) => ({ ...ask, action: `ecs:${ask.action}` }));
    return [
      ...withDependent(asks, { ...input, tags }),
      ...[TaskRoleArn, ExecutionRoleArn].flatMap((role) => passing(role, 'ecs-tasks.amazonaws.com')),
    ];
  };

function ecsAsks(action: string, input: Input): Ask[] {
  const cluster = fullArn(input.cluster ?? 'default', (name) => regional('ecs', `cluster/${name}`));
  const clusterName = cluster.split('/').at(-1)!;
  const context = { 'ecs:cluster': [cluster] };
  const of = (kind: string, name: string): string =>
    fullArn(name, (id) => regional('ecs', `${kind}/${clusterName}/${id}`));
  const definition = (name: string): string => fullArn(name, (plain) => regional('ecs', `task-definition/${plain}`));
  switch (action) {
    case 'RunTask':
      return [{ action, resource: definition(input.taskDefinition), context }];
    case 'DescribeTasks':
      return input.tasks.map((task: string) => ({ action, resource: of('task', task), context }));
    case 'StopTask':
      return [{ action, resource: of('task', input.task), context }];
    case 'ListTasks':
      // Without a container instance only the condition applies, not the resource.
      return [{ action, resource: regional('ecs', `container-instance/${clusterName}/*`), context }];
    case 'DescribeServices':
      return input.services.map((service: string) => ({ action, resource: of('service', service), context }));
    case 'CreateService':
      return [
        { action, resource: of('service', input.serviceName), context: { ...context, ...requestTags(input.tags) } },
      ];
    case 'UpdateService':
    case 'DeleteService':
      return [{ action, resource: of('service', input.service), context }];
    case 'TagResource':
      return [{ action, resource: input.resourceArn, context: requestTags(input.tags) }];
    case 'RegisterTaskDefinition':
      return [{ action, resource: definition(`${input.family}:1`), context: requestTags(input.tags) }];
    case 'DeleteTaskDefinitions':
      return input.taskDefinitions.map((name: string) => ({ action, resource: definition(name) }));
    case 'DescribeGatewayRoute':
      return [{ action, resource: input.gatewayRouteArn }];
    case 'ListGatewayRoutes':
      return [input.gateway, input.cluster && cluster, input.service && of('service', input.service)]
        .filter((resource) => resource !== undefined)
        .map((resource) => ({ action, resource }));
    case 'DescribeGateway':
    case 'UpdateGateway':
      return [{ action, resource: input.gateway }];
    case 'DescribeClusters':
      return input.clusters.map((name: string) => ({
        action,
        resource: fullArn(name, (plain) => regional('ecs', `cluster/${plain}`)),
      }));
    default:
      return [{ action, resource: '*', context }];
  }
}
