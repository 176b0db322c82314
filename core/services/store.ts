import type { UseReader } from '#core/accounts/resources/quota.ts';
import { checkNotMoving } from '#core/accounts/workspaces/moving.ts';
import { timelineIndex } from '#core/accounts/workspaces/timeline.ts';
import { putEndpoint, removeEndpoint } from '#core/agents/service-endpoints.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, anyOf, equals, type Item, lessThan, queryAll, type TransactOperation } from '#core/ports/table.ts';
import type { NewServiceEvent, Service, ServiceEvent } from './service.ts';
import { isDue, stateOf } from './state.ts';

/*
 * Main table:
 * - `WS#<workspace id>#SERVICES / <id>`: a service, for a day after its end (gsi2, until then: `SERVICES#<first digit>`
 *   by `DUE#<id>` while the host has not applied the latest revision, else `KEPT#<id>`);
 * - `SERVICE#<id> / META`: the workspace it belongs to;
 * - `SERVICE#<id> / EVENT#<time>#<number of the change>#...`: an entry of its timeline, with expiry (gsi1: the
 *   workspace's timeline);
 * - `SERVICE_LABEL#<label> / META`: the service with this host name;
 * - `WS#<workspace id> / SERVICE_COUNT`: the number of services;
 * - the endpoints of agents: `core/agents/service-endpoints.ts`.
 *
 * Every change of a service is conditional on the number of its last change, and shares one transaction with its side
 * effects: the timeline, an alert.
 */

/** A change of a service, and the writes of its transaction. */
export interface ServiceChange {
  readonly service: Service;
  readonly events?: readonly NewServiceEvent[];
  /** At most three further operations on the main table. If one of their conditions fails, nothing is written. */
  readonly alongside?: readonly TransactOperation[];
}

type StoreDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>;

const DIGITS = '0123456789abcdef';
/** How long a deleted service can be looked up. */
const DELETED_SECONDS = 24 * 3600;
/** Maximum number of timeline entries per change, latest first: a transaction has at most ten items. */
const MAX_EVENTS = 4;
export const MAX_EVENTS_SHOWN = 50;

const isId = (id: string): boolean => /^[0-9a-f-]{36}$/.test(id);
const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#SERVICES`;
const countKey = (workspaceId: string) => ({ pk: `WS#${workspaceId}`, sk: 'SERVICE_COUNT' });
const metaKey = (id: string) => ({ pk: `SERVICE#${id}`, sk: 'META' });
const labelKey = (label: string) => ({ pk: `SERVICE_LABEL#${label}`, sk: 'META' });

/** Reads the number of services in a workspace. */
export const serviceUse =
  ({ main }: Pick<Deps, 'main'>): UseReader =>
  async (workspaceId) => ({ services: ((await main.get(countKey(workspaceId)))?.count as number | undefined) ?? 0 });

