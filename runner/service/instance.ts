import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { hasCode } from '#core/base/errors.ts';
import { failureLine } from '#core/execution/engines/program/failure-line.ts';
import { shellQuote } from '#core/manifest/bundle/entrypoint.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { ExecEvent, ExecExit } from '#core/ports/sandbox.ts';
import {
  type BootDocument,
  GATEWAY_PORT,
  type InstanceReport,
  type ServiceApp,
  type ServiceLogLine,
} from '#core/ports/service-host.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import type { ServeRequest } from '../sandbox/session.ts';
import { AppLog } from './app-log.ts';
import { restartDelay, STEADY_MS } from './backoff.ts';
import { ServiceGateway, type Via } from './gateway.ts';
import { answerWith, endWith, GatewayError } from './gateway-error.ts';
import { LoopGateway, type PlatformAccess } from './loop-gateway.ts';

/** Time for requests in flight when the app is stopped. */
const DRAIN_MS = 5000;
/** Interval of probes for an app that does not listen yet. */
const PROBE_MS = 250;
/** An app that does not listen after this time is considered a worker and probed less often. */
const LISTEN_MS = 60_000;
const WORKER_PROBE_MS = 5000;
/** Interval of reports while nothing changes. */
const REPORT_MS = 60_000;
/** Maximum part of an app's last output that is searched for the reason why it ended. */
const TAIL_CHARACTERS = 16 * 1024;
const MAX_MESSAGE_CHARACTERS = 2000;

const LOST = 'The sandbox of the app ended, and a new one is started.';

/** Sandbox of an app. */
export interface AppPlace {
  serve(request: ServeRequest): AsyncIterable<ExecEvent>;
  connect(port: number): Promise<Socket | undefined>;
  /** Resolves when the sandbox is gone. */
  readonly gone: Promise<void>;
  close(): Promise<void>;
}

/** Everything needed to start an app. */
export interface Opened {
  readonly boot: BootDocument;
  /** Absent for a loop, which has no process. */
  readonly place?: AppPlace | undefined;
}

export interface InstanceOptions {
  readonly id: string;
  readonly serviceId: string;
  /** Revision of the boot document, 0 until it is loaded. */
  readonly revision: number;
  /**
   * Loads the document and opens a sandbox for its app: at the start, and again after the sandbox was lost. An error
   * counts as a failed start, and users see its message; one with the code UNAUTHORIZED ends the instance. `signal` is
   * aborted when the instance ends.
   */
  open(signal: AbortSignal): Promise<Opened>;
  readonly clock: Clock;
  /** Grace period between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
  /** Access for the calls of a loop. */
  readonly platform: PlatformAccess;
  log(line: ServiceLogLine): void;
  report(report: InstanceReport): void;
}

/**
 * One instance of a service: starts its app, restarts it when it ends, reports its state, and forwards requests to it
 * (`docs/interface/service-instances.md#restarts`).
 */
export class ServiceInstance {
  readonly #options: InstanceOptions;
  readonly #gateway: ServiceGateway;
  /** Present for a loop once its boot document is loaded. */
  #loop: LoopGateway | undefined;
  /** Aborted when the instance stops: the app ends and is not restarted. */
  readonly #stop = new AbortController();
  readonly #startedAt: number;
  /** Absent before the first start, and after the sandbox was lost. */
  #opened: Opened | undefined;
  /** The latest document, kept after its sandbox was lost. */
  #boot: BootDocument | undefined;
  #life: Promise<void> | undefined;
  #phase: InstanceReport['phase'] = 'starting';
  #isWorker = false;
  #restarts = 0;
  #failures = 0;
  #steadyAt: number | null = null;
  #lastEnd: InstanceReport['lastEnd'] = null;
  #sequence = 0;
  /** The end of the app's output, masked. */
  #tail = '';

  constructor(options: InstanceOptions) {
    this.#options = options;
    this.#startedAt = options.clock.now();
    this.#gateway = new ServiceGateway({ connect: () => this.#connect(), absence: () => this.#absence() });
  }

  get id(): string {
    return this.#options.id;
  }

  get isReady(): boolean {
    return this.#phase === 'ready';
  }

  /** Resolves when the instance has been stopped or its token was rejected, and everything of it has ended. */
  run(): Promise<void> {
    this.#life ??= this.#live();
    return this.#life;
  }

