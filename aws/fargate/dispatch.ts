import { request as httpRequest, type IncomingMessage } from 'node:http';
import { isIPv4 } from 'node:net';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Log } from '#core/ports/deps.ts';
import { type Claim, type PoolDeps, type PoolLimits, SandboxPool, type Slot } from './pool.ts';

/** What every task listens on. */
const TASK_PORT = 8080;
/** A task in the next subnet answers in a millisecond; one that is gone never does. */
const CONNECT_MS = 1500;
/** ECS calls a task running when its process starts, a moment before that listens. */
const LISTEN_MS = 5000;
const LISTEN_PAUSE_MS = 100;
/** A task that has a session already, which another one must have opened: nobody else is given it. */
const TAKEN = 409;
/** Tasks that turn out to be gone, for one claim. */
const MAX_LOST = 3;

/** An HTTP request to a task: to the one at `address`, or to one that is claimed for it first. */
export interface DispatchRequest {
  readonly to: { readonly address: string } | { readonly claim: Claim };
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** base64 */
  readonly body?: string;
  /** Where the body is fetched, when it is too large for an event. */
  readonly bodyUrl?: string;
  /** The task's use ends with this request, whatever comes of it. */
  readonly ends?: Pick<Slot, 'number' | 'id'>;
}

/** The first line of what `sandbox-dispatch` streams, as JSON; the body of the task's answer follows. */
export type DispatchHead =
  | { readonly status: number; readonly slot?: DispatchedSlot }
  /** No task is idle. */
  | { readonly readyInMs: number }
  /** The task is gone. */
  | { readonly lost: string };

export type DispatchedSlot = Pick<Slot, 'number' | 'id'> & { readonly address: string };

type DispatchDeps = PoolDeps & { readonly log: Log };

/**
 * Passes one request to a task and streams its answer to `output`. It knows nothing of what is said: it is the one thing
 * that stands in the tasks' network, so it is kept small. An answer that breaks off breaks `output` off, too.
 */
export async function dispatch(
  deps: DispatchDeps,
  limits: PoolLimits,
  request: DispatchRequest,
  output: Writable,
): Promise<void> {
  const pool = new SandboxPool(deps, limits);
  const { to, ends } = request;
  try {
    if ('claim' in to) return await claimAndSend(deps, pool, limits, to.claim, request, output);
    const answer = await send(to.address, request).catch((error: unknown) => String(error));
    if (typeof answer === 'string') output.end(lineOf({ lost: answer }));
    else await pass(answer, output);
  } finally {
    if (ends !== undefined) await pool.end(ends);
  }
}

/** The first task that takes the request is the caller's; until then nothing was run. */
async function claimAndSend(
  deps: DispatchDeps,
  pool: SandboxPool,
  limits: PoolLimits,
  claim: Claim,
  request: DispatchRequest,
  output: Writable,
): Promise<void> {
  for (let lost = 0; lost < MAX_LOST; lost++) {
    const answer = await pool.claim(claim);
    if ('readyInMs' in answer) return void output.end(lineOf(answer));
    const { number, id, address, taskArn } = answer.slot;
    const listening = deps.clock.now() + LISTEN_MS;
    for (;;) {
      try {
        const response = await send(address!, request);
        if (response.statusCode !== TAKEN) {
          return await pass(response, output, { number, id, address: address! });
        }
        response.destroy();
        deps.log.warn('task had a session already', { task: taskArn });
        break;
      } catch (error) {
        const isStarting = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED' && deps.clock.now() < listening;
        if (!isStarting) {
          deps.log.warn('task lost before its session', { task: taskArn, error: String(error) });
          break;
        }
        await deps.clock.sleep(LISTEN_PAUSE_MS);
      }
    }
    await pool.end({ number, id });
  }
  output.end(lineOf({ readyInMs: limits.startMs }));
}

/** Rejects when the task is not there, or goes before it answers. */
async function send(address: string, request: DispatchRequest): Promise<IncomingMessage> {
  if (!isIPv4(address)) throw new Error(`not an address of a task: ${address}`);
  const { method, path, headers } = request;
  const body = await bodyOf(request);
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ host: address, port: TASK_PORT, method, path, headers, agent: false });
    const impatient = setTimeout(() => outgoing.destroy(new Error('no connection in time')), CONNECT_MS);
    outgoing.once('socket', (socket) => socket.once('connect', () => clearTimeout(impatient)));
    outgoing.once('response', resolve);
    outgoing.once('error', (error) => {
      clearTimeout(impatient);
      reject(error);
    });
    // What goes wrong with the body ends the request, and its error tells.
    pipeline(body, outgoing).catch(() => {});
  });
}

async function bodyOf({ body, bodyUrl }: DispatchRequest): Promise<Readable> {
  if (bodyUrl === undefined) return Readable.from(body === undefined ? [] : [Buffer.from(body, 'base64')]);
  const stored = await fetch(bodyUrl);
  if (!stored.ok || stored.body === null) throw new Error(`the body is not there: ${stored.status}`);
  return Readable.fromWeb(stored.body as never);
}

async function pass(response: IncomingMessage, output: Writable, slot?: DispatchedSlot): Promise<void> {
  output.write(lineOf({ status: response.statusCode!, slot }));
  await pipeline(response, output);
}

const lineOf = (head: DispatchHead): string => `${JSON.stringify(head)}\n`;