/** Stores the services of one workspace. */
export class ServiceStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /**
   * Creates a service. Returns `full` if the workspace already has `limit` services, also for concurrent calls; `taken`
   * if the label is in use.
   */
  async create(service: Service, limit: number, event: NewServiceEvent): Promise<'created' | 'full' | 'taken'> {
    const { main, clock } = this.#deps;
    if (limit < 1) return 'full';
    return retryOnConflict(clock, `the services of workspace ${this.#workspaceId}`, async () => {
      const created = await main.transact([
        {
          op: 'update',
          key: countKey(this.#workspaceId),
          changes: { add: { count: 1 } },
          condition: anyOf(absent('count'), lessThan('count', limit)),
        },
        { op: 'put', item: { ...labelKey(service.label), service_id: service.id }, condition: absent() },
        { op: 'put', item: this.#item(service, 1), condition: absent() },
        { op: 'put', item: { ...metaKey(service.id), workspace_id: this.#workspaceId } },
        putEndpoint(servedFrom(service)),
        ...this.#eventOperations(service.id, 1, [event]),
      ]);
      if (created.ok) return 'created';
      if (created.failed.includes(0)) return 'full';
      return created.failed.includes(1) ? 'taken' : undefined;
    });
  }

  /** Returns a service, even if it was recently deleted. */
  async find(id: string): Promise<Service | undefined> {
    const item = isId(id) ? await this.#deps.main.get(this.#key(id)) : undefined;
    return item && serviceFrom(item);
  }

  /** Returns all services, newest first, including recently deleted ones. Takes one query. */
  async list(): Promise<Service[]> {
    const query = { pk: partitionOf(this.#workspaceId), limit: 1000 };
    const services = (await Array.fromAsync(queryAll(this.#deps.main, query))).map(serviceFrom);
    return services.sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
  }

  /**
   * Changes a service. `decide` gets its current state, and may be called again after a concurrent change; `undefined`
   * leaves the service unchanged.
   *
   * @returns the changed service; `undefined` if it does not exist, `decide` returned `undefined`, or an operation in
   * `alongside` failed.
   */
  async change(id: string, decide: (service: Service) => ServiceChange | undefined): Promise<Service | undefined> {
    const { main, clock } = this.#deps;
    const changed = await retryOnConflict(clock, `service ${id}`, async () => {
      const item = isId(id) ? await main.get(this.#key(id)) : undefined;
      if (item === undefined) return null;
      checkNotMoving(item);
      const before = serviceFrom(item);
      const change = decide(before);
      if (change === undefined) return null;
      const { service: after, alongside = [], events = [] } = change;
      const number = item.change_number as number;
      const put: TransactOperation = {
        op: 'put',
        item: this.#item(after, number + 1),
        condition: equals('change_number', number),
      };
      const written = await main.transact([
        put,
        ...alongside,
        ...this.#sideOperations(before, after),
        ...this.#eventOperations(id, number + 1, events.slice(-MAX_EVENTS)),
      ]);
      if (written.ok) return after;
      return written.failed.some((position) => position > 0 && position <= alongside.length) ? null : undefined;
    });
    return changed ?? undefined;
  }

  /** Returns the timeline, newest first. */
  async listEvents(id: string): Promise<ServiceEvent[]> {
    const query = { pk: metaKey(id).pk, sk: { beginsWith: 'EVENT#' }, reverse: true, limit: MAX_EVENTS_SHOWN };
    return (await this.#deps.main.query(query)).items.map(eventFrom);
  }

  /** Returns the operations on other items that a change of the service implies. */
  #sideOperations(before: Service, after: Service): TransactOperation[] {
    const operations: TransactOperation[] = [];
    const isEnded = (service: Service) => service.desired === 'deleted';
    if (isEnded(after) && !isEnded(before)) {
      operations.push(
        { op: 'update', key: countKey(this.#workspaceId), changes: { add: { count: -1 } } },
        removeEndpoint(servedFrom(after)),
      );
    } else if (!isEnded(after) && (before.address !== after.address || before.name !== after.name)) {
      operations.push(putEndpoint(servedFrom(after)));
    }
    if (stateOf(after) === 'deleted' && stateOf(before) !== 'deleted') {
      operations.push(
        { op: 'delete', key: labelKey(after.label) },
        { op: 'update', key: metaKey(after.id), changes: { set: { ttl: this.#deletedTtl() } } },
      );
    }
    return operations;
  }

  #eventOperations(id: string, change: number, events: readonly NewServiceEvent[]): TransactOperation[] {
    const { clock, ids, config } = this.#deps;
    const now = clock.now();
    const ttl = epochSeconds(now) + config.runRetentionDays * 24 * 3600;
    return events.map(({ type, message }, i) => {
      const eventId = ids.uuid();
      // Several entries may have the same time.
      const order = `${String(change).padStart(9, '0')}#${i}`;
      const key = { pk: metaKey(id).pk, sk: `EVENT#${isoTime(now)}#${order}` };
      const listed = timelineIndex(this.#workspaceId, now, `${order}#${eventId}`);
      return { op: 'put', item: { ...key, ...listed, id: eventId, event_type: type, message, created_at: now, ttl } };
    });
  }

  #deletedTtl(): number {
    return epochSeconds(this.#deps.clock.now()) + DELETED_SECONDS;
  }

  #key(id: string) {
    return { pk: partitionOf(this.#workspaceId), sk: id };
  }

  #item(service: Service, number: number): Item {
    const isGone = stateOf(service) === 'deleted';
    return {
      ...this.#key(service.id),
      change_number: number,
      // TypeScript does not accept an interface as JSON.
      service: { ...service } as unknown as Item['service'],
      ...(isGone && { ttl: this.#deletedTtl() }),
      ...(!isGone && {
        gsi2pk: `SERVICES#${service.id[0]}`,
        gsi2sk: `${isDue(service) ? 'DUE' : 'KEPT'}#${service.id}`,
      }),
    };
  }
}

const serviceFrom = (item: Item): Service => item.service as unknown as Service;

const servedFrom = ({ workspaceId, agentWorkspaceId, agentName, id, name, address }: Service) => ({
  workspaceId,
  agentWorkspaceId,
  agentName,
  serviceId: id,
  serviceName: name,
  address,
});

const eventFrom = (item: Item): ServiceEvent => ({
  id: item.id as string,
  type: item.event_type as ServiceEvent['type'],
  message: item.message as string,
  createdAt: item.created_at as number,
});

/**
 * Returns the store of the workspace that a service belongs to. Only for the platform itself, or after a check of the
 * service's token.
 */
export async function storeOfService(deps: StoreDeps, id: string): Promise<ServiceStore | undefined> {
  const meta = isId(id) ? await deps.main.get(metaKey(id)) : undefined;
  return meta && new ServiceStore(deps, meta.workspace_id as string);
}

/** Lists the services of all workspaces that the host has, or should have. The index is eventually consistent. */
export async function* listAllServices({ main }: Pick<Deps, 'main'>): AsyncGenerator<Service> {
  for (const digit of DIGITS) {
    for await (const item of queryAll(main, { index: 'gsi2', pk: `SERVICES#${digit}`, limit: 500 })) {
      yield serviceFrom(item);
    }
  }
}
