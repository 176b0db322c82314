import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { PlatformError } from '#core/base/errors.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps, Log } from '#core/ports/deps.ts';
import type { Ids } from '#core/ports/ids.ts';
import type { Sandbox, SandboxSession, SandboxSpec, SandboxStatus } from '#core/ports/sandbox.ts';
import { noPlaceError, patienceUntil } from '#core/running/turns.ts';
import { RunnerSession } from '#runner/client.ts';
import type { AwsConfig } from '../config.ts';
import { type BlobLinks, IMAGE_INTERPRETERS, runnerJob } from '../runner-job.ts';
import { createS3Links } from '../s3-links.ts';
import type { DispatchedSlot, DispatchHead, DispatchRequest } from './dispatch.ts';
import { invokeStreaming, type StreamedAnswer } from './invoke.ts';
import type { Claim } from './pool.ts';

export interface FargateSandboxOptions {
  readonly config: AwsConfig;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly blobs: Blobs;
  readonly links: BlobLinks;
  /** One that does not retry by itself: a command must not run twice. */
  readonly lambda: LambdaClient;
  /** Keeps work alive that nobody waits for. */
  readonly background: Deps['background'];
}

/** Without a deadline, nobody needs a sandbox for longer. */
const LONGEST_USE_MS = 3_600_000;
/** The runner ends by itself so much later than whoever uses it should have. */
const LIFETIME_GRACE_MS = 30_000;
/** How often a waiting call asks for a task. */
const ASK_INTERVAL_MS = 1000;
/** A task that is given back has its session by then, or never. */
const GIVE_BACK_MS = 5000;
/** Lambda takes events of 6 MB, in which a body is base64. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** With clients whose Region and credentials are those of the environment. */
export const createFargateSandbox = (
  deps: Pick<FargateSandboxOptions, 'config' | 'clock' | 'ids' | 'log' | 'blobs' | 'background'>,
): FargateSandbox =>
  new FargateSandbox({
    ...deps,
    links: createS3Links(deps.config.bucket),
    // What may have run is not sent again: so no connection is used again either, which may have died while this process
    // was frozen.
    lambda: new LambdaClient({
      maxAttempts: 1,
      requestHandler: { httpAgent: { keepAlive: false }, httpsAgent: { keepAlive: false } },
    }),
  });

/** One request, as `fetch` is given it. */
type Sent = Pick<DispatchRequest, 'method' | 'path' | 'headers' | 'body' | 'bodyUrl'>;

/**
 * {@link Sandbox} in tasks of ECS on Fargate, each used once. The tasks are in a network of their own, which only the
 * function `sandbox-dispatch` reaches: each request to a task is one call of it.
 *
 * Lambda does not tell a function that its caller has left: a command that nobody listens to any more ends with its time
 * or its session, whichever comes first.
 */
export class FargateSandbox implements Sandbox {
  readonly #options: FargateSandboxOptions;

  constructor(options: FargateSandboxOptions) {
    this.#options = options;
  }

