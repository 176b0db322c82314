import { LambdaClient } from '@aws-sdk/client-lambda';
import { isHostBusy } from '#core/base/errors.ts';
import { noPlaceError, queueDeadline } from '#core/execution/fair-queue.ts';
import { randomHex } from '#core/ports/ids.ts';
import {
  type ExecEvent,
  type ExecRequest,
  type Sandbox,
  SandboxFileError,
  type SandboxSession,
  type SandboxSpec,
  type SandboxStatus,
} from '#core/ports/sandbox.ts';
import { problemOf, RunnerSession } from '#runner/server/client.ts';
import type { EventContent, EventHead, ProgramEvent } from '#runner/server/protocol.ts';
import { createS3Links } from '../blobs/s3-links.ts';
import { invokeStreaming } from '../fargate/invoke.ts';
import { reuseKeyOf } from '../fargate/reuse-key.ts';
import type { FargateSandboxOptions } from '../fargate/sandbox.ts';
import { IMAGE_INTERPRETERS, LIFETIME_GRACE_MS, runnerJob } from '../runner-job.ts';

export type LambdaSandboxOptions = FargateSandboxOptions;

export type LambdaSandboxDeps = Omit<LambdaSandboxOptions, 'links' | 'lambda'>;

/** Uses SDK clients with the environment's Region and credentials. */
export const createLambdaSandbox = (deps: LambdaSandboxDeps): LambdaSandbox =>
  new LambdaSandbox({
    ...deps,
    links: createS3Links(deps.config.bucket),
    // As for tasks (`fargate/sandbox.ts`): nothing that may have run is sent again.
    lambda: new LambdaClient({
      maxAttempts: 1,
      requestHandler: { httpAgent: { keepAlive: false }, httpsAgent: { keepAlive: false } },
    }),
  });

/** Lambda accepts events of 6 MB; larger contents are sent as links. */
const MAX_INLINE_BYTES = 4 * 1024 * 1024;
/** Pause between attempts while Lambda has no room for another environment. */
const BUSY_PAUSE_MS = 1000;

/**
 * {@link Sandbox} in a Lambda function with tenant isolation, for sessions of one command ({@link
 * SandboxSpec.isOneCommand}). The tenant is the key that runs share to use one task on Fargate (`reuse-key.ts`), so
 * Lambda gives an environment only to runs of the same kind. The function has no rights: bundle, layer and large contents
 * are sent as links.
 */
export class LambdaSandbox implements Sandbox {
  readonly #options: LambdaSandboxOptions;

  constructor(options: LambdaSandboxOptions) {
    this.#options = options;
  }

  /** Starts nothing yet: the command does. */
  async open(spec: SandboxSpec): Promise<SandboxSession> {
    const tenantId = await reuseKeyOf(spec);
    if (tenantId === undefined || spec.deadline === undefined || !spec.isOneCommand) {
      throw new Error('a function runs one command of a run with a kind and a deadline');
    }
    return new LambdaSession(this.#options, spec, tenantId, randomHex(this.#options.ids, 32));
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'lambda', interpreters: IMAGE_INTERPRETERS };
  }

  async close(): Promise<void> {}
}

class LambdaSession implements SandboxSession {
  readonly #options: LambdaSandboxOptions;
  readonly #spec: SandboxSpec;
  readonly #tenantId: string;
  readonly #token: string;
  readonly #cancelKey: string;
  readonly #files: { path: string; content: Uint8Array }[] = [];
  #state: 'new' | 'running' | 'over' = 'new';
  #closing: Promise<void> | undefined;

  constructor(options: LambdaSandboxOptions, spec: SandboxSpec, tenantId: string, token: string) {
    this.#options = options;
    this.#spec = spec;
    this.#tenantId = tenantId;
    this.#token = token;
    this.#cancelKey = `transfers/${options.ids.uuid()}`;
  }

