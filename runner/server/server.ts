import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import type { z } from 'zod';
import { bearerOf } from '#core/http/bearer.ts';
import type { ExecEvent, ExecRequest } from '#core/ports/sandbox.ts';
import type { ProcessSession } from '../sandbox/session.ts';
import { WarmProgram } from '../sandbox/warm-program.ts';
import { execSchema, jobSchema } from './job.ts';
import {
  decodeExec,
  encodeEvent,
  HEARTBEAT,
  HEARTBEAT_MS,
  LAST_HEADER,
  REUSE_HEADER,
  type RunnerHealth,
  type RunnerJob,
  type RunnerProblem,
  WARM_HEADER,
} from './protocol.ts';
import { warmMs } from './warm-time.ts';

const MAX_JOB_BYTES = 1024 * 1024;
const MAX_EXEC_BYTES = 64 * 1024 * 1024;
/** Time for sending pending responses after the session has ended. */
const CLOSE_GRACE_MS = 1_000;
/** If the cleanup of a session takes longer, it is the last one. Shorter than the caller's timeout. */
const RENEW_MS = 20_000;
/** Turns of the event loop that a request may take to finish after its response. */
const END_TURNS = 10;
const REUSE_KEY = /^[0-9a-f]{64}$/;

export interface RunnerOptions {
  readonly health: Omit<RunnerHealth, 'state'>;
  /** Called while no session is open. */
  openSession(job: RunnerJob): Promise<ProcessSession>;
  /**
   * Called after a session was closed and no connection is open. Throws unless the session left nothing behind.
   * @default - the runner serves one session
   */
  readonly renew?: () => Promise<void>;
  /** @default - {@link warmMs} for the age of this process */
  readonly warmMs?: () => number;
  /** A port, 0 for any, or the path of a Unix socket. */
  readonly listen: number | string;
  /** Ends a runner that is not claimed within this time. @default never */
  readonly leaseMs?: number;
}

/** A sandbox, and the program in it that answers inputs. */
interface Opened {
  readonly session: ProcessSession;
  readonly job: RunnerJob;
  program?: WarmProgram;
}

/** The session from the time of its claim. */
interface Current {
  readonly tokenHash: Buffer;
  readonly opening: Promise<Opened>;
  /** Whether another session may follow, judging from the requests so far. */
  mayBeFollowed: boolean;
  requests: number;
  /** Resolves to how long the runner stays warm for another session, in milliseconds; 0 means that it exits. */
  closing?: Promise<number>;
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

/** Serves sessions of one sandbox over HTTP (`protocol.ts`), one after the other, as long as they have the same key. */
export class RunnerServer {
  readonly #options: RunnerOptions;
  readonly #ended = Promise.withResolvers<string>();
  readonly #connections = new Set<Socket>();
  #server: Server | undefined;
  /** Key of the first session, which later ones must share. */
  #key: string | undefined;
  #current: Current | undefined;
  /** What the last session left for the next one. */
  #kept: (Opened & { readonly since: number }) | undefined;
  #isEnding = false;
  #end: NodeJS.Timeout | undefined;
  #notice: NodeJS.Timeout | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** Returns the port. */
  async start(): Promise<number | undefined> {
    const { listen, leaseMs } = this.#options;
    const port = await this.#listen(listen);
    if (leaseMs !== undefined) this.#endAfter(leaseMs, 'it was not claimed');
    return port;
  }

  /** Resolves with the reason when this runner is finished and its process should exit. */
  get ended(): Promise<string> {
    return this.#ended.promise;
  }

  end(reason: string): void {
    this.#isEnding = true;
    this.#ended.resolve(reason);
  }

