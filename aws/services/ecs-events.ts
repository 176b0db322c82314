import type { ServiceHost, ServiceReport } from '#core/ports/service-host.ts';

/** What EventBridge tells about the services' cluster, as far as it is read: ECS itself is asked for the rest. */
export type EcsEvent =
  | { readonly 'detail-type': 'ECS Task State Change'; readonly detail: { readonly taskArn: string } }
  /** `resources` has the ARN of the ECS service. */
  | { readonly 'detail-type': 'ECS Deployment State Change'; readonly resources: readonly string[] };

/** A host whose reports come as events. Each is taken for a hint, so they may be lost, doubled and late. */
export interface EventfulServiceHost extends ServiceHost {
  reportsOf(event: EcsEvent): Promise<ServiceReport[]>;
}
