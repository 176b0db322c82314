import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface AdministeredFunction {
  readonly name: string;
  readonly arn: string;
  readonly timeoutSeconds: number;
  readonly environment: Readonly<Record<string, string>>;
}

export interface QueueReader {
  readonly id: string;
  /** ARN of the function or of an alias. */
  readonly functionArn: string;
  isEnabled: boolean;
}

/** Lambda's settings of functions, apart from their code. */
export interface AdministeredState {
  readonly functions: readonly AdministeredFunction[];
  /** Reserved concurrency by function. */
  readonly reserved: Map<string, number>;
  /** Provisioned concurrency by `<function>:<alias or version>`. */
  readonly provisioned: Map<string, number>;
  readonly readers: readonly QueueReader[];
}

export interface FakeLambdaAdmin {
  readonly url: string;
  /** Tags by function. */
  readonly tags: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** `<method> <path>` of every request, in order. */
  readonly requests: readonly string[];
  /** Answers every request after the next `count` with a server error. */
  failAfter(count: number): void;
  close(): void;
}

type Answer = readonly [status: number, body?: object];
const PAGE = 2;

/**
 * Fakes Lambda's administrative API on the SDK's wire protocol: settings, tags, concurrency and event source mappings.
 * Functions come in pages of two. Provisioned concurrency may not exceed reserved concurrency.
 */
export async function startFakeLambdaAdmin(state: AdministeredState): Promise<FakeLambdaAdmin> {
  const { functions, reserved, provisioned, readers } = state;
  const tags = new Map<string, Record<string, string>>(functions.map(({ name }) => [name, {}]));
  const requests: string[] = [];
  let left = Number.POSITIVE_INFINITY;

  // biome-ignore lint/suspicious/noExplicitAny: the body of any action.
  function answer(method: string, { pathname, searchParams }: URL, body: any): Answer {
    const [, , resource, name = '', member] = pathname.split('/').map(decodeURIComponent);
    switch (member ?? resource) {
      case 'functions': {
        const at = Number(searchParams.get('Marker') ?? 0);
        const NextMarker = at + PAGE < functions.length ? String(at + PAGE) : undefined;
        return [200, { Functions: functions.slice(at, at + PAGE).map(configurationOf), NextMarker }];
      }
      case 'tags': {
        const own = tags.get(name.split(':').at(-1)!)!;
        if (method === 'POST') Object.assign(own, body.Tags);
        for (const key of method === 'DELETE' ? searchParams.getAll('tagKeys') : []) delete own[key];
        return method === 'GET' ? [200, { Tags: own }] : [204];
      }
      case 'event-source-mappings': {
        const all = readers.map(({ id, functionArn }) => ({ UUID: id, FunctionArn: functionArn }));
        if (method === 'GET') return [200, { EventSourceMappings: all }];
        readers.find(({ id }) => id === name)!.isEnabled = body.Enabled;
        return [202, {}];
      }
      case 'concurrency': {
        if (method === 'PUT') {
          const kept = keptBy(name).reduce((sum, [, count]) => sum + count, 0);
          if (kept > body.ReservedConcurrentExecutions) return invalid('fewer than are kept started');
          reserved.set(name, body.ReservedConcurrentExecutions);
        } else if (method === 'DELETE') {
          reserved.delete(name);
          return [204];
        }
        return [200, { ReservedConcurrentExecutions: reserved.get(name) }];
      }
      case 'provisioned-concurrency': {
        const key = `${name}:${searchParams.get('Qualifier')}`;
        if (method === 'PUT') {
          const count = body.ProvisionedConcurrentExecutions;
          if (count > (reserved.get(name) ?? Number.POSITIVE_INFINITY)) return invalid('more than are reserved');
          provisioned.set(key, count);
          return [202, {}];
        }
        if (method === 'DELETE') {
          provisioned.delete(key);
          return [204];
        }
        const prefix = functions.find((each) => each.name === name)!.arn.slice(0, -name.length);
        const configs = keptBy(name).map(([own, count]) => ({
          FunctionArn: prefix + own,
          RequestedProvisionedConcurrentExecutions: count,
        }));
        return [200, { ProvisionedConcurrencyConfigs: configs }];
      }
      default:
        throw new Error(`the fake Lambda knows no ${method} ${pathname}`);
    }
  }
  const keptBy = (name: string) => [...provisioned].filter(([key]) => key.startsWith(`${name}:`));

  const server = createServer(async (request, response) => {
    const text = Buffer.concat(await request.toArray()).toString();
    const url = new URL(request.url!, 'http://lambda');
    requests.push(`${request.method} ${decodeURIComponent(url.pathname)}`);
    left -= 1;
    const [status, body] = left < 0 ? [500] : answer(request.method!, url, JSON.parse(text || '{}'));
    response.writeHead(status, { 'content-type': 'application/json' }).end(body && JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    tags,
    requests,
    failAfter(count) {
      left = count;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const invalid = (message: string): Answer => [400, { Type: 'User', message, code: 'InvalidParameterValueException' }];

const configurationOf = ({ name, arn, timeoutSeconds, environment }: AdministeredFunction) => ({
  FunctionName: name,
  FunctionArn: arn,
  Timeout: timeoutSeconds,
  Environment: { Variables: environment },
});
