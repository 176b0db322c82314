import {
  CreateMicrovmAuthTokenCommand,
  GetMicrovmCommand,
  LambdaMicrovmsClient,
  RunMicrovmCommand,
  TerminateMicrovmCommand,
} from '@aws-sdk/client-lambda-microvms';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { queueDeadline } from '#core/execution/fair-queue.ts';
import type { BlobLinks } from '#core/ports/blobs.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import { type Ids, randomHex } from '#core/ports/ids.ts';
import type { Sandbox, SandboxSession, SandboxSpec, SandboxStatus } from '#core/ports/sandbox.ts';
import type { Table } from '#core/ports/table.ts';
import { RunnerSession, type RunnerTarget, runnerHealth } from '#runner/server/client.ts';
import { RUNNER_PORT } from '#runner/server/protocol.ts';
import { createS3Links } from '../blobs/s3-links.ts';
import type { AwsConfig } from '../config.ts';
import { reuseKeyOf } from '../fargate/reuse-key.ts';
import { IMAGE_INTERPRETERS, LIFETIME_GRACE_MS, MAX_USE_MS, MAX_VM_MS, runnerJob } from '../runner-job.ts';
import { launchInTime, WAIT_SECONDS } from './launches.ts';
import { type Microvm, type WarmVm, WarmVms } from './warm-vms.ts';

export interface MicrovmSandboxOptions {
  readonly config: AwsConfig;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly counters: Table;
  readonly links: BlobLinks;
  readonly client: LambdaMicrovmsClient;
}

/** Uses SDK clients with the environment's Region and credentials. */
export const createMicrovmSandbox = (deps: Omit<MicrovmSandboxOptions, 'links' | 'client'>): MicrovmSandbox =>
  new MicrovmSandbox({ ...deps, links: createS3Links(deps.config.bucket), client: new LambdaMicrovmsClient() });

/** Timeout from a VM's start to its runner's first response, which usually takes a second or two. */
const START_TIMEOUT_MS = 15_000;
const FIRST_POLL_MS = 50;
const POLL_MS = 200;
/** The VM's own state is read after this many polls without a response. */
const POLLS_PER_STATE_CHECK = 5;
const HEALTH_TIMEOUT_MS = 5_000;
/** How long a VM with a program that stays may live. */
const WARM_VM_MS = 3_600_000;
/** A VM that dies before its session is open is replaced: nothing has run in it. */
const VMS_PER_SESSION = 2;
/** AWS signs tokens for at most an hour. They are renewed a minute before their end. */
const TOKEN_MINUTES = 60;
const TOKEN_RESERVE_MS = 60_000;

/** Errors that a retry does not fix. */
const FORBIDDEN = ['AccessDeniedException', 'ValidationException'];
/** A runner's errors about the job itself, which any other runner would return too. */
const FINAL = ['SANDBOX_UNAVAILABLE', 'SANDBOX_LAYER', 'BAD_REQUEST', 'FAILED'];

/**
 * {@link Sandbox} in Lambda MicroVMs: one VM per session, started from the image `config.microvmImage` and terminated
 * with the session, or one for the sessions of a program that stays. A VM has no role and is not in our network. It ends by itself soon after the deadline of its
 * session.
 */
export class MicrovmSandbox implements Sandbox {
  readonly #options: MicrovmSandboxOptions;
  readonly #warm: WarmVms;

  constructor(options: MicrovmSandboxOptions) {
    this.#options = options;
    this.#warm = new WarmVms(options);
  }

