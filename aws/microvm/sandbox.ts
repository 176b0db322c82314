import {
  CreateMicrovmAuthTokenCommand,
  GetMicrovmCommand,
  LambdaMicrovmsClient,
  RunMicrovmCommand,
  TerminateMicrovmCommand,
} from '@aws-sdk/client-lambda-microvms';
import { PlatformError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import type { Ids } from '#core/ports/ids.ts';
import type { Sandbox, SandboxSession, SandboxSpec, SandboxStatus } from '#core/ports/sandbox.ts';
import { RunnerSession, type RunnerTarget, runnerHealth } from '#runner/client.ts';
import type { AwsConfig } from '../config.ts';
import { type BlobLinks, IMAGE_INTERPRETERS, runnerJob } from '../runner-job.ts';
import { createS3Links } from '../s3-links.ts';

export interface MicrovmSandboxOptions {
  readonly config: AwsConfig;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly links: BlobLinks;
  readonly client: LambdaMicrovmsClient;
}

/** With clients whose Region and credentials are those of the environment. */
export const createMicrovmSandbox = (deps: Omit<MicrovmSandboxOptions, 'links' | 'client'>): MicrovmSandbox =>
  new MicrovmSandbox({ ...deps, links: createS3Links(deps.config.bucket), client: new LambdaMicrovmsClient() });

interface Microvm {
  readonly id: string;
  readonly endpoint: string;
}

/** Without a deadline, nobody needs a sandbox for longer. */
const LONGEST_USE_MS = 3_600_000;
/** The VM ends by itself so much later than whoever uses it should have. */
const LIFETIME_GRACE_MS = 30_000;
/** Nothing that was started longer ago has a use. */
export const LONGEST_LIFE_MS = LONGEST_USE_MS + LIFETIME_GRACE_MS;
/** How long a VM may take from its start to its runner's first answer, which is a second or two. */
const START_LIMIT_MS = 15_000;
const FIRST_LOOK_MS = 50;
const LOOK_MS = 200;
/** How many looks at a runner that does not answer are followed by one at its VM. */
const LOOKS_BEFORE_ASKING = 5;
const HEALTH_TIMEOUT_MS = 5_000;
/** One that dies before its session is open is replaced: nothing was run in it. */
const VMS_PER_SESSION = 2;
/** Between two tries to start a VM where AWS refuses one for now. */
const WAIT_MS = { first: 250, most: 2_000 };
/** AWS signs tokens for an hour at most; they are made new a minute before their end. */
const TOKEN_MINUTES = 60;
const TOKEN_RESERVE_MS = 60_000;
const PORT = 8080;

/** What RunMicrovm throws when it has no room for now: the Region has none, or this account has had its share. */
const REFUSED_FOR_NOW = [
  'InsufficientCapacityException',
  'ThrottlingException',
  'ServiceQuotaExceededException',
  'InternalServerException',
];
/** What AWS will not allow later, either. */
const FORBIDDEN = ['AccessDeniedException', 'ValidationException'];
/** What a runner says about a job, which any other runner would say, too. */
const FINAL = ['SANDBOX_UNAVAILABLE', 'BAD_REQUEST', 'FAILED'];

/**
 * {@link Sandbox} in Lambda MicroVMs: a VM for each session, started for it from the image `config.microvmImage` and
 * ended with it. A VM has no role and is in no network of ours; it ends by itself soon after the deadline of its session.
 */
export class MicrovmSandbox implements Sandbox {
  readonly #options: MicrovmSandboxOptions;

  constructor(options: MicrovmSandboxOptions) {
    this.#options = options;
  }

  /**
   * Throws RATE_LIMITED when AWS has no room for a VM during half of the time that is left, so that whatever gets one
   * has time to run; INTERNAL_ERROR when VMs start but do not answer.
   */
  async open(spec: SandboxSpec): Promise<SandboxSession> {
    const { clock, ids } = this.#options;
    const deadline = spec.deadline ?? clock.now() + LONGEST_USE_MS;
    const { signal } = spec;
    for (let started = 1; ; started++) {
      const lifetimeMs = Math.min(deadline - clock.now(), LONGEST_USE_MS) + LIFETIME_GRACE_MS;
      const token = hex(ids.randomBytes(32));
      const job = await runnerJob(this.#options, spec, { token, lifetimeMs });
      const vm = await this.#start({ deadline, lifetimeMs }, signal);
      try {
        const target = { baseUrl: vm.endpoint, fetch: this.#fetchThrough(vm, lifetimeMs) };
        await this.#untilReady(vm, target, signal);
        await RunnerSession.open(target, job, signal);
        return new MicrovmSession(target, token, () => this.#end(vm));
      } catch (error) {
        const { code } = error as { code?: string };
        this.#options.log.warn('microvm gave no session', { microvm: vm.id, code, error: String(error) });
        await this.#end(vm);
        if (signal?.aborted || FINAL.includes(code ?? '')) throw error;
        if (started < VMS_PER_SESSION && clock.now() < deadline) continue;
        throw new PlatformError('INTERNAL_ERROR', 'The sandbox did not start. Nothing was run: call again.');
      }
    }
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'microvm', interpreters: IMAGE_INTERPRETERS };
  }

  async close(): Promise<void> {}

  async #start(
    { deadline, lifetimeMs }: { deadline: number; lifetimeMs: number },
    signal?: AbortSignal,
  ): Promise<Microvm> {
    const { client, clock, config, ids } = this.#options;
    const now = clock.now();
    const patience = now + (deadline - now) / 2;
    const command = new RunMicrovmCommand({
      imageIdentifier: config.microvmImage,
      maximumDurationInSeconds: Math.ceil(lifetimeMs / 1000),
      // Without one a VM reaches nothing; this one leads to public addresses, and to none of ours.
      egressNetworkConnectors: [internetEgress(config.microvmImage)],
      // The VM has no role to write them with.
      logging: { disabled: {} },
      runHookPayload: hex(ids.randomBytes(32)),
      // A request that is sent twice starts one VM.
      clientToken: ids.uuid(),
    });
    for (let pause = WAIT_MS.first; ; pause = Math.min(2 * pause, WAIT_MS.most)) {
      signal?.throwIfAborted();
      try {
        const { microvmId, endpoint } = await client.send(command);
        return { id: microvmId!, endpoint: endpoint!.includes('://') ? endpoint! : `https://${endpoint}` };
      } catch (error) {
        const { name } = error as Error;
        if (!REFUSED_FOR_NOW.includes(name)) throw error;
        if (clock.now() + pause > patience) {
          const wait = 5;
          throw new PlatformError(
            'RATE_LIMITED',
            `AWS has no room for another sandbox at the moment (${name}). Nothing was run: call again in ${wait} s.`,
            { suggested_wait_time: wait },
          );
        }
        await clock.sleep(pause, signal);
      }
    }
  }

  /** Throws when the VM is gone, or its runner does not answer in time. */
  async #untilReady(vm: Microvm, target: RunnerTarget, signal?: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const end = clock.now() + START_LIMIT_MS;
    for (let looks = 1, pause = FIRST_LOOK_MS; ; looks++, pause = LOOK_MS) {
      signal?.throwIfAborted();
      try {
        await runnerHealth(target, HEALTH_TIMEOUT_MS);
        return;
      } catch (error) {
        if (FORBIDDEN.includes((error as Error).name) || clock.now() + pause > end) throw error;
        if (looks % LOOKS_BEFORE_ASKING === 0) await this.#checkState(vm);
        await clock.sleep(pause, signal);
      }
    }
  }

  /** Throws when the VM is known to be gone; that AWS does not say how it is means nothing. */
  async #checkState({ id }: Microvm): Promise<void> {
    const asked = this.#options.client.send(new GetMicrovmCommand({ microvmIdentifier: id }));
    const { state, stateReason } = await asked.catch(() => ({ state: undefined, stateReason: undefined }));
    if (state === 'TERMINATING' || state === 'TERMINATED') throw new Error(`it has ended: ${stateReason}`);
  }

  /** `fetch` with a token for the VM's proxy, which is made new before it ends. */
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
      headers.set('x-aws-proxy-port', String(PORT));
      return fetch(url, { ...init, headers });
    };
  }

  async #authToken(vm: Microvm, expirationInMinutes: number): Promise<string> {
    const { authToken } = await this.#options.client.send(
      new CreateMicrovmAuthTokenCommand({
        microvmIdentifier: vm.id,
        expirationInMinutes,
        allowedPorts: [{ port: PORT }],
      }),
    );
    return authToken!['X-aws-proxy-auth']!;
  }

  /** Never fails: a VM that cannot be ended now ends by itself. */
  async #end({ id }: Microvm): Promise<void> {
    const { client, log } = this.#options;
    await client.send(new TerminateMicrovmCommand({ microvmIdentifier: id })).catch((error: Error) => {
      if (error.name === 'ResourceNotFoundException') return;
      log.warn('microvm not terminated', { microvm: id, error: String(error) });
    });
  }
}

/** The VM goes, and all that ran in it. */
class MicrovmSession extends RunnerSession {
  readonly #end: () => Promise<void>;
  #ended: Promise<void> | undefined;

  constructor(target: RunnerTarget, token: string, end: () => Promise<void>) {
    super(target, token);
    this.#end = end;
  }

  override close(): Promise<void> {
    // The runner is told as well: should AWS refuse to end the VM, nothing runs in it any more.
    this.#ended ??= Promise.all([super.close(), this.#end()]).then(() => {});
    return this.#ended;
  }
}

/** The connector that AWS keeps in each Region for what needs the internet only. */
function internetEgress(imageArn: string): string {
  const [arn, partition, service, region] = imageArn.split(':');
  return [arn, partition, service, region, 'aws:network-connector:aws-network-connector:INTERNET_EGRESS'].join(':');
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