  /** Accepts no further session, and ends with the current one, after `ms` milliseconds at the latest. */
  endSoon(ms: number, reason: string): void {
    if (this.#current === undefined || ms === 0) this.end(reason);
    this.#isEnding = true;
    this.#notice = setTimeout(() => this.end(reason), ms);
  }

  /** Kills all commands and closes the server. */
  async close(): Promise<void> {
    clearTimeout(this.#end);
    clearTimeout(this.#notice);
    this.#isEnding = true;
    await this.#current?.closing;
    const opened = this.#kept ?? (await this.#current?.opening.catch(() => undefined));
    await opened?.session.close();
    this.#server!.close();
    this.#server!.closeIdleConnections();
    const late = setTimeout(() => this.#cutOff(), CLOSE_GRACE_MS);
    for (const socket of this.#connections) if (!socket.closed) await once(socket, 'close');
    clearTimeout(late);
  }

  #endAfter(ms: number, reason: string): void {
    clearTimeout(this.#end);
    this.#end = setTimeout(() => this.end(reason), ms);
  }

  async #listen(at: number | string): Promise<number> {
    // A silent command or a slow layer may take longer than Node's request timeout. The lifetime ends all requests.
    const server = createServer({ requestTimeout: 0, keepAliveTimeout: 0 }, (request, response) => {
      this.#serve(request, response).catch((error) => answerProblem(request, response, error));
    });
    server.on('connection', (socket) => {
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
    });
    server.listen(at);
    await once(server, 'listening');
    this.#server = server;
    return (server.address() as AddressInfo).port;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://runner');
    const route = `${request.method} ${pathname}`;
    if (route === 'GET /health') {
      return answer(response, 200, { ...this.#options.health, state: this.#current ? 'claimed' : 'idle' });
    }
    if (route === 'POST /session') return this.#claim(request, response);
    const current = this.#authenticate(request);
    if (route === 'DELETE /session') return this.#delete(current, request, response);
    const opened = await current.opening;
    const { session } = opened;
    const path = () => {
      const value = searchParams.get('path');
      if (value === null) throw new Refusal('BAD_REQUEST', 'path is missing in the query');
      return value;
    };
    const serve = async (): Promise<boolean> => {
      switch (route) {
        case 'POST /exec':
          return exec(opened, request, response);
        case 'PUT /files':
          await session.writeFile(path(), request);
          answer(response, 204);
          return true;
        case 'GET /files': {
          const content = await session.readFile(path());
          response.writeHead(200, { 'content-type': 'application/octet-stream' });
          return pipeline(content, response).then(
            () => true,
            () => !response.destroy(),
          );
        }
        case 'GET /list': {
          const recursive = searchParams.get('recursive') === 'true';
          answer(response, 200, { files: await session.listFiles(path(), { recursive }) });
          return true;
        }
        default:
          throw new Refusal('BAD_REQUEST', `there is no ${route}`);
      }
    };
    current.requests++;
    try {
      if (!(await serve())) current.mayBeFollowed = false;
    } catch (error) {
      const { code } = error as { code?: unknown };
      if (code !== 'SANDBOX_FILE' && code !== 'BAD_REQUEST') current.mayBeFollowed = false;
      throw error;
    } finally {
      current.requests--;
    }
  }

  async #claim(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const job = parse(jobSchema, await bodyOf(request, MAX_JOB_BYTES).then((body) => jsonOf(body.toString())));
    if (this.#current || this.#isEnding) throw new Refusal('CLAIMED', 'this runner already has a session');
    const key = reuseKeyOf(request);
    if (this.#key !== undefined && key !== this.#key) {
      throw new Refusal('CLAIMED', 'this runner has had a session of another kind');
    }
    this.#key = key;
    this.#endAfter(job.lifetimeMs, 'its time was over');
    const opening = this.#open(job, request.socket);
    this.#current = { tokenHash: hash(job.token), opening, mayBeFollowed: true, requests: 0 };
    try {
      await opening;
    } catch (error) {
      response.on('close', () => this.end('the session did not open'));
      throw error;
    }
    // The caller has disconnected, and no other process knows the token.
    if (response.destroyed) return this.end('the session was given up');
    answer(response, 201);
  }

  /** Returns what the last session left, if that can still be used. */
  async #open(job: RunnerJob, caller: Socket): Promise<Opened> {
    const kept = this.#kept;
    this.#kept = undefined;
    if (kept !== undefined) {
      // Not by a timer, whose clock may stand still while a function is frozen.
      const isFresh = Date.now() - kept.since < (kept.job.reuse?.idleMs ?? 0);
      if (isFresh && kept.program?.hasRoom) return kept;
      const { renew } = this.#options;
      if (renew === undefined) {
        this.end('its program has ended');
        throw new Refusal('CLAIMED', 'this runner had a program that has ended');
      }
      await this.#renew(kept.session, renew, caller);
    }
    return { session: await this.#options.openSession(job), job };
  }

  async #delete(current: Current, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.headers[LAST_HEADER] !== undefined) current.mayBeFollowed = false;
    current.closing ??= this.#finish(current, request.socket);
    const warmMs = await current.closing;
    if (warmMs > 0) response.setHeader(WARM_HEADER, warmMs);
    else response.on('close', () => this.end('the session was closed'));
    answer(response, 204);
  }

  /** Closes the session, and prepares for another one if that may follow. */
  async #finish(current: Current, caller: Socket): Promise<number> {
    const opened = await current.opening;
    const { session, program, job } = opened;
    const { renew, warmMs: time = () => warmMs(process.uptime() * 1000, job.reuse?.idleMs) } = this.#options;
    // The caller sees the end of a response before the request is finished here.
    for (let turns = 0; current.requests > 0 && turns < END_TURNS; turns++) await setImmediate();
    const isClean = current.mayBeFollowed && current.requests === 0 && session.isSound;
    const isKept = isClean && job.reuse !== undefined && program?.hasRoom === true;
    if (isKept && this.#key !== undefined && !this.#isEnding && time() > 0) {
      this.#kept = { ...opened, since: Date.now() };
      return this.#await(time());
    }
    if (!renew || this.#key === undefined || !isClean || this.#isEnding || time() <= 0) {
      await session.close();
      return 0;
    }
    const late = setTimeout(() => this.end('what its session left was not removed in time'), RENEW_MS);
    try {
      await Promise.race([this.#renew(session, renew, caller), this.ended]);
    } catch (error) {
      this.end(`of its session something is left: ${(error as Error).message}`);
    } finally {
      clearTimeout(late);
    }
    return this.#await(time());
  }

  /** Returns how long it waits for another session. */
  #await(warmMs: number): number {
    if (this.#isEnding || warmMs <= 0) return 0;
    this.#current = undefined;
    this.#endAfter(warmMs, 'no further session came');
    return warmMs;
  }

  async #renew(session: ProcessSession, renew: () => Promise<void>, caller: Socket): Promise<void> {
    await session.close();
    // A program of the session may have sent requests that are still unread.
    const address = this.#server!.address()!;
    this.#server!.close();
    this.#cutOff(caller);
    await renew();
    if (!this.#isEnding) await this.#listen(typeof address === 'string' ? address : address.port);
  }

  #cutOff(spared?: Socket): void {
    for (const socket of this.#connections) if (socket !== spared) socket.destroy();
  }

  #authenticate(request: IncomingMessage): Current {
    const given = bearerOf(request.headers.authorization);
    if (!this.#current || !timingSafeEqual(hash(given), this.#current.tokenHash)) {
      throw new Refusal('UNAUTHORIZED', 'the request needs the token of the session');
    }
    return this.#current;
  }
}

function reuseKeyOf({ headers }: IncomingMessage): string | undefined {
  const key = headers[REUSE_HEADER];
  if (key !== undefined && !REUSE_KEY.test(String(key))) throw new Refusal('BAD_REQUEST', `${REUSE_HEADER}: not a key`);
  return key as string | undefined;
}

/** Returns whether the command has ended, or the program has answered, by itself. */
async function exec(opened: Opened, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
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
  let hasExited = false;
  try {
    for await (const event of eventsOf(opened, { ...head, stdin: decoded.stdin, signal: stop.signal })) {
      if (event.type === 'exit') hasExited = event.exit.reason === 'exited';
      if (!response.write(encodeEvent(event))) await once(response, 'drain', { signal: stop.signal });
    }
    response.end();
  } catch {
    // The client has disconnected. Leaving the loop has ended the command.
    response.destroy();
    hasExited = false;
  } finally {
    clearInterval(heartbeat);
  }
  return hasExited;
}

/** Runs a command, or gives the program that it starts an input. */
function eventsOf(opened: Opened, request: ExecRequest): AsyncIterable<ExecEvent> {
  const { session, job } = opened;
  const { call, command } = request;
  if (call === undefined) return session.exec(request);
  const reuse = { idleMs: 1, maxUses: 1, ...job.reuse, concurrency: 1, secrets: '' };
  opened.program ??= new WarmProgram(session, { command, reuse, limits: job.limits });
  return opened.program.exec({ ...request, call });
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

/** The problem names the field but never its value: a job holds secrets. */
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
  // A client that is still sending would see a reset instead of the response.
  request.resume();
  const send = () => answer(response, STATUS[known], { error: { code: known, message } } satisfies RunnerProblem);
  if (request.complete || request.destroyed) send();
  else request.once('end', send).once('error', () => {});
}
