import { request as httpRequest, type IncomingMessage } from 'node:http';
import { isIPv4 } from 'node:net';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Log } from '#core/ports/deps.ts';
import { LAST_HEADER, RUNNER_PORT, WARM_HEADER } from '#runner/server/protocol.ts';
import { type Claim, type PoolDeps, type PoolLimits, SandboxPool, type SlotUse } from './pool.ts';

/** A task in the next subnet accepts within a millisecond; a task that has ended never does. */
const CONNECT_TIMEOUT_MS = 1500;
/** ECS calls a task running when its process starts, a moment before the process listens. */
const LISTEN_TIMEOUT_MS = 5000;
const LISTEN_RETRY_MS = 100;
/** Status of a task that already has a session, or had one of another type. No call may get it. */
const TAKEN = 409;
/** Maximum number of ended tasks that one claim may encounter. */
const MAX_LOST = 3;

/** HTTP request to the task at `address`, or to a task that is claimed for it first. */
export interface DispatchRequest {
  readonly to: { readonly address: string } | { readonly claim: Claim };
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** In base64. */
  readonly body?: string;
  /** Address of a body that exceeds the event size. */
  readonly bodyUrl?: string;
  /** Set if this use of the task ends with this request, even if the request fails. */
  readonly ends?: SlotUse;
}

/** First line that `sandbox-dispatch` streams, as JSON. The body of the task's response follows it. */
export type DispatchHead =
  | { readonly status: number; readonly slot?: DispatchedSlot }
  /** No task is idle. */
  | { readonly readyInMs: number; readonly askInMs?: number; readonly part?: number }
  /** The task has ended. */
  | { readonly lost: string };

export type DispatchedSlot = SlotUse & { readonly address: string };

type DispatchDeps = PoolDeps & { readonly log: Log };

/**
 * Forwards one request to a task and streams its response to `output`. This is the only function in the tasks' network,
 * so it is small and does not parse what it forwards. If the response breaks off, so does `output`.
 */
export async function dispatch(
  deps: DispatchDeps,
  limits: PoolLimits,
  request: DispatchRequest,
  output: Writable,
): Promise<void> {
  const pool = new SandboxPool(deps, limits);
  const { to, ends } = request;
  let warmMs = 0;
  try {
    if ('claim' in to) return await claimAndSend(deps, pool, limits, to.claim, request, output);
    const isLast = ends?.key !== undefined && !(await pool.hasRoom(ends));
    const headers = { ...request.headers, ...(isLast && { [LAST_HEADER]: 'true' }) };
    const answer = await send(to.address, { ...request, headers }).catch((error: unknown) => String(error));
    if (typeof answer === 'string') output.end(lineOf({ lost: answer }));
    else {
      warmMs = Number(answer.headers[WARM_HEADER] ?? 0);
      await pass(answer, output);
    }
  } finally {
    const { claim } = ends ?? {};
    if (ends !== undefined) await (warmMs > 0 && claim ? pool.keepWarm({ ...ends, claim }, warmMs) : pool.end(ends));
  }
}

/** Claims tasks until one accepts the request. Until then nothing has run. */
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
    const { number, id, address, taskArn, key } = answer.slot;
    const use: SlotUse = { number, id, claim: claim.id, key };
    // A warm task that does not listen has ended.
    const listensBy = answer.wasWarm ? 0 : deps.clock.now() + LISTEN_TIMEOUT_MS;
    for (;;) {
      try {
        const response = await send(address!, request);
        if (response.statusCode !== TAKEN) {
          return await pass(response, output, { ...use, address: address! });
        }
        response.destroy();
        deps.log.warn('task had a session already', { task: taskArn });
        break;
      } catch (error) {
        const isStarting = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED' && deps.clock.now() < listensBy;
        if (!isStarting) {
          deps.log.warn('task lost before its session', { task: taskArn, error: String(error) });
          break;
        }
        await deps.clock.sleep(LISTEN_RETRY_MS);
      }
    }
    await pool.end(use);
  }
  output.end(lineOf({ readyInMs: limits.startMs }));
}

/** Rejects if the task has ended, or ends before it responds. */
async function send(address: string, request: DispatchRequest): Promise<IncomingMessage> {
  if (!isIPv4(address)) throw new Error(`not an address of a task: ${address}`);
  const { method, path, headers } = request;
  const body = await bodyOf(request);
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ host: address, port: RUNNER_PORT, method, path, headers, agent: false });
    const connectTimer = setTimeout(() => outgoing.destroy(new Error('no connection in time')), CONNECT_TIMEOUT_MS);
    outgoing.once('socket', (socket) => socket.once('connect', () => clearTimeout(connectTimer)));
    outgoing.once('response', resolve);
    outgoing.once('error', (error) => {
      clearTimeout(connectTimer);
      reject(error);
    });
    // A failure of the body ends the request, whose own error rejects the promise.
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
