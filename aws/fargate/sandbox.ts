import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { isHostBusy, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { noPlaceError, queueDeadline } from '#core/execution/fair-queue.ts';
import type { BlobLinks, Blobs } from '#core/ports/blobs.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps, Log } from '#core/ports/deps.ts';
import { type Ids, randomHex } from '#core/ports/ids.ts';
import {
  type Sandbox,
  SandboxLostError,
  type SandboxSession,
  type SandboxSpec,
  type SandboxStatus,
} from '#core/ports/sandbox.ts';
import { RunnerSession } from '#runner/server/client.ts';
import { createS3Links } from '../blobs/s3-links.ts';
import type { AwsConfig } from '../config.ts';
import { IMAGE_INTERPRETERS, LIFETIME_GRACE_MS, MAX_USE_MS, runnerJob } from '../runner-job.ts';
import type { DispatchedSlot, DispatchHead, DispatchRequest } from './dispatch.ts';
import { invokeStreaming, type StreamedAnswer } from './invoke.ts';
import type { Claim } from './pool.ts';
import { reuseKeyOf } from './reuse-key.ts';

export interface FargateSandboxOptions {
  readonly config: AwsConfig;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly blobs: Blobs;
  readonly links: BlobLinks;
  /** Must not retry by itself, so that no command runs twice. */
  readonly lambda: LambdaClient;
  /** Keeps the process alive for background work. */
  readonly background: Deps['background'];
}

/** Default poll interval of a waiting call. */
const ASK_AGAIN_MS = 1000;
/** How long a cancelled call waits for a task that it may still get, in order to release it. */
const GIVE_BACK_MS = 5000;
/** Lambda accepts events of up to 6 MB, which contain the body in base64. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** Uses SDK clients with the environment's Region and credentials. */
export const createFargateSandbox = (
  deps: Pick<FargateSandboxOptions, 'config' | 'clock' | 'ids' | 'log' | 'blobs' | 'background'>,
): FargateSandbox =>
  new FargateSandbox({
    ...deps,
    links: createS3Links(deps.config.bucket),
    // A request that may have run is not sent again. So connections are not reused either: one may have died while this
    // process was frozen.
    lambda: new LambdaClient({
      maxAttempts: 1,
      requestHandler: { httpAgent: { keepAlive: false }, httpsAgent: { keepAlive: false } },
    }),
  });

const BASE_URL = 'http://task';

/** What any process needs to use a session. */
interface FargateRef {
  readonly slot: DispatchedSlot;
  readonly token: string;
}

/** One request to a task, made from the arguments of `fetch`. */
type TaskRequest = Pick<DispatchRequest, 'method' | 'path' | 'headers' | 'body' | 'bodyUrl'>;

/**
 * {@link Sandbox} in ECS tasks on Fargate. Each task serves successive sessions with the same reuse key
 * (`reuse-key.ts`). The tasks are in a separate network, which only the function `sandbox-dispatch` reaches: each
 * request to a task is one invocation of that function.
 *
 * Lambda does not notify a function when its caller has disconnected. An abandoned command ends at its time limit or
 * with its session, whichever comes first.
 */
export class FargateSandbox implements Sandbox {
  readonly #options: FargateSandboxOptions;

  constructor(options: FargateSandboxOptions) {
    this.#options = options;
  }

  /**
   * Throws RATE_LIMITED if no task is, or is expected to be, available within half of the time until the deadline, and
   * TIMEOUT if the task was not ready at the deadline. Throws {@link SandboxLostError} if the dispatcher has failed
   * twice.
   */
  async open(spec: SandboxSpec): Promise<SandboxSession> {
    const { clock, ids, config } = this.#options;
    const deadline = spec.deadline ?? clock.now() + MAX_USE_MS;
    const token = randomHex(ids, 32);
    const key = config.sandboxReuse === 'never' ? undefined : await reuseKeyOf(spec);
    const claim: Claim = {
      id: randomHex(ids, 16),
      owner: spec.turn?.owner,
      ...(spec.purpose === 'install' && { isInstall: true }),
      key,
      ...(spec.isInterruptible && config.sandboxSpot === 'retried' && { isInterruptible: true }),
      until: deadline,
      patience: queueDeadline(clock.now(), deadline),
      since: clock.now(),
    };
    const lifetimeMs = deadline - clock.now() + LIFETIME_GRACE_MS;
    const job = await runnerJob(this.#options, spec, { token, lifetimeMs });
    let slot: DispatchedSlot | undefined;
    const [late, opened] = [new AbortController(), new AbortController()];
    const tooLate = () => late.abort(new PlatformError('TIMEOUT', 'The deadline passed before a sandbox was ready.'));
    clock.sleep(Math.max(0, deadline - clock.now()), opened.signal).then(tooLate, () => {});
    const signal = AbortSignal.any([late.signal, ...(spec.signal ? [spec.signal] : [])]);
    const claimingFetch: typeof fetch = async (url, init) => {
      const giveBack = (taken: DispatchedSlot) => sessionOf(taken).close();
      const claimed = await this.#claim(claim, await this.#requestOf(url, init), { giveBack, signal, turn: spec.turn });
      slot = claimed.slot;
      return claimed.response;
    };
    const baseUrl = BASE_URL;
    const sessionOf = (taken: DispatchedSlot) => this.#sessionOf({ slot: taken, token });
    try {
      await RunnerSession.open({ baseUrl, fetch: claimingFetch }, job, { reuse: key });
    } catch (error) {
      if (slot !== undefined) await sessionOf(slot).close();
      throw error;
    } finally {
      opened.abort();
    }
    return sessionOf(slot!);
  }

  async attach(ref: Json): Promise<SandboxSession> {
    return this.#sessionOf(ref as unknown as FargateRef);
  }

  #sessionOf({ slot, token }: FargateRef): RunnerSession {
    const ref = { slot: { ...slot }, token } as unknown as Json;
    return new RunnerSession({ baseUrl: BASE_URL, fetch: this.#fetchFrom(slot) }, token, ref);
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'fargate', interpreters: IMAGE_INTERPRETERS };
  }

  async close(): Promise<void> {}

  /** Waits for a task that accepts the session. Until then nothing has run, so retries are safe. */
  async #claim(
    claim: Claim,
    request: TaskRequest,
    {
      giveBack,
      signal,
      turn,
    }: {
      readonly giveBack: (slot: DispatchedSlot) => Promise<void>;
      readonly signal: AbortSignal;
      readonly turn: SandboxSpec['turn'];
    },
  ): Promise<{ slot: DispatchedSlot; response: Response }> {
    const { clock, log, background } = this.#options;
    let failures = 0;
    for (let asks = 1; ; asks++) {
      signal.throwIfAborted();
      let answer: StreamedAnswer<DispatchHead>;
      const asked = this.#dispatch({ to: { claim: { ...claim, isRepeated: asks > 1 } }, ...request });
      try {
        answer = await unlessAborted(asked, signal);
      } catch (error) {
        if (signal.aborted) {
          // The function does not notice that its caller has left. It may still claim a task, which would be held until
          // the deadline, so it is released here.
          const end = asked.then(({ head }) => ('slot' in head && head.slot ? giveBack(head.slot) : undefined));
          void background(Promise.race([end, clock.sleep(GIVE_BACK_MS)]).catch(() => {}));
          throw signal.reason;
        }
        failures++;
        if (failures > 1) {
          throw isHostBusy(error) ? error : new SandboxLostError(`the sandbox was lost: ${error}`, { cause: error });
        }
        log.warn('dispatch failed', { error: String(error) });
        continue;
      }
      const { head, body } = answer;
      if ('slot' in head && head.slot !== undefined) {
        if (asks > 1) turn?.onState?.('taken');
        return { slot: head.slot, response: responseOf(head, body) };
      }
      if (asks === 1) turn?.onState?.('waiting');
      const { readyInMs, askInMs = ASK_AGAIN_MS, part } = 'readyInMs' in head ? head : { readyInMs: 0 };
      if (asks === 1) await this.#wakeKeeper(part);
      const now = clock.now();
      if (now + readyInMs >= claim.patience) throw noPlaceError(readyInMs || now - claim.since);
      await clock.sleep(Math.min(askInMs, claim.patience - now), signal);
    }
  }

  #fetchFrom(slot: DispatchedSlot): typeof fetch {
    return async (url, init) => {
      const request = await this.#requestOf(url, init);
      const ends = request.method === 'DELETE' ? slot : undefined;
      const toTask = { to: { address: slot.address }, ...request, ends };
      const { head, body } = await this.#dispatch(toTask, init?.signal ?? undefined);
      if (!('status' in head)) throw new TypeError(`the task is gone${'lost' in head ? `: ${head.lost}` : ''}`);
      return responseOf(head, body);
    };
  }

  #dispatch(request: DispatchRequest, signal?: AbortSignal) {
    const { lambda: client, clock, config } = this.#options;
    return invokeStreaming<DispatchHead>({ client, clock }, `${config.functionPrefix}sandbox-dispatch`, request, {
      signal,
    });
  }

  async #requestOf(url: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<TaskRequest> {
    const { pathname, search } = new URL(String(url));
    const request = {
      method: init.method ?? 'GET',
      path: pathname + search,
      headers: Object.fromEntries(new Headers(init.headers)),
    };
    if (init.body === undefined || init.body === null) return request;
    const body = Buffer.from(await new Response(init.body).arrayBuffer());
    const headers = { ...request.headers, 'content-length': String(body.length) };
    if (body.length <= MAX_BODY_BYTES) return { ...request, headers, body: body.toString('base64') };
    const { blobs, links, ids } = this.#options;
    const key = `transfers/${ids.uuid()}`;
    await blobs.put(key, body);
    return { ...request, headers, bodyUrl: await links.get(key) };
  }

  /** Notifies the keeper that a call waits in this part of the pool. Best effort: the keeper runs every minute anyway. */
  async #wakeKeeper(part: number | undefined): Promise<void> {
    const { lambda, config, log } = this.#options;
    const FunctionName = `${config.functionPrefix}pool-keeper`;
    await lambda
      .send(new InvokeCommand({ FunctionName, InvocationType: 'Event', Payload: JSON.stringify({ part }) }))
      .catch((error) => {
        log.warn('keeper not invoked', { error: String(error) });
      });
  }
}

function responseOf(head: DispatchHead & { status: number }, body: AsyncIterable<Uint8Array>): Response {
  const hasBody = head.status !== 204 && head.status !== 304;
  return new Response(hasBody ? ReadableStream.from(body) : null, { status: head.status });
}

/** Awaits the promise, or throws the signal's reason on abort; the promise itself continues. */
async function unlessAborted<Result>(promise: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
