import {
  CloudWatchLogsClient,
  CreateLogGroupCommand,
  DeleteLogGroupCommand,
  type FilteredLogEvent,
  FilterLogEventsCommand,
  PutRetentionPolicyCommand,
} from '@aws-sdk/client-cloudwatch-logs';
import type { Clock } from '#core/ports/clock.ts';
import {
  LOG_SEVERITIES,
  LOG_SOURCES,
  type LogSeverity,
  type ServiceLogLine,
  type ServiceLogQuery,
  type ServiceLogs,
  type ServiceRef,
} from '#core/ports/service-host.ts';
import { isNamed, unless } from '../named-error.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';
import { type LogPlace, parseLogPlace } from './settings.ts';

/** Maximum time of one read: CloudWatch returns empty pages while it searches. */
const READ_MS = 15_000;
/** Earliest time that CloudWatch accepts for backward reads. */
const OLDEST = Date.parse('2024-01-01T00:00:00Z');

export const logGroupOf = ({ log_group_prefix }: LogPlace, serviceId: string): string => log_group_prefix + serviceId;

/** Logs of services in CloudWatch: a log group for each service, with a stream for each instance. */
export class CloudWatchLogs implements ServiceLogs {
  readonly #client: CloudWatchLogsClient;
  readonly #place: LogPlace;
  readonly #clock: Clock;

  constructor(client: CloudWatchLogsClient, { place, clock }: { readonly place: LogPlace; readonly clock: Clock }) {
    this.#client = client;
    this.#place = place;
    this.#clock = clock;
  }

  async logs({ id }: ServiceRef, { limit, since = OLDEST, severity }: ServiceLogQuery): Promise<ServiceLogLine[]> {
    const end = this.#clock.now() + READ_MS;
    const lines: ServiceLogLine[] = [];
    let nextToken: string | undefined;
    do {
      const command = new FilterLogEventsCommand({
        logGroupName: logGroupOf(this.#place, id),
        startTime: Math.max(since, OLDEST),
        startFromHead: false,
        limit,
        filterPattern: patternFor(severity),
        nextToken,
      });
      // A service that was never started has no log group.
      const page = await this.#client.send(command).catch(unless('ResourceNotFoundException'));
      lines.push(...(page?.events ?? []).map(lineOf).filter((line) => isWanted(line, since, severity)));
      nextToken = page?.nextToken;
    } while (nextToken !== undefined && lines.length < limit && this.#clock.now() < end);
    return lines.sort((a, b) => a.at - b.at).slice(-limit);
  }

  /** Creates the log group of a service if it does not exist. */
  async create(serviceId: string, { retentionDays, tags }: { retentionDays: number; tags: Record<string, string> }) {
    const logGroupName = logGroupOf(this.#place, serviceId);
    try {
      await this.#client.send(new CreateLogGroupCommand({ logGroupName, tags }));
    } catch (error) {
      if (!isNamed(error, 'ResourceAlreadyExistsException')) throw error;
    }
    await this.#client.send(new PutRetentionPolicyCommand({ logGroupName, retentionInDays: retentionDays }));
  }

  async remove(serviceId: string): Promise<void> {
    const command = new DeleteLogGroupCommand({ logGroupName: logGroupOf(this.#place, serviceId) });
    await this.#client.send(command).catch(unless('ResourceNotFoundException'));
  }
}

const severitiesFrom = (severity: LogSeverity): LogSeverity[] => LOG_SEVERITIES.slice(LOG_SEVERITIES.indexOf(severity));

function patternFor(severity: LogSeverity | undefined): string | undefined {
  if (severity === undefined || severity === 'DEBUG') return undefined;
  return `{ ${severitiesFrom(severity)
    .map((each) => `$.severity = "${each}"`)
    .join(' || ')} }`;
}

const isWanted = (line: ServiceLogLine, since: number, severity: LogSeverity = 'DEBUG'): boolean =>
  line.at >= since && severitiesFrom(severity).includes(line.severity);

/**
 * The runner writes lines as JSON (`runner/service/log-lines.ts`). Other lines come from Node, or are parts of a line
 * of unknown origin.
 */
function lineOf({ message = '', timestamp = 0 }: FilteredLogEvent): ServiceLogLine {
  const line = jsonOf(message);
  const severity = LOG_SEVERITIES.find((each) => each === line?.severity);
  if (severity === undefined || typeof line?.message !== 'string') {
    return { at: timestamp, severity: 'DEBUG', message };
  }
  const source = LOG_SOURCES.find((each) => each === line.source);
  const at = typeof line.at === 'number' ? line.at : timestamp;
  return { at, severity, message: line.message, ...(source && { source }) };
}

function jsonOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Creates the logs from the text of their setting, with the environment's Region and credentials. */
export const createCloudWatchLogs = (place: string, clock: Clock): CloudWatchLogs =>
  new CloudWatchLogs(mapThrottlingErrors(new CloudWatchLogsClient()), { place: parseLogPlace(place), clock });