  /**
   * Throws RATE_LIMITED when no task is idle and none can be expected within half of the time that is left, so that
   * whatever gets one has time to run; TIMEOUT when the task that it got was not ready at the deadline.
   */
  async open(spec: SandboxSpec): Promise<SandboxSession> {
    const { clock, ids } = this.#options;
    const deadline = spec.deadline ?? clock.now() + LONGEST_USE_MS;
    const token = hex(ids.randomBytes(32));
    const claim: Claim = {
      id: hex(ids.randomBytes(16)),
      owner: spec.turn?.owner,
      until: deadline,
      patience: patienceUntil(clock.now(), deadline),
      since: clock.now(),
    };
    const lifetimeMs = deadline - clock.now() + LIFETIME_GRACE_MS;
    const job = await runnerJob(this.#options, spec, { token, lifetimeMs });
    let slot: DispatchedSlot | undefined;
    const [late, opened] = [new AbortController(), new AbortController()];
    const tooLate = () => late.abort(new PlatformError('TIMEOUT', 'The deadline passed before a sandbox was ready.'));
    clock.sleep(Math.max(0, deadline - clock.now()), opened.signal).then(tooLate, () => {});
    const signal = AbortSignal.any([late.signal, ...(spec.signal ? [spec.signal] : [])]);
    const opening: typeof fetch = async (url, init) => {
      const giveBack = (found: DispatchedSlot) => sessionOf(found).close();
      const found = await this.#claim(claim, await this.#sentOf(url, init), giveBack, signal);
      slot = found.slot;
      return found.response;
    };
    const baseUrl = 'http://task';
    const sessionOf = (found: DispatchedSlot) => new RunnerSession({ baseUrl, fetch: this.#fetchFrom(found) }, token);
    try {
      await RunnerSession.open({ baseUrl, fetch: opening }, job);
    } catch (error) {
      if (slot !== undefined) await sessionOf(slot).close();
      throw error;
    } finally {
      opened.abort();
    }
    return sessionOf(slot!);
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'fargate', interpreters: IMAGE_INTERPRETERS };
  }

  async close(): Promise<void> {}

  /** Waits for a task that takes the session. Until one has, nothing was run: it may be asked for again and again. */
  async #claim(
    claim: Claim,
    sent: Sent,
    giveBack: (slot: DispatchedSlot) => Promise<void>,
    signal: AbortSignal,
  ): Promise<{ slot: DispatchedSlot; response: Response }> {
    const { clock, log, background } = this.#options;
    let failures = 0;
    for (let asks = 1; ; asks++) {
      signal.throwIfAborted();
      let answer: StreamedAnswer<DispatchHead>;
      const asked = this.#dispatch({ to: { claim: { ...claim, isRepeated: asks > 1 } }, ...sent });
      try {
        answer = await unlessAborted(asked, signal);
      } catch (error) {
        if (signal.aborted) {
          // Nobody tells the function that its caller has left: the task that it may get would be held until its deadline.
          const end = asked.then(({ head }) => ('slot' in head && head.slot ? giveBack(head.slot) : undefined));
          void background(Promise.race([end, clock.sleep(GIVE_BACK_MS)]).catch(() => {}));
          throw signal.reason;
        }
        failures++;
        if (failures > 1) throw error;
        log.warn('dispatch failed', { error: String(error) });
        continue;
      }
      const { head, body } = answer;
      if ('slot' in head && head.slot !== undefined) return { slot: head.slot, response: responseOf(head, body) };
      const readyInMs = 'readyInMs' in head ? head.readyInMs : 0;
      if (asks === 1) await this.#wakeKeeper();
      const now = clock.now();
      if (now + readyInMs >= claim.patience) throw noPlaceError(readyInMs || now - claim.since);
      await clock.sleep(Math.min(ASK_INTERVAL_MS, claim.patience - now), signal);
    }
  }

  #fetchFrom(slot: DispatchedSlot): typeof fetch {
    return async (url, init) => {
      const sent = await this.#sentOf(url, init);
      const ends = sent.method === 'DELETE' ? slot : undefined;
      const request = { to: { address: slot.address }, ...sent, ends };
      const { head, body } = await this.#dispatch(request, init?.signal ?? undefined);
      if (!('status' in head)) throw new TypeError(`the task is gone${'lost' in head ? `: ${head.lost}` : ''}`);
      return responseOf(head, body);
    };
  }

  #dispatch(request: DispatchRequest, signal?: AbortSignal) {
    const { lambda: client, clock, config } = this.#options;
    return invokeStreaming<DispatchHead>(
      { client, clock },
      `${config.functionPrefix}sandbox-dispatch`,
      request,
      signal,
    );
  }

  async #sentOf(url: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Sent> {
    const { pathname, search } = new URL(String(url));
    const sent = {
      method: init.method ?? 'GET',
      path: pathname + search,
      headers: Object.fromEntries(new Headers(init.headers)),
    };
    if (init.body === undefined || init.body === null) return sent;
    const body = Buffer.from(await new Response(init.body).arrayBuffer());
    const headers = { ...sent.headers, 'content-length': String(body.length) };
    if (body.length <= MAX_BODY_BYTES) return { ...sent, headers, body: body.toString('base64') };
    const { blobs, links, ids } = this.#options;
    const key = `transfers/${ids.uuid()}`;
    await blobs.put(key, body);
    return { ...sent, headers, bodyUrl: await links.get(key) };
  }

  /** The keeper sees that a call waits. It looks each minute anyway: that this fails is no harm. */
  async #wakeKeeper(): Promise<void> {
    const { lambda, config, log } = this.#options;
    const FunctionName = `${config.functionPrefix}pool-keeper`;
    await lambda.send(new InvokeCommand({ FunctionName, InvocationType: 'Event', Payload: '{}' })).catch((error) => {
      log.warn('keeper not called', { error: String(error) });
    });
  }
}

function responseOf(head: DispatchHead & { status: number }, body: AsyncIterable<Uint8Array>): Response {
  const hasBody = head.status !== 204 && head.status !== 304;
  return new Response(hasBody ? ReadableStream.from(body) : null, { status: head.status });
}

/** What a promise resolves to. Throws the signal's reason once it is aborted; the promise goes on. */
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

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