  /**
   * Stops the app once no request is in flight, or after `DRAIN_MS`. A loop, whose calls take longer and which has no
   * process to kill, drains for its grace period instead. Resolves when it has ended.
   */
  async stop(): Promise<void> {
    const { clock, graceMs } = this.#options;
    if (!this.#stop.signal.aborted) {
      this.#become('stopping');
      const idle = this.#loop?.idle() ?? this.#gateway.idle();
      const drainMs = this.#loop ? graceMs : DRAIN_MS;
      await Promise.race([idle, clock.sleep(drainMs, this.#stop.signal).catch(() => {})]);
    }
    this.#stop.abort();
    await this.run();
    this.#gateway.close();
  }

  request(incoming: IncomingMessage, response: ServerResponse, via: Via): void {
    const isHealth = /^\/health(\?|$)/.test(incoming.url ?? '') && ['GET', 'HEAD'].includes(incoming.method!);
    if (isHealth) this.#answerHealth(response);
    else if (this.#loop) this.#loop.request(incoming, response, via.client);
    else this.#gateway.request(incoming, response, via);
  }

  upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer, via: Via): void {
    if (!this.#loop) this.#gateway.upgrade(incoming, socket, head, via);
    else endWith(socket, new GatewayError(404, 'A loop has no connections to upgrade: send POST / with a JSON body.'));
  }

  /** Health check for load balancers: 200 once the app listens, or is known to need no port. */
  #answerHealth(response: ServerResponse): void {
    if (!this.isReady) answerWith(response, new GatewayError(503, this.#absence()));
    else response.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}');
  }

  async #live(): Promise<void> {
    const { clock, random } = this.#options;
    const { signal } = this.#stop;
    this.#become('starting');
    void this.#reportAlways(signal);
    while (!signal.aborted) {
      const opened = await this.#open(signal);
      if (opened) await this.#serve(opened);
      if (signal.aborted) break;
      this.#become('waiting');
      await clock.sleep(restartDelay(this.#failures, random()), signal).catch(() => {});
      if (signal.aborted) break;
      this.#restarts += 1;
      this.#isWorker = false;
      this.#become('starting');
    }
    await this.#opened?.place?.close();
  }

  /** Opens the sandbox unless it is open. Returns `undefined` after a failed start, or if the instance is stopping. */
  async #open(signal: AbortSignal): Promise<Opened | undefined> {
    if (this.#opened) return this.#opened;
    try {
      const { open, platform } = this.#options;
      const opened = await open(signal);
      const { boot, place } = opened;
      this.#opened = opened;
      this.#boot = boot;
      this.#loop = boot.app.kind === 'loop' ? new LoopGateway(boot, platform) : undefined;
      void place?.gone.then(() => {
        if (this.#opened === opened) this.#opened = undefined;
        void place.close();
      });
      return signal.aborted ? undefined : opened;
    } catch (error) {
      if (hasCode(error, 'UNAUTHORIZED')) this.#stop.abort();
      if (!signal.aborted) {
        this.#failures += 1;
        this.#ended(1, `The instance did not start: ${(error as Error).message}`);
      }
      return undefined;
    }
  }

  /** Runs the app until it or its sandbox ends. */
  async #serve({ boot, place }: Opened): Promise<void> {
    const { signal } = this.#stop;
    if (boot.app.kind !== 'loop') return this.#runApp(boot.app, { boot, place: place! });
    this.#become('ready');
    await aborted(signal);
  }

  async #runApp(
    app: Exclude<ServiceApp, { kind: 'loop' }>,
    { boot, place }: { readonly boot: BootDocument; readonly place: AppPlace },
  ): Promise<void> {
    const { clock, graceMs, log } = this.#options;
    const { signal } = this.#stop;
    const ended = new AbortController();
    const begunAt = clock.now();
    const mask = new SecretMask(boot.secrets);
    void this.#watch(ended.signal);
    const write = (line: ServiceLogLine) => {
      this.#tail = `${this.#tail}${line.message}\n`.slice(-TAIL_CHARACTERS);
      log(line);
    };
    const now = () => clock.now();
    const streams = {
      stdout: new AppLog(mask, { otherwise: 'INFO', now, write }),
      stderr: new AppLog(mask, { otherwise: 'ERROR', now, write }),
    };
    this.#tail = '';
    for await (const event of place.serve({ command: commandOf(app), stop: signal, graceMs })) {
      if (event.type !== 'exit') {
        streams[event.type].push(event.data);
        continue;
      }
      streams.stdout.end();
      streams.stderr.end();
      ended.abort();
      if (signal.aborted) return;
      if (this.#steadyAt === null || this.#steadyAt < begunAt) this.#failures += 1;
      this.#ended(event.exit.exitCode, this.#reasonOf(event.exit, boot));
    }
  }

  #ended(exitCode: number, message: string): void {
    const { clock, log } = this.#options;
    this.#lastEnd = { at: clock.now(), exitCode, message: message.slice(0, MAX_MESSAGE_CHARACTERS) };
    log({ at: clock.now(), severity: 'WARNING', message: `[platform] ${this.#lastEnd.message}`, source: 'platform' });
  }

  /** Probes an app from its start until it ends. */
  async #watch(ended: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const sleep = (ms: number) => clock.sleep(ms, ended);
    const beSteady = async () => {
      await sleep(STEADY_MS);
      this.#failures = 0;
      this.#steadyAt = clock.now();
      this.#report();
    };
    try {
      const giveUpAt = clock.now() + LISTEN_MS;
      while (!(await this.#listens())) {
        if (clock.now() >= giveUpAt && !this.#isWorker) {
          this.#isWorker = true;
          this.#become('ready');
          void beSteady().catch(() => {});
        }
        await sleep(this.#isWorker ? WORKER_PROBE_MS : PROBE_MS);
      }
      ended.throwIfAborted();
      const wasReady = this.#isWorker;
      this.#isWorker = false;
      this.#become('ready');
      if (!wasReady) void beSteady().catch(() => {});
    } catch (error) {
      if (!ended.aborted) throw error;
    }
  }

  async #listens(): Promise<boolean> {
    const socket = await this.#connect();
    socket?.destroy();
    return socket !== undefined;
  }

  async #connect(): Promise<Socket | undefined> {
    return this.#opened?.place?.connect(this.#opened.boot.port);
  }

  /** Returns why the app ended, and how to fix it. */
  #reasonOf({ reason, exitCode }: ExecExit, boot: BootDocument): string {
    if (reason === 'sandbox_lost') return LOST;
    const line = failureLine(this.#tail);
    const said = line === undefined ? 'It printed nothing.' : `Last output: ${line}`;
    const text =
      reason === 'memory_limit'
        ? `The app used more than its ${Math.round(boot.limits.memoryBytes / 1024 ** 2)} MB of memory and was killed. ${said}`
        : exitCode === 0
          ? `The app ended with exit code 0. A service must keep running. ${said}`
          : `The app ended with exit code ${exitCode}. ${said}`;
    const isPortTaken =
      /EADDRINUSE|address already in use/i.test(this.#tail) && this.#tail.includes(String(GATEWAY_PORT));
    const hint = isPortTaken
      ? `. Port ${GATEWAY_PORT} belongs to the platform: listen on the port in the variable PORT, ${boot.port}.`
      : '';
    return `${text}${hint}`;
  }

  #absence(): string {
    const port = this.#boot?.port;
    if (port === undefined && this.#phase === 'starting') return 'The instance is starting.';
    switch (this.#phase) {
      case 'waiting':
        return 'The app has ended and is about to be restarted.';
      case 'stopping':
        return 'The service is being stopped.';
      case 'ready':
        return `The app is running but does not listen on port ${port} (the variable PORT).`;
      case 'starting':
        return `The app is starting and does not listen on port ${port} (the variable PORT) yet.`;
    }
  }

  /** An instance that is stopping stays so, whatever its app does. */
  #become(phase: InstanceReport['phase']): void {
    if (this.#phase === 'stopping') return;
    this.#phase = phase;
    this.#report();
  }

  async #reportAlways(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#options.clock.sleep(REPORT_MS, signal).catch(() => {});
      if (signal.aborted) return;
      this.#report();
    }
  }

  #report(): void {
    this.#sequence += 1;
    this.#options.report(this.reportNow());
  }

  /** Returns the current state of the instance. */
  reportNow(): InstanceReport {
    const { id, serviceId, revision, clock } = this.#options;
    return {
      type: 'instance',
      serviceId,
      instanceId: id,
      revision: this.#boot?.revision ?? revision,
      sequence: this.#sequence,
      at: clock.now(),
      startedAt: this.#startedAt,
      phase: this.#phase,
      isWorker: this.#isWorker,
      restarts: this.#restarts,
      failures: this.#failures,
      steadyAt: this.#steadyAt,
      lastEnd: this.#lastEnd,
    };
  }
}

function commandOf(app: Exclude<ServiceApp, { kind: 'loop' }>): string {
  return app.kind === 'shell' ? app.line : `exec ${app.argv.map(shellQuote).join(' ')}`;
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
