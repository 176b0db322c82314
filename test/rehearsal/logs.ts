import type { ServerResponse } from 'node:http';
import { TEST_REGION } from '#test/helpers/aws-account.ts';
import type { Service } from './aws-gate.ts';

/** Interval that collects several lines but keeps tests that wait for one fast. */
const FLUSH_MS = 200;

// biome-ignore lint/suspicious/noExplicitAny: answers of any action.
type Output = any;

interface LogEvent {
  readonly timestamp: number;
  readonly message: string;
}

export interface LogStream {
  write(line: string): void;
  /** Resolves when all lines are stored. */
  end(): Promise<void>;
}

/** Fakes CloudWatch Logs on top of moto. */
export class Logs {
  readonly #moto: string;

  constructor(moto: string) {
    this.#moto = moto;
  }

  /** Opens a log stream for a container as `awslogs` does; the group must exist. */
  async stream(logGroupName: string, logStreamName: string): Promise<LogStream> {
    await this.#call('CreateLogStream', { logGroupName, logStreamName });
    let waiting: LogEvent[] = [];
    let flushing = Promise.resolve();
    const flush = () => {
      if (waiting.length === 0) return;
      const logEvents = waiting;
      waiting = [];
      // The group may have been deleted by then.
      const put = () => this.#call('PutLogEvents', { logGroupName, logStreamName, logEvents }).catch(() => {});
      flushing = flushing.then(put);
    };
    const timer = setInterval(flush, FLUSH_MS);
    return {
      write: (message) => void waiting.push({ timestamp: Date.now(), message }),
      async end() {
        clearInterval(timer);
        flush();
        await flushing;
      },
    };
  }

  async groups(logGroupNamePrefix: string): Promise<string[]> {
    const { logGroups } = await this.#call('DescribeLogGroups', { logGroupNamePrefix });
    return logGroups.map(({ logGroupName }: { logGroupName: string }) => logGroupName);
  }

  /**
   * Adds JSON filter patterns and backward reading, which moto lacks, and the empty first page that AWS may return
   * while it searches.
   */
  readonly service: Service = async ({ headers, body }, response) => {
    const action = String(headers['x-amz-target']).split('.').at(-1)!;
    const input: Output = JSON.parse(body.toString());
    try {
      const answer = action === 'FilterLogEvents' ? await this.#filter(input) : await this.#call(action, input);
      send(response, 200, answer);
    } catch (error) {
      send(response, 400, { __type: (error as LogsError).type, message: (error as Error).message });
    }
  };

  async #filter({ logGroupName, startTime, endTime, filterPattern, limit = 10_000, nextToken, ...rest }: Output) {
    const range = { logGroupName, startTime, endTime, interleaved: true };
    const { events } = await this.#call('FilterLogEvents', range);
    if (nextToken === undefined) return { events: [], nextToken: '0', searchedLogStreams: [] };
    const fitting = events.filter(({ message }: LogEvent) => fits(filterPattern, message));
    if (rest.startFromHead === false) fitting.reverse();
    const end = Number(nextToken) + limit;
    const next = end < fitting.length ? { nextToken: String(end) } : {};
    return { events: fitting.slice(Number(nextToken), end), ...next, searchedLogStreams: [] };
  }

  async #call(action: string, input: object): Promise<Output> {
    const answer = await fetch(this.#moto, {
      method: 'POST',
      headers: {
        authorization: `AWS4-HMAC-SHA256 Credential=test/20260101/${TEST_REGION}/logs/aws4_request`,
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': `Logs_20140328.${action}`,
      },
      body: JSON.stringify(input),
    });
    const text = await answer.text();
    const output = text === '' ? {} : JSON.parse(text);
    if (answer.ok) return output;
    throw new LogsError(output.__type, output.message);
  }
}

class LogsError extends Error {
  readonly type: string;

  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}

function send(response: ServerResponse, status: number, value: object): void {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' }).end(JSON.stringify(value));
}

/**
 * Matches patterns such as `{ $.severity = "ERROR" || $.severity = "CRITICAL" }`. Lines that are not JSON never match.
 */
function fits(pattern: string | undefined, line: string): boolean {
  if (pattern === undefined) return true;
  const [, terms] = /^\{ (.*) \}$/.exec(pattern) ?? [];
  if (terms === undefined) throw new Error(`the rehearsal knows no filter pattern ${pattern}`);
  return terms.split(' || ').some((term) => {
    const [, member, wanted] = /^\$\.(\w+) = "([^"]*)"$/.exec(term) ?? [];
    if (member === undefined) throw new Error(`the rehearsal knows no filter term ${term}`);
    try {
      return JSON.parse(line)[member] === wanted;
    } catch {
      return false;
    }
  });
}
