import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request as sendRequest } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Deployed } from './assembly.ts';

/** Lambda allows 10 s on an otherwise idle machine. */
const INIT_LIMIT_MS = 60_000;
/** Time between SIGTERM and the end of a process. */
const END_MS = 1000;
const OUTPUT_KEPT = 20_000;
/** Headers of one connection, and those that clients may not set. */
const REMOVED =
  /^(connection|keep-alive|upgrade|expect|te|trailer|transfer-encoding|content-length|host|proxy-.*|x-real-ip|lambda-web-.*)$/;

/** A request to an endpoint, with its whole body. */
export interface WebRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Uint8Array;
}

/** Error of the service itself, as in the header `lambda-web-error-type`. */
export class WebFunctionError extends Error {
  readonly status: number;
  constructor(status: number, type: string) {
    super(type);
    this.status = status;
  }
}

/** Several environments of one revision: processes that serve many requests at once. */
export interface WebFunction {
  /** Sends a request to an environment that has room, or to a new one. Throws {@link WebFunctionError}. */
  send(request: WebRequest): Promise<IncomingMessage>;
  /** Largest number of requests that one environment served at once. */
  readonly mostAtOnce: number;
  /** Number of requests so far. */
  readonly served: number;
  /** Number of environments that exist. */
  readonly environments: number;
  /** Peak memory of all environments, in MB. */
  readonly peakMb: number;
  /** Kills the environments that are at work, as a fault of their machine would. Returns their number. */
  kill(): Promise<number>;
  /** Ends all environments as Lambda does: with SIGTERM, and after a second for good. */
  close(): Promise<void>;
}

interface Environment {
  readonly port: number;
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
  readonly ready: Promise<void>;
  output: string;
  serving: number;
  isDead: boolean;
}

/**
 * Serves a revision as a Lambda Web Function does
 * (docs.aws.amazon.com/lambda/latest/dg/web-functions.html): over HTTP/1.1, to processes that listen on
 * `AWS_LAMBDA_HTTP_ENDPOINT` and are not frozen between requests.
 */
export function startWebFunction(
  { properties: { ServiceConfig: settings } }: Deployed,
  folder: string,
  variables: Readonly<Record<string, string>>,
): WebFunction {
  const { EnvironmentVariables, MaxConcurrencyPerEnvironment: maxAtOnce, TimeoutSeconds } = settings;
  const environments = new Set<Environment>();
  let mostAtOnce = 0;
  let served = 0;

  async function start(): Promise<Environment> {
    const port = await freePort();
    const entry = join(folder, EnvironmentVariables.AWS_LAMBDA_NODEJS_ENTRYPOINT ?? 'index.js');
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', process.execPath, entry], {
      cwd: folder,
      env: {
        PATH: '/usr/local/bin:/usr/bin:/bin',
        ...variables,
        ...EnvironmentVariables,
        AWS_LAMBDA_HTTP_ENDPOINT: `127.0.0.1:${port}`,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const environment: Environment = {
      port,
      process: child,
      exited: once(child, 'close'),
      ready: listening(port, () => environment.isDead),
      output: '',
      serving: 0,
      isDead: false,
    };
    const keep = (chunk: Buffer) => {
      environment.output = (environment.output + chunk).slice(-OUTPUT_KEPT);
    };
    child.stdout!.on('data', keep);
    child.stderr!.on('data', keep);
    environments.add(environment);
    void environment.exited.then(() => {
      environment.isDead = true;
      environments.delete(environment);
    });
    return environment;
  }

  let starting: Promise<Environment> | undefined;
  async function environmentWithRoom(): Promise<Environment> {
    for (;;) {
      const free = [...environments].find(({ isDead, serving }) => !isDead && serving < maxAtOnce);
      if (free !== undefined) return free;
      starting ??= start().finally(() => {
        starting = undefined;
      });
      await starting;
    }
  }

  return {
    async send({ method, path, headers, body }) {
      const environment = await environmentWithRoom();
      environment.serving += 1;
      served += 1;
      mostAtOnce = Math.max(mostAtOnce, environment.serving);
      const leave = () => {
        environment.serving -= 1;
      };
      try {
        await environment.ready;
      } catch (error) {
        leave();
        throw new WebFunctionError(502, `Runtime.InitError: ${error} ${environment.output}`);
      }
      const sent = sendRequest({
        host: '127.0.0.1',
        port: environment.port,
        method,
        path,
        agent: false,
        headers: {
          ...Object.fromEntries(Object.entries(headers).filter(([name]) => !REMOVED.test(name))),
          host: 'endpoint.lambda-web.test',
          'x-forwarded-for': [headers['x-forwarded-for'] ?? [], '198.51.100.9'].flat().join(', '),
          'content-length': String(body.length),
          'lambda-web-request-id': randomUUID(),
        },
      });
      const late = globalThis.setTimeout(() => sent.destroy(new Error('late')), TimeoutSeconds * 1000).unref();
      sent.once('close', () => {
        clearTimeout(late);
        leave();
      });
      sent.end(body);
      try {
        const [response] = (await once(sent, 'response')) as [IncomingMessage];
        return response;
      } catch (error) {
        if ((error as Error).message === 'late') throw new WebFunctionError(504, 'Runtime.RequestTimeout');
        throw new WebFunctionError(502, `Runtime.ExitError: ${error}`);
      }
    },
    get mostAtOnce() {
      return mostAtOnce;
    },
    get served() {
      return served;
    },
    get environments() {
      return environments.size;
    },
    get peakMb() {
      return Math.max(0, ...[...environments].map(({ process: { pid } }) => peakOf(pid!)));
    },
    async kill() {
      const atWork = [...environments].filter(({ serving }) => serving > 0);
      for (const { process: child } of atWork) child.kill('SIGKILL');
      await Promise.all(atWork.map(({ exited }) => exited));
      return atWork.length;
    },
    async close() {
      await Promise.all(
        [...environments].map(async ({ process: child, exited }) => {
          child.kill('SIGTERM');
          await Promise.race([exited, setTimeout(END_MS)]);
          child.kill('SIGKILL');
          await exited;
        }),
      );
    },
  };
}

/** Resolves when something listens on the port. */
async function listening(port: number, isDead: () => boolean): Promise<void> {
  const until = performance.now() + INIT_LIMIT_MS;
  // It takes longer than this to start.
  await setTimeout(20);
  while (!isDead() && performance.now() < until) {
    const socket = connect(port, '127.0.0.1');
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return;
    await setTimeout(20);
  }
  throw new Error(isDead() ? 'its process ended' : 'it does not listen');
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

const peakOf = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
