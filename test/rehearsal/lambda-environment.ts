import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';

/** Start settings of a function's process. */
export interface EnvironmentSpec {
  /** Returns the program with its arguments: the runtime client, or what starts an image. */
  readonly command: (variables: Readonly<Record<string, string>>) => Promise<readonly string[]>;
  readonly folder: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Whether the program may start others. @default false */
  readonly isTree?: boolean;
}

/** CPU time and peak memory of an environment. */
interface Used {
  readonly cpuMs: number;
  readonly peakMb: number;
}

/** One invocation of a function. */
export interface Invoke {
  readonly requestId: string;
  readonly functionArn: string;
  readonly event: string;
  readonly timeoutMs: number;
}

/** The answer of a function: JSON or a stream. */
export interface Invocation {
  readonly isStream: boolean;
  /** Errors when a streaming function fails, times out or dies. */
  readonly payload: AsyncIterable<Uint8Array>;
}

/** Error of a function that threw, timed out or died before it began to answer. */
export class FunctionError extends Error {
  readonly code = 'FUNCTION_ERROR';
}

/** Limit for initialization; Lambda allows 10 s on an otherwise idle machine. */
const INIT_LIMIT_MS = 60_000;
const OUTPUT_KEPT = 20_000;

/**
 * Execution environment of a Lambda function: a process of the real runtime client, and its Runtime API. As in Lambda,
 * it handles one event at a time, is frozen (SIGSTOP) while it waits for the next one, and is killed at the event's
 * timeout.
 */
export class LambdaEnvironment {
  readonly #server: Server;
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #isTree: boolean;
  #used: Used = { cpuMs: 0, peakMb: 0 };
  #output = '';
  /** The pending request for the next event, while the process is idle. */
  #idle: ServerResponse | undefined;
  #waiting = Promise.withResolvers<void>();
  #current: Current | undefined;
  #initError: string | undefined;
  #isDead = false;

