import type { CreateServiceRequest } from '@aws-sdk/client-ecs';
import type { ServiceRef } from '#core/ports/service-host.ts';

/** Public addresses of services: `gateway.ts`, `alb.ts`. Every method is idempotent. */
export interface Addresses {
  /** Creates the resources that the ECS service needs, and returns how to connect it to them. */
  connect(service: ServiceRef): Promise<Pick<CreateServiceRequest, 'gatewayConnectors' | 'loadBalancers'>>;
  /** Removes what {@link connect} created, after the ECS service is deleted. */
  disconnect(serviceId: string): Promise<void>;
  /** Returns the address without a trailing slash, or `undefined` if there is none yet. */
  addressOf(service: ServiceRef): Promise<string | undefined>;
  /** Returns the services whose address AWS could not create: id to reason, for users. */
  failures(): Promise<ReadonlyMap<string, string>>;
}

/** Name of the runner's container and of its single port. */
export const CONTAINER_NAME = 'runner';
export const PORT_NAME = 'http';

/** Health check of load balancers, which the runner answers. */
export const HEALTH_CHECK = {
  path: '/health',
  timeoutSeconds: 5,
  intervalSeconds: 10,
  healthyCount: 2,
  unhealthyCount: 3,
} as const;
