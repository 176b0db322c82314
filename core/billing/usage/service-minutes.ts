import { dayOf, epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, lessThan, queryAll } from '#core/ports/table.ts';
import type { Period } from './period.ts';

/**
 * Running time of service instances. Runs table: `WS#<workspace id>#SERVICE_USAGE / <day>#<service id>#<instance id>`,
 * with
 * the instance's milliseconds on that UTC day. A row holds the total and only grows, so repeated, late or reordered
 * writes
 * count nothing twice.
 */
const partitionOf = (workspaceId: string): string => `WS#${workspaceId}#SERVICE_USAGE`;

const DAY_MS = 24 * 3_600_000;
/** Same retention as the usage of runs. */
const KEPT_SECONDS = 400 * 24 * 3600;

/** An instance of a service, from its start to the latest time at which it was known to run. Epoch milliseconds. */
export interface InstanceSpan {
  readonly workspaceId: string;
  readonly serviceId: string;
  readonly serviceName: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly instanceId: string;
  readonly startedAt: number;
  readonly until: number;
  /** Last day that is completely written; null for none. */
  readonly writtenDay: string | null;
}

/** Writes the days of a span. Returns the last past day, which need not be written again. */
export async function writeSpan({ runs }: Pick<Deps, 'runs'>, span: InstanceSpan): Promise<string | null> {
  const { startedAt, until, writtenDay } = span;
  let complete = writtenDay;
  for (let midnight = Math.floor(startedAt / DAY_MS) * DAY_MS; midnight <= until; midnight += DAY_MS) {
    const day = dayOf(midnight);
    if (writtenDay !== null && day <= writtenDay) continue;
    const ms = Math.min(until, midnight + DAY_MS) - Math.max(startedAt, midnight);
    if (ms > 0) {
      await runs.update(
        { pk: partitionOf(span.workspaceId), sk: `${day}#${span.serviceId}#${span.instanceId}` },
        {
          set: {
            service_id: span.serviceId,
            service_name: span.serviceName,
            agent_org: span.agentOrg,
            agent_name: span.agentName,
            ms,
            ttl: epochSeconds(midnight) + KEPT_SECONDS,
          },
        },
        anyOf(absent('ms'), lessThan('ms', ms)),
      );
    }
    if (until >= midnight + DAY_MS) complete = day;
  }
  return complete;
}

export interface ServiceMinutes {
  readonly serviceId: string;
  readonly serviceName: string;
  readonly agentName: string;
  readonly ms: number;
}

/** Running time of one service instance on one UTC day. */
interface ServiceDay extends ServiceMinutes {
  readonly day: string;
  /** Absent in rows of version 0.1.0. */
  readonly agentOrg: string | undefined;
}

/** Yields the running times of a workspace's service instances by day. */
export async function* listServiceDays(
  { runs }: Pick<Deps, 'runs'>,
  workspaceId: string,
  { days }: Pick<Period, 'days'>,
): AsyncGenerator<ServiceDay> {
  const sk = { between: [days[0]!, `${days.at(-1)}$`] } as const;
  for await (const item of queryAll(runs, { pk: partitionOf(workspaceId), sk, limit: 1000 })) {
    yield {
      day: item.sk.slice(0, 10),
      serviceId: item.service_id as string,
      serviceName: item.service_name as string,
      agentOrg: item.agent_org as string | undefined,
      agentName: item.agent_name as string,
      ms: item.ms as number,
    };
  }
}

/** Reads the running time of each service of a workspace in a period, longest first. */
export async function readServiceMinutes(
  deps: Pick<Deps, 'runs'>,
  workspaceId: string,
  period: Period,
): Promise<ServiceMinutes[]> {
  const sums = new Map<string, ServiceMinutes>();
  for await (const { serviceId, serviceName, agentName, ms } of listServiceDays(deps, workspaceId, period)) {
    sums.set(serviceId, { serviceId, serviceName, agentName, ms: (sums.get(serviceId)?.ms ?? 0) + ms });
  }
  return [...sums.values()].sort((a, b) => b.ms - a.ms);
}
