import {
  DescribeGatewayRouteCommand,
  type ECSClient,
  type GatewayRouteStatus,
  type GatewayRouteSummary,
  paginateListGatewayRoutes,
} from '@aws-sdk/client-ecs';
import { withoutEnd } from '#core/base/text.ts';
import { GATEWAY_PORT, type ServiceRef } from '#core/ports/service-host.ts';
import { type Addresses, HEALTH_CHECK, PORT_NAME } from './addresses.ts';
import type { GatewaySettings } from './settings.ts';

/** States in which a route leads to the service. */
const WORKING: readonly (GatewayRouteStatus | undefined)[] = ['ACTIVE', 'UPDATE_IN_PROGRESS', 'UPDATE_FAILED'];

const FAILURE =
  'AWS could not make the address of this service. Restart the service; if that fails, too, the operator finds the reason at the gateway in the ECS console.';

/** Addresses through an ECS gateway, which creates and deletes load balancers, certificates and host names itself. */
export class GatewayAddresses implements Addresses {
  readonly #ecs: ECSClient;
  readonly #settings: Pick<GatewaySettings, 'gateway' | 'cluster'>;

  constructor(ecs: ECSClient, settings: Pick<GatewaySettings, 'gateway' | 'cluster'>) {
    this.#ecs = ecs;
    this.#settings = settings;
  }

  async connect() {
    const healthCheck = {
      healthCheckProtocol: 'HTTP',
      healthCheckPort: GATEWAY_PORT,
      healthCheckPath: HEALTH_CHECK.path,
      healthCheckTimeoutSeconds: HEALTH_CHECK.timeoutSeconds,
      healthCheckIntervalSeconds: HEALTH_CHECK.intervalSeconds,
      healthyThresholdCount: HEALTH_CHECK.healthyCount,
      unhealthyThresholdCount: HEALTH_CHECK.unhealthyCount,
    } as const;
    return { gatewayConnectors: [{ portName: PORT_NAME, healthCheck }] };
  }

  /** ECS deletes the route together with its service. */
  async disconnect(): Promise<void> {}

  async addressOf({ id }: ServiceRef): Promise<string | undefined> {
    for await (const { gatewayRouteArn, status } of this.#routes({ service: id })) {
      if (!WORKING.includes(status)) continue;
      const { gatewayRoute } = await this.#ecs.send(new DescribeGatewayRouteCommand({ gatewayRouteArn }));
      return gatewayRoute?.serviceUrl && withoutEnd(gatewayRoute.serviceUrl, '/');
    }
    return undefined;
  }

  async failures(): Promise<Map<string, string>> {
    const failed = await Array.fromAsync(this.#routes({ status: ['CREATE_FAILED'] }));
    return new Map(failed.map(({ serviceArn = '' }) => [serviceArn.split('/').at(-1)!, FAILURE]));
  }

  async *#routes(filter: {
    readonly service?: string;
    readonly status?: GatewayRouteStatus[];
  }): AsyncGenerator<GatewayRouteSummary> {
    const { gateway, cluster } = this.#settings;
    const pages = paginateListGatewayRoutes({ client: this.#ecs }, { gateway, cluster, ...filter });
    for await (const { gatewayRoutes = [] } of pages) yield* gatewayRoutes;
  }
}
