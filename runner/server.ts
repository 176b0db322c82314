import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import type { z } from 'zod';
import { bearerOf } from '#core/http/bearer.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import { execSchema, jobSchema } from './job.ts';
import {
  decodeExec,
  encodeEvent,
  HEARTBEAT,
  HEARTBEAT_MS,
  type RunnerHealth,
  type RunnerJob,
  type RunnerProblem,
} from './protocol.ts';

const MAX_JOB_BYTES = 1024 * 1024;
const MAX_EXEC_BYTES = 64 * 1024 * 1024;
/** How long answers may still be sent after the session has ended. */
const CLOSE_GRACE_MS = 1_000;

export interface RunnerOptions {
  readonly health: Omit<RunnerHealth, 'state'>;
  /** Called at most once. */
  openSession(job: RunnerJob): Promise<SandboxSession>;
  /** A port, 0 for any, or the path of a Unix socket. */
  readonly listen: number | string;
  /** Ends a runner that is not claimed for so long. @default never */
  readonly leaseMs?: number;
}

type Code = RunnerProblem['error']['code'];

const STATUS: Readonly<Record<Code, number>> = {
  BAD_REQUEST: 400,
  UNAUTHORIZED: 401,
  CLAIMED: 409,
  SANDBOX_FILE: 422,
  SANDBOX_LAYER: 422,
  FAILED: 500,
  SANDBOX_UNAVAILABLE: 503,
};

class Refusal extends Error {
  readonly code: Code;
  constructor(code: Code, message: string) {
    super(message);
    this.code = code;
  }
}

/** Serves one session of one sandbox over HTTP (`protocol.ts`). */
export class RunnerServer {
  readonly #options: RunnerOptions;
  readonly #server: Server;
  readonly #ended = Promise.withResolvers<string>();
  #tokenHash: Buffer | undefined;
  #opening: Promise<SandboxSession> | undefined;
  #end: NodeJS.Timeout | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
    // A silent command or a slow layer may take longer than Node's request timeout. The lifetime ends all requests.
    this.#server = createServer({ requestTimeout: 0, keepAliveTimeout: 0 }, (request, response) => {
      this.#serve(request, response).catch((error) => answerProblem(request, response, error));
    });
  }

  /** Returns the port. */
  async start(): Promise<number | undefined> {
    const { listen, leaseMs } = this.#options;
    this.#server.listen(listen);
    await once(this.#server, 'listening');
    if (leaseMs !== undefined) this.#endAfter(leaseMs, 'it was not claimed');
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resolves with the reason when this runner has nothing more to do and its process should end. */
  get ended(): Promise<string> {
    return this.#ended.promise;
  }

  end(reason: string): void {
    this.#ended.resolve(reason);
  }

  /** Kills everything that runs. */
  async close(): Promise<void> {
    clearTimeout(this.#end);
    this.#opening ??= Promise.reject(new Refusal('CLAIMED', 'this runner ends'));
    const session = await this.#opening.catch(() => undefined);
    await session?.close();
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeIdleConnections();
    const late = setTimeout(() => this.#server.closeAllConnections(), CLOSE_GRACE_MS);
    await closed;
    clearTimeout(late);
  }

  #endAfter(ms: number, reason: string): void {
    clearTimeout(this.#end);
    this.#end = setTimeout(() => this.end(reason), ms);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://runner');
    const route = `${request.method} ${pathname}`;
    if (route === 'GET /health') {
      return answer(response, 200, { ...this.#options.health, state: this.#opening ? 'claimed' : 'idle' });
    }
    if (route === 'POST /session') return this.#claim(request, response);
    const session = await this.#session(request);
    const path = () => {
      const value = searchParams.get('path');
      if (value === null) throw new Refusal('BAD_REQUEST', 'path is missing in the query');
      return value;
    };
    switch (route) {
      case 'POST /exec':
        return exec(session, request, response);
      case 'PUT /files':
        await session.writeFile(path(), request);
        return answer(response, 204);
      case 'GET /files': {
        const content = await session.readFile(path());
        response.writeHead(200, { 'content-type': 'application/octet-stream' });
        return pipeline(content, response).catch(() => void response.destroy());
      }
      case 'GET /list': {
        const recursive = searchParams.get('recursive') === 'true';
        return answer(response, 200, { files: await session.listFiles(path(), { recursive }) });
      }
      case 'DELETE /session':
        await session.close();
        response.on('close', () => this.end('the session was closed'));
        return answer(response, 204);
      default:
        throw new Refusal('BAD_REQUEST', `there is no ${route}`);
    }
  }

  async #claim(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const job = parse(jobSchema, await bodyOf(request, MAX_JOB_BYTES).then((body) => jsonOf(body.toString())));
    if (this.#opening) throw new Refusal('CLAIMED', 'this runner has its session already');
    this.#tokenHash = hash(job.token);
    this.#endAfter(job.lifetimeMs, 'its time was over');
    this.#opening = this.#options.openSession(job);
    try {
      await this.#opening;
    } catch (error) {
      response.on('close', () => this.end('the session did not open'));
      throw error;
    }
    // The caller has left, and no one else knows the token.
    if (response.destroyed) return this.end('the session was given up');
    answer(response, 201);
  }

  async #session(request: IncomingMessage): Promise<SandboxSession> {
    const given = bearerOf(request.headers.authorization);
    if (!this.#opening || !this.#tokenHash || !timingSafeEqual(hash(given), this.#tokenHash)) {
      throw new Refusal('UNAUTHORIZED', 'this needs the token of the session');
    }
    return this.#opening;
  }
}

async function exec(session: SandboxSession, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await bodyOf(request, MAX_EXEC_BYTES);
  let decoded: ReturnType<typeof decodeExec>;
  try {
    decoded = decodeExec(body);
  } catch (error) {
    throw new Refusal('BAD_REQUEST', (error as Error).message);
  }
  const head = parse(execSchema, decoded.head);
  const stop = new AbortController();
  response.on('close', () => stop.abort());
  response.writeHead(200, { 'content-type': 'application/octet-stream' });
  response.flushHeaders();
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(HEARTBEAT);
  }, HEARTBEAT_MS);
  try {
    for await (const event of session.exec({ ...head, stdin: decoded.stdin, signal: stop.signal })) {
      if (!response.write(encodeEvent(event))) await once(response, 'drain', { signal: stop.signal });
    }
    response.end();
  } catch {
    // The client has left. Leaving the loop has ended the command.
    response.destroy();
  } finally {
    clearInterval(heartbeat);
  }
}

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();

async function bodyOf(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new Refusal('BAD_REQUEST', `the body is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal('BAD_REQUEST', 'the body is not JSON');
  }
}

/** The problem names the field and never shows its value: a job holds secrets. */
function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Refusal('BAD_REQUEST', `${issue!.path.join('.') || 'the body'}: ${issue!.message}`);
}

function answer(response: ServerResponse, status: number, body?: object): void {
  if (body === undefined) return void response.writeHead(status).end();
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function answerProblem(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  const { code, message } = error as { code?: unknown; message: string };
  const known = typeof code === 'string' && code in STATUS ? (code as Code) : 'FAILED';
  if (response.headersSent) return void response.destroy();
  // A client that is still sending would see a reset instead of the answer.
  request.resume();
  const send = () => answer(response, STATUS[known], { error: { code: known, message } } satisfies RunnerProblem);
  if (request.complete || request.destroyed) send();
  else request.once('end', send).once('error', () => {});
}