  /** Starts the process. Resolves when it requests its first event. */
  static async start(spec: EnvironmentSpec): Promise<LambdaEnvironment> {
    // A call may take minutes, and a frozen process keeps its connection to the Runtime API.
    const server = createServer({ requestTimeout: 0, keepAliveTimeout: 0 }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const runtimeApi = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const variables = { ...spec.variables, AWS_LAMBDA_RUNTIME_API: runtimeApi };
    const environment = new LambdaEnvironment(await spec.command(variables), { ...spec, variables }, server);
    const timer = setTimeout(() => environment.#kill('it does not get ready'), INIT_LIMIT_MS);
    try {
      await environment.#waiting.promise;
    } finally {
      clearTimeout(timer);
    }
    return environment;
  }

  private constructor(
    command: readonly string[],
    { folder, variables, isTree = false }: EnvironmentSpec,
    server: Server,
  ) {
    this.#server = server;
    this.#isTree = isTree;
    server.on('request', (request, response) => {
      this.#serve(request, response).catch((error) => response.destroy(error));
    });
    // A frozen process cannot react to signals, so the kernel ends it with its parent.
    this.#process = spawn('setpriv', ['--pdeathsig', 'KILL', ...command], {
      cwd: folder,
      env: variables,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const keep = (chunk: Buffer) => {
      this.#output = (this.#output + chunk).slice(-OUTPUT_KEPT);
    };
    this.#process.stdout!.on('data', keep);
    this.#process.stderr!.on('data', keep);
    this.#exited = once(this.#process, 'close').catch(keep);
    this.#exited.then(() => this.#kill('its process ended'));
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Resolves when all work for the event is done and the process is frozen or dead. */
  get ended(): Promise<void> {
    return this.#waiting.promise.catch(() => {});
  }

  /** The end of its output, for error messages. */
  get output(): string {
    return this.#output;
  }

  /** What its processes had used when they were frozen last. */
  get used(): Used {
    return this.#isDead ? { cpuMs: 0, peakMb: 0 } : this.#used;
  }

  /** Invokes the function. Throws {@link FunctionError} if it fails before it answers. */
  invoke({ requestId, functionArn, event, timeoutMs }: Invoke): Promise<Invocation> {
    const idle = this.#idle;
    if (idle === undefined || this.#isDead) throw new Error('this environment takes no event now');
    this.#idle = undefined;
    this.#waiting = Promise.withResolvers();
    const timer = setTimeout(
      () => this.#kill(`Task timed out after ${(timeoutMs / 1000).toFixed(2)} seconds`),
      timeoutMs,
    );
    this.#current = { requestId, timer, answer: Promise.withResolvers(), stream: undefined, isAnswered: false };
    const { promise } = this.#current.answer;
    this.#signal('SIGCONT');
    idle
      .writeHead(200, {
        'content-type': 'application/json',
        'lambda-runtime-aws-request-id': requestId,
        'lambda-runtime-deadline-ms': String(Date.now() + timeoutMs),
        'lambda-runtime-invoked-function-arn': functionArn,
      })
      .end(event);
    return promise;
  }

  async stop(): Promise<void> {
    this.#kill('it was stopped');
    await this.#exited;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, id, what] =
      /^\/2018-06-01\/runtime\/(?:invocation\/)?(?:([^/]+)\/)?(next|response|error)$/.exec(request.url!) ?? [];
    // Only the runtime's own request for the next event, after its answer, is one (`runtimes-api.html`).
    if (what === 'next' && (this.#idle !== undefined || this.#current?.isAnswered === false)) {
      const body = { errorMessage: 'State transition is not allowed', errorType: 'InvalidStateTransition' };
      return void response.writeHead(403, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    }
    if (what === 'next') return this.#next(response);
    const isCurrent = this.#current !== undefined && this.#current.requestId === id;
    if (what === 'error' && (id === 'init' || isCurrent)) {
      const text = Buffer.concat(await request.toArray()).toString();
      if (id === 'init') this.#initError = text;
      else {
        this.#current!.isAnswered = true;
        this.#current!.answer.reject(new FunctionError(text));
      }
    } else if (what === 'response' && isCurrent) {
      await this.#respond(this.#current!, request);
      if (this.#current) this.#current.isAnswered = true;
    } else {
      await request.toArray();
      const body = { errorMessage: 'Invalid request ID', errorType: 'InvalidRequestID' };
      return void response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    }
    response.writeHead(202, { 'content-type': 'application/json' }).end('{"status":"OK"}');
  }

  #next(response: ServerResponse): void {
    clearTimeout(this.#current?.timer);
    this.#current?.answer.reject(new FunctionError('it asked for the next event before it answered this one'));
    this.#current = undefined;
    this.#idle = response;
    this.#signal('SIGSTOP');
    if (!this.#isDead) this.#used = usedBy(this.#pids());
    this.#waiting.resolve();
  }

  #pids(): number[] {
    const pid = this.#process.pid!;
    return this.#isTree ? treeOf(pid) : [pid];
  }

  #signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    for (const pid of this.#pids()) {
      try {
        process.kill(pid, signal);
      } catch {
        // It has ended in the meantime.
      }
    }
  }

  async #respond(current: Current, request: IncomingMessage): Promise<void> {
    if (request.headers['lambda-runtime-function-response-mode'] !== 'streaming') {
      const payload = await request.toArray();
      current.answer.resolve({ isStream: false, payload: fromArray(payload) });
      return;
    }
    // The function does not notice when its reader disconnects.
    const stream = new PassThrough({ highWaterMark: 1024 * 1024 });
    stream.on('error', () => {});
    current.stream = stream;
    current.answer.resolve({ isStream: true, payload: stream });
    for await (const chunk of request) {
      if (!stream.destroyed && !stream.write(chunk)) await Promise.race([once(stream, 'drain'), once(stream, 'close')]);
    }
    const failed = request.trailers['lambda-runtime-function-error-type'];
    if (failed) stream.destroy(new FunctionError(`${failed} ${this.#output}`));
    else stream.end();
  }

  #kill(reason: string): void {
    if (this.#isDead) return;
    this.#isDead = true;
    this.#process.kill('SIGKILL');
    const error = new FunctionError(`${reason}\n${this.#initError ?? ''}\n${this.#output}`);
    clearTimeout(this.#current?.timer);
    this.#current?.answer.reject(error);
    this.#current?.stream?.destroy(error);
    this.#waiting.promise.catch(() => {});
    this.#waiting.reject(error);
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

interface Current {
  readonly requestId: string;
  readonly timer: NodeJS.Timeout;
  readonly answer: PromiseWithResolvers<Invocation>;
  stream: PassThrough | undefined;
  /** Whether the whole answer has come. */
  isAnswered: boolean;
}

const read = (pid: number, path: string): string => readFileSync(`/proc/${pid}/${path}`, 'utf8');

function usedBy(pids: readonly number[]): Used {
  try {
    const peaks = pids.map((pid) => Number(/^VmHWM:\s+(\d+) kB/m.exec(read(pid, 'status'))?.[1] ?? 0));
    return {
      cpuMs: pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0),
      peakMb: peaks.reduce((sum, peak) => sum + peak, 0) / 1024,
    };
  } catch {
    // It has ended in the meantime.
    return { cpuMs: 0, peakMb: 0 };
  }
}

/** CPU time of all threads, and of ended children that the process has waited for. */
function cpuMsOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = threads.map((thread) => Number(read(pid, `task/${thread}/schedstat`).split(' ')[0]));
  const fields = read(pid, 'stat')
    .replace(/^.*\) /, '')
    .split(' ');
  // proc(5): fields 16 and 17, in hundredths of a second.
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6 + 10 * (Number(fields[13]) + Number(fields[14]));
}

/** A process and everything below it. */
function treeOf(pid: number): number[] {
  try {
    const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
    );
    return [pid, ...children.flatMap((child) => treeOf(Number(child)))];
  } catch {
    return [];
  }
}

async function* fromArray(chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
