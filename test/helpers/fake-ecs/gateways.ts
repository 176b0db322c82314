import { createHash, randomBytes } from 'node:crypto';
import { TEST_REGION } from '../aws-account.ts';
import { type Actions, arnOf, client, EcsError, type Input, invalid, nameIn, pageOf } from './wire.ts';

interface Gateway {
  readonly gatewayArn: string;
  readonly name: string;
  readonly status: 'ACTIVE';
  readonly infrastructureRoleArn: string;
  readonly deletionProtection: boolean;
  readonly configuration: object;
}

interface Association {
  readonly gatewayArn: string;
  readonly clusterArn: string;
  readonly status: 'ACTIVE' | 'DISASSOCIATING';
}

interface Route {
  readonly gatewayRouteArn: string;
  readonly gatewayArn: string;
  readonly clusterArn: string;
  readonly serviceArn: string;
  readonly serviceContainerPortName: string;
  readonly status: 'CREATE_IN_PROGRESS' | 'ACTIVE' | 'DELETE_IN_PROGRESS' | 'CREATE_FAILED';
  /** Set once the gateway is `ACTIVE`. */
  readonly serviceUrl?: string;
}

export interface FakeGateways {
  readonly actions: Actions;
  readonly routes: readonly Route[];
  readonly associations: readonly Association[];
  /** Refuses a connector for which no route can be made, as CreateService does. */
  check(clusterArn: string, connectors: readonly Input[], portNames: readonly string[]): void;
  /** Starts to add the route of a service. */
  attach(clusterArn: string, serviceArn: string, connectors: readonly Input[]): void;
  /** Starts to remove the route of a service. */
  detach(serviceArn: string): void;
  /** Returns the service that this host name routes to. */
  serviceAt(host: string): string | undefined;
  close(): void;
}

const MAX_PER_CLUSTER = 5;

/** Returns the ARN of the gateway with this name, which is unique in the account. */
export const gatewayArnOf = (name: string): string =>
  arnOf(`gateway/${name}/${createHash('md5').update(name).digest('hex')}`);

/**
 * Fakes ECS gateways: each is associated with a cluster first, then gets routes to its services after a delay.
 *
 * @param delayMs of each change of a route
 * @param isThere whether the Region has gateways
 */