  /** Throws the errors of {@link Sandbox.open}, too. */
  async *exec(request: ExecRequest): AsyncGenerator<ExecEvent> {
    if (this.#state !== 'new') throw new Error('this session has run its one command');
    this.#state = 'running';
    let problem: Error | undefined;
    const invokingFetch: typeof fetch = async (_, init) => {
      try {
        const answer = await this.#invoke(init?.body as Uint8Array, init?.signal ?? undefined);
        if (!answer.ok) problem = await problemOf(answer);
        return answer.ok ? answer : new Response(null, { status: answer.status });
      } catch (error) {
        if (isHostBusy(error) || (error as { code?: unknown }).code === 'RATE_LIMITED') problem = error as Error;
        throw error;
      }
    };
    const session = new RunnerSession({ baseUrl: 'http://function', fetch: invokingFetch }, this.#token);
    for await (const event of session.exec(request)) {
      if (event.type === 'exit' && problem !== undefined && !request.signal?.aborted) {
        this.#state = 'over';
        throw problem;
      }
      // A command that was left or given up is cancelled by `close`.
      const hasEnded = event.type === 'exit' && event.exit.reason !== 'aborted' && event.exit.reason !== 'sandbox_lost';
      if (hasEnded) this.#state = 'over';
      yield event;
    }
  }

  async writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    if (this.#state !== 'new') throw gone('write', path);
    const bytes = content instanceof Uint8Array ? content : Buffer.concat(await Array.fromAsync(content));
    this.#files.push({ path, content: bytes });
  }

  async readFile(path: string): Promise<AsyncIterable<Uint8Array>> {
    throw gone('read', path);
  }

  async listFiles(path: string): Promise<never> {
    throw gone('list', path);
  }

  /** Cancels the command if it may still run: the function looks for this object every two seconds. */
  close(): Promise<void> {
    const { blobs, log } = this.#options;
    if (this.#closing === undefined) {
      const isRunning = this.#state === 'running';
      this.#state = 'over';
      this.#closing = !isRunning
        ? Promise.resolve()
        : blobs.put(this.#cancelKey, new Uint8Array()).catch((error: unknown) => {
            log.warn('command of a function not cancelled', { error: String(error) });
          });
    }
    return this.#closing;
  }

  /** Waits while Lambda has no room. Throws RATE_LIMITED if that takes half of the time until the deadline. */
  async #invoke(exec: Uint8Array, signal?: AbortSignal): Promise<Response> {
    const { lambda, clock, config, links } = this.#options;
    const deadline = this.#spec.deadline!;
    const patience = queueDeadline(clock.now(), deadline);
    const since = clock.now();
    const lifetimeMs = Math.max(1, deadline - since) + LIFETIME_GRACE_MS;
    let inline = MAX_INLINE_BYTES;
    const sent = async (content: Uint8Array): Promise<EventContent> => {
      inline -= content.byteLength;
      return inline >= 0 ? { base64: Buffer.from(content).toString('base64') } : { url: await this.#stored(content) };
    };
    const event: ProgramEvent = {
      job: await runnerJob(this.#options, this.#spec, { token: this.#token, lifetimeMs }),
      exec: await sent(exec),
      files: await Promise.all(this.#files.map(async ({ path, content }) => ({ path, content: await sent(content) }))),
      cancelUrl: await links.get(this.#cancelKey),
    };
    for (let isWaiting = false; ; isWaiting = true) {
      try {
        const { head, body } = await invokeStreaming<EventHead>(
          { client: lambda, clock },
          `${config.functionPrefix}programs`,
          event,
          { signal, tenantId: this.#tenantId },
        );
        if (isWaiting) this.#spec.turn?.onState?.('taken');
        const { status, problem } = head;
        return problem ? Response.json(problem, { status }) : new Response(ReadableStream.from(body), { status });
      } catch (error) {
        if (!isHostBusy(error)) throw error;
        if (clock.now() + BUSY_PAUSE_MS >= patience) throw noPlaceError(clock.now() - since);
        if (!isWaiting) this.#spec.turn?.onState?.('waiting');
        await clock.sleep(BUSY_PAUSE_MS, signal);
      }
    }
  }

  async #stored(content: Uint8Array): Promise<string> {
    const { blobs, links, ids } = this.#options;
    const key = `transfers/${ids.uuid()}`;
    await blobs.put(key, content);
    return links.get(key);
  }
}

const gone = (verb: string, path: string): SandboxFileError =>
  new SandboxFileError(`cannot ${verb} ${path}: the function has ended`, { isLost: true });
