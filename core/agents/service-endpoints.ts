import type { Deps } from '#core/ports/deps.ts';
import { queryAll, type TransactOperation } from '#core/ports/table.ts';

/** A service of an always-on agent in a workspace. */
export interface ServedAgent {
  readonly workspaceId: string;
  readonly agentWorkspaceId: string;
  readonly agentName: string;
  readonly serviceId: string;
  readonly serviceName: string;
  /** Null while the service has no address. */
  readonly address: string | null;
}

type Agent = Pick<ServedAgent, 'workspaceId' | 'agentWorkspaceId' | 'agentName'>;

/**
 * Main table: `WS#<workspace id>#SERVED#<workspace id of the agent>/<agent> / <service id>`, deleted with the service.
 */
const keyOf = (served: Agent & Pick<ServedAgent, 'serviceId'>) => ({ pk: partitionOf(served), sk: served.serviceId });
const partitionOf = ({ workspaceId, agentWorkspaceId, agentName }: Agent): string =>
  `WS#${workspaceId}#SERVED#${agentWorkspaceId}/${agentName}`;

/** Operation that records a service of an agent, for the transaction that creates or moves the service. */
export const putEndpoint = (served: ServedAgent): TransactOperation => ({
  op: 'put',
  item: { ...keyOf(served), service_name: served.serviceName, address: served.address },
});

export const removeEndpoint = (served: Agent & Pick<ServedAgent, 'serviceId'>): TransactOperation => ({
  op: 'delete',
  key: keyOf(served),
});

/** Lists the services of an agent in a workspace. */
export async function listServed({ main }: Pick<Deps, 'main'>, agent: Agent): Promise<ServedAgent[]> {
  const items = await Array.fromAsync(queryAll(main, { pk: partitionOf(agent), limit: 1000 }));
  return items.map(({ sk, service_name, address }) => ({
    ...agent,
    serviceId: sk,
    serviceName: service_name as string,
    address: address as string | null,
  }));
}
