import type { ServiceHost, ServiceReport } from '#core/ports/service-host.ts';

/**
 * EventBridge events about the services' cluster, reduced to the fields that are read: ECS itself is queried for the
 * rest.
 */
export type EcsEvent =
  | { readonly 'detail-type': 'ECS Task State Change'; readonly detail: { readonly taskArn: string } }
  /** `resources` contains the ARN of the ECS service. */
  | { readonly 'detail-type': 'ECS Deployment State Change'; readonly resources: readonly string[] };

/** A host whose reports come as events. Each is only a hint, so events may be lost, duplicated or late. */
export interface EventfulServiceHost extends ServiceHost {
  reportsOf(event: EcsEvent): Promise<ServiceReport[]>;
}