  /**
   * Throws RATE_LIMITED if no VM can be started within half of the time until the deadline, and INTERNAL_ERROR if VMs
   * start but do not respond.
   */
  async open(spec: SandboxSpec): Promise<SandboxSession> {
    const { clock, config, ids } = this.#options;
    const deadline = spec.deadline ?? clock.now() + MAX_USE_MS;
    const { signal } = spec;
    const key = spec.reuse === undefined || config.sandboxReuse === 'never' ? undefined : await reuseKeyOf(spec);
    if (key !== undefined) {
      const session = await this.#openWarm(spec, key, deadline);
      if (session !== undefined) return session;
    }
    for (let started = 1; ; started++) {
      const useMs = Math.min(deadline - clock.now(), MAX_VM_MS);
      const sessionMs = useMs + LIFETIME_GRACE_MS;
      const lifetimeMs = key === undefined ? sessionMs : Math.max(useMs, WARM_VM_MS) + LIFETIME_GRACE_MS;
      const endsAt = clock.now() + lifetimeMs;
      const token = randomHex(ids, 32);
      const job = await runnerJob(this.#options, spec, { token, lifetimeMs: sessionMs });
      const vm = await this.#start({ deadline, lifetimeMs }, signal);
      try {
        const target = { baseUrl: vm.endpoint, fetch: this.#fetchThrough(vm, lifetimeMs) };
        await this.#untilReady(vm, target, signal);
        await RunnerSession.open(target, job, { signal, reuse: key });
        if (key !== undefined) return this.#warmSession({ ...vm, endsAt }, { target, token, key });
        const ref = { vm: { ...vm }, token, lifetimeMs } as unknown as Json;
        return new MicrovmSession(target, token, { ref, end: () => this.#end(vm) });
      } catch (error) {
        const { code } = error as { code?: string };
        this.#options.log.warn('microvm opened no session', { microvm: vm.id, code, error: String(error) });
        await this.#end(vm);
        if (signal?.aborted || FINAL.includes(code ?? '')) throw error;
        if (started < VMS_PER_SESSION && clock.now() < deadline) continue;
        throw new PlatformError('INTERNAL_ERROR', 'The sandbox did not start. Nothing was run: call again.', {
          suggested_wait_time: WAIT_SECONDS,
        });
      }
    }
  }

  async attach(ref: Json): Promise<SandboxSession> {
    const { vm, token, lifetimeMs } = ref as unknown as MicrovmRef;
    const target = { baseUrl: vm.endpoint, fetch: this.#fetchThrough(vm, lifetimeMs) };
    return new MicrovmSession(target, token, { ref, end: () => this.#end(vm) });
  }

  /** Opens a session in a VM that an earlier one has left, if there is one. */
  async #openWarm(spec: SandboxSpec, key: string, deadline: number): Promise<SandboxSession | undefined> {
    const { clock, ids, log } = this.#options;
    for (;;) {
      const vm = await this.#warm.take(key, deadline + LIFETIME_GRACE_MS);
      if (vm === undefined) return undefined;
      const token = randomHex(ids, 32);
      const target = { baseUrl: vm.endpoint, fetch: this.#fetchThrough(vm, vm.endsAt - clock.now()) };
      const lifetimeMs = deadline - clock.now() + LIFETIME_GRACE_MS;
      try {
        const job = await runnerJob(this.#options, spec, { token, lifetimeMs });
        await RunnerSession.open(target, job, { signal: spec.signal, reuse: key });
        return this.#warmSession(vm, { target, token, key });
      } catch (error) {
        await this.#end(vm);
        if (spec.signal?.aborted) throw error;
        log.warn('microvm opened no further session', { microvm: vm.id, error: String(error) });
      }
    }
  }

  /** The VM waits for another session if its runner does. */
  #warmSession(
    vm: WarmVm,
    { target, token, key }: { readonly target: RunnerTarget; readonly token: string; readonly key: string },
  ): MicrovmSession {
    const end = async (warmMs: number): Promise<void> => {
      if (warmMs <= 0) return this.#end(vm);
      await this.#warm.keep(key, vm, { warmMs, mark: this.#options.ids.uuid() });
    };
    return new MicrovmSession(target, token, { end, isKept: true });
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'microvm', interpreters: IMAGE_INTERPRETERS };
  }

  async close(): Promise<void> {}

  async #start(
    { deadline, lifetimeMs }: { deadline: number; lifetimeMs: number },
    signal?: AbortSignal,
  ): Promise<Microvm> {
    const { client, clock, config, counters, ids } = this.#options;
    const patience = queueDeadline(clock.now(), deadline);
    const command = new RunMicrovmCommand({
      imageIdentifier: config.microvmImage,
      maximumDurationInSeconds: Math.ceil(lifetimeMs / 1000),
      // Without a connector a VM has no network. This one reaches public addresses, but none of ours.
      egressNetworkConnectors: [internetEgress(config.microvmImage)],
      // The VM has no role for writing logs.
      logging: { disabled: {} },
      runHookPayload: randomHex(ids, 32),
      // A repeated request starts only one VM.
      clientToken: ids.uuid(),
    });
    const { launchesPerSecond } = config;
    const { microvmId, endpoint } = await launchInTime({ clock, counters, launchesPerSecond, patience, signal }, () =>
      client.send(command),
    );
    return { id: microvmId!, endpoint: endpoint!.includes('://') ? endpoint! : `https://${endpoint}` };
  }

  /** Throws if the VM has ended, or its runner does not respond in time. */
  async #untilReady(vm: Microvm, target: RunnerTarget, signal?: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const end = clock.now() + START_TIMEOUT_MS;
    for (let polls = 1, pause = FIRST_POLL_MS; ; polls++, pause = POLL_MS) {
      signal?.throwIfAborted();
      try {
        await runnerHealth(target, HEALTH_TIMEOUT_MS);
        return;
      } catch (error) {
        if (FORBIDDEN.includes((error as Error).name) || clock.now() + pause > end) throw error;
        if (polls % POLLS_PER_STATE_CHECK === 0) await this.#checkState(vm);
        await clock.sleep(pause, signal);
      }
    }
  }

  /** Throws if the VM is known to have ended. An AWS error says nothing about the VM. */
  async #checkState({ id }: Microvm): Promise<void> {
    const asked = this.#options.client.send(new GetMicrovmCommand({ microvmIdentifier: id }));
    const { state, stateReason } = await asked.catch(() => ({ state: undefined, stateReason: undefined }));
    if (state === 'TERMINATING' || state === 'TERMINATED') throw new Error(`it has ended: ${stateReason}`);
  }

  /** `fetch` with a token for the VM's proxy, which is renewed before it expires. */
  #fetchThrough(vm: Microvm, lifetimeMs: number): typeof fetch {
    const { clock } = this.#options;
    const minutes = Math.min(TOKEN_MINUTES, Math.ceil((lifetimeMs + TOKEN_RESERVE_MS) / 60_000));
    let token: { readonly value: Promise<string>; readonly renewAt: number } | undefined;
    return async (url, init) => {
      if (token === undefined || clock.now() >= token.renewAt) {
        const value = this.#authToken(vm, minutes);
        token = { value, renewAt: clock.now() + minutes * 60_000 - TOKEN_RESERVE_MS };
        value.catch(() => {
          token = undefined;
        });
      }
      const headers = new Headers(init?.headers);
      headers.set('x-aws-proxy-auth', await token.value);
      headers.set('x-aws-proxy-port', String(RUNNER_PORT));
      return fetch(url, { ...init, headers });
    };
  }

  async #authToken(vm: Microvm, expirationInMinutes: number): Promise<string> {
    const { authToken } = await this.#options.client.send(
      new CreateMicrovmAuthTokenCommand({
        microvmIdentifier: vm.id,
        expirationInMinutes,
        allowedPorts: [{ port: RUNNER_PORT }],
      }),
    );
    return authToken!['X-aws-proxy-auth']!;
  }

