import type { CreateServiceRequest } from '@aws-sdk/client-ecs';
import type { ServiceRef } from '#core/ports/service-host.ts';

/** How services get their public addresses: `gateway.ts`, `alb.ts`. Every method is safe to repeat. */
export interface Addresses {
  /** Makes what must be there before the ECS service, and tells how that is connected. */
  connect(service: ServiceRef): Promise<Pick<CreateServiceRequest, 'gatewayConnectors' | 'loadBalancers'>>;
  /** Removes what {@link connect} made, once the ECS service is deleted. */
  disconnect(serviceId: string): Promise<void>;
  /** Without a slash at the end; `undefined` while there is none. */
  addressOf(service: ServiceRef): Promise<string | undefined>;
  /** Services whose address AWS could not make: why, for users, by id. */
  failures(): Promise<ReadonlyMap<string, string>>;
}

/** Name of the runner's container, and of its one port. */
export const CONTAINER_NAME = 'runner';
export const PORT_NAME = 'http';

/** How a load balancer finds out that an instance is ready: it asks the runner. */
export const HEALTH_CHECK = {
  path: '/health',
  timeoutSeconds: 5,
  intervalSeconds: 10,
  healthyCount: 2,
  unhealthyCount: 3,
} as const;