export function startGateways(delayMs: number, isThere = true): FakeGateways {
  const gateways = new Map<string, Gateway>();
  const associations: Association[] = [];
  const routes = new Map<string, Route>();
  const timers = new Set<NodeJS.Timeout>();
  const later = (work: () => void) => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      work();
    }, delayMs);
    timers.add(timer);
  };
  const gatewayOf = (name: string): Gateway => {
    const found = [...gateways.values()].find((each) => each.gatewayArn === name || each.name === name);
    if (found === undefined) throw new EcsError('GatewayNotFoundException', 'The specified gateway was not found.');
    return found;
  };
  const associationOf = (gatewayArn: string, clusterArn: string) =>
    associations.findIndex((each) => each.gatewayArn === gatewayArn && each.clusterArn === clusterArn);
  const clusterArnOf = (cluster: string) => arnOf(`cluster/${nameIn(cluster)}`);
  const activeGateway = (clusterArn: string) =>
    associations.find((each) => each.clusterArn === clusterArn && each.status === 'ACTIVE')?.gatewayArn;
  /** A cluster leaves its gateway after its last route is removed. */
  const leave = (clusterArn: string) => {
    if ([...routes.values()].some((route) => route.clusterArn === clusterArn)) return;
    const index = associations.findIndex((each) => each.clusterArn === clusterArn && each.status === 'DISASSOCIATING');
    if (index >= 0) associations.splice(index, 1);
  };
  const summaryOf = ({ serviceUrl: _, ...summary }: Route) => summary;

  const actions: Actions = {
    CreateGateway({ name, infrastructureRoleArn, configuration, deletionProtection = true }) {
      if ([...gateways.values()].some((each) => each.name === name)) throw client('A gateway has this name.');
      if (configuration.hostSharedAlb === undefined) throw invalid('configuration: hostSharedAlb');
      const gatewayArn = gatewayArnOf(name);
      const gateway = {
        ...{ gatewayArn, name, infrastructureRoleArn, configuration, deletionProtection },
        status: 'ACTIVE',
      } as const;
      gateways.set(gatewayArn, gateway);
      return { gatewayArn, status: 'ACTIVE' };
    },
    DescribeGateway: ({ gateway }) => ({ gateway: gatewayOf(gateway) }),
    ListGateways: (input) => {
      const [list, nextToken] = pageOf([...gateways.values()], input);
      return { gateways: list.map(({ gatewayArn, name, status }) => ({ gatewayArn, name, status })), nextToken };
    },
    UpdateGateway({ gateway, deletionProtection }) {
      const found = gatewayOf(gateway);
      gateways.set(found.gatewayArn, { ...found, deletionProtection: deletionProtection ?? found.deletionProtection });
      return { gatewayArn: found.gatewayArn, status: 'UPDATE_IN_PROGRESS' };
    },
    DeleteGateway({ gateway }) {
      const { gatewayArn, deletionProtection } = gatewayOf(gateway);
      if (deletionProtection) throw client('The gateway is protected from deletion.');
      if (associations.some((each) => each.gatewayArn === gatewayArn)) {
        throw client('The gateway is associated with a cluster.');
      }
      gateways.delete(gatewayArn);
      return { gatewayArn, status: 'INACTIVE' };
    },
    AssociateGatewayWithCluster({ gateway, cluster }) {
      const { gatewayArn } = gatewayOf(gateway);
      const clusterArn = clusterArnOf(cluster);
      if (associations.filter((each) => each.clusterArn === clusterArn).length >= MAX_PER_CLUSTER) {
        throw client(`A cluster has at most ${MAX_PER_CLUSTER} gateways.`);
      }
      if (associationOf(gatewayArn, clusterArn) < 0) associations.push({ gatewayArn, clusterArn, status: 'ACTIVE' });
      return { gatewayArn, clusterArn, status: 'ACTIVE' };
    },
    DisassociateGatewayFromCluster({ gateway, cluster }) {
      const { gatewayArn } = gatewayOf(gateway);
      const clusterArn = clusterArnOf(cluster);
      const index = associationOf(gatewayArn, clusterArn);
      if (index < 0) throw client('The gateway is not associated with the cluster.');
      associations[index] = { gatewayArn, clusterArn, status: 'DISASSOCIATING' };
      leave(clusterArn);
      return { gatewayArn, clusterArn, status: 'DISASSOCIATING' };
    },
    ListGatewayClusterAssociations({ gateway, cluster, ...page }) {
      const wanted = associations.filter(
        (each) =>
          (gateway === undefined || each.gatewayArn === gatewayOf(gateway).gatewayArn) &&
          (cluster === undefined || each.clusterArn === clusterArnOf(cluster)),
      );
      const [gatewayClusterAssociations, nextToken] = pageOf(wanted, page);
      return { gatewayClusterAssociations, nextToken };
    },
    ListGatewayRoutes({ gateway, cluster, service, serviceContainerPortName, status, ...page }) {
      const wanted = [...routes.values()].filter(
        (route) =>
          (gateway === undefined || route.gatewayArn === gatewayOf(gateway).gatewayArn) &&
          (cluster === undefined || route.clusterArn === clusterArnOf(cluster)) &&
          (service === undefined || nameIn(route.serviceArn) === nameIn(service)) &&
          (serviceContainerPortName === undefined || route.serviceContainerPortName === serviceContainerPortName) &&
          (status === undefined || status.includes(route.status)),
      );
      const [list, nextToken] = pageOf(wanted, page);
      return { gatewayRoutes: list.map(summaryOf), nextToken };
    },
    DescribeGatewayRoute({ gatewayRouteArn }) {
      const route = routes.get(gatewayRouteArn);
      if (route === undefined) throw new EcsError('ResourceNotFoundException', 'The gateway route was not found.');
      const { gatewayArn: _, clusterArn: __, ...gatewayRoute } = route;
      return { gatewayRoute };
    },
  };

  return {
    actions: isThere ? actions : refusing(actions),
    get routes() {
      return [...routes.values()];
    },
    get associations() {
      return [...associations];
    },
    check(clusterArn, connectors, portNames) {
      if (connectors.length === 0) return;
      if (!isThere) throw new EcsError('UnsupportedFeatureException', 'This Region has no gateways.');
      if (connectors.length > 1) throw invalid('gatewayConnectors: at most one');
      if (activeGateway(clusterArn) === undefined) throw invalid('The cluster has no gateway that is ACTIVE.');
      if (!portNames.includes(connectors[0].portName)) {
        throw invalid(`The task definition has no port mapping named ${connectors[0].portName}.`);
      }
    },
    attach(clusterArn, serviceArn, connectors) {
      const gatewayArn = activeGateway(clusterArn);
      if (connectors.length === 0 || gatewayArn === undefined) return;
      const gatewayRouteArn = arnOf(`gateway-route/${gatewayArn.split('/')[1]}/${randomBytes(16).toString('hex')}`);
      const route: Route = {
        ...{ gatewayRouteArn, gatewayArn, clusterArn, serviceArn, status: 'CREATE_IN_PROGRESS' },
        serviceContainerPortName: connectors[0].portName,
      };
      routes.set(gatewayRouteArn, route);
      const serviceUrl = `https://ec-${randomBytes(16).toString('hex')}.ecs.${TEST_REGION}.on.aws`;
      later(() => {
        if (routes.get(gatewayRouteArn)?.status !== 'CREATE_IN_PROGRESS') return;
        routes.set(gatewayRouteArn, { ...route, status: 'ACTIVE', serviceUrl });
      });
    },
    detach(serviceArn) {
      for (const route of routes.values()) {
        if (route.serviceArn !== serviceArn || route.status === 'DELETE_IN_PROGRESS') continue;
        routes.set(route.gatewayRouteArn, { ...route, status: 'DELETE_IN_PROGRESS' });
        later(() => {
          routes.delete(route.gatewayRouteArn);
          leave(route.clusterArn);
        });
      }
    },
    serviceAt: (host) => [...routes.values()].find(({ serviceUrl }) => serviceUrl === `https://${host}`)?.serviceArn,
    close() {
      for (const timer of timers) clearTimeout(timer);
    },
  };
}

/** Refuses all actions, as a Region without gateways does. */
const refusing = (actions: Actions): Actions =>
  Object.fromEntries(
    Object.keys(actions).map((name) => [
      name,
      () => {
        throw new EcsError('UnsupportedFeatureException', 'This Region has no gateways.');
      },
    ]),
  );