  /** Never throws: a VM that cannot be terminated now ends by itself. */
  async #end({ id }: Microvm): Promise<void> {
    const { client, log } = this.#options;
    await client.send(new TerminateMicrovmCommand({ microvmIdentifier: id })).catch((error: Error) => {
      if (error.name === 'ResourceNotFoundException') return;
      log.warn('microvm not terminated', { microvm: id, error: String(error) });
    });
  }
}

/** What any process needs to use a session. */
interface MicrovmRef {
  readonly vm: Microvm;
  readonly token: string;
  readonly lifetimeMs: number;
}

interface SessionEnd {
  readonly ref?: Json;
  /** @param warmMs For how long the runner waits for another session, if that is known. */
  readonly end: (warmMs: number) => Promise<void>;
  /** Whether the VM may wait for another session. */
  readonly isKept?: boolean;
}

class MicrovmSession extends RunnerSession {
  readonly #options: SessionEnd;
  #ended: Promise<void> | undefined;

  constructor(target: RunnerTarget, token: string, options: SessionEnd) {
    super(target, token, options.ref);
    this.#options = options;
  }

  override close(): Promise<void> {
    const { end, isKept = false } = this.#options;
    // Ending the runner's session as well stops all programs in the VM even if AWS refuses to terminate it.
    this.#ended ??= isKept ? this.end().then(end) : Promise.all([this.end(), end(0)]).then(() => {});
    return this.#ended;
  }
}

/** Returns AWS's own connector to the internet, one per Region. */
function internetEgress(imageArn: string): string {
  const [arn, partition, service, region] = imageArn.split(':');
  return [arn, partition, service, region, 'aws:network-connector:aws-network-connector:INTERNET_EGRESS'].join(':');
}
