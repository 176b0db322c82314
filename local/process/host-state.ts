import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { VERSION } from '#core/base/version.ts';
import type { EndedRun, HostState, SystemState } from '#core/ports/host-state.ts';
import { DATABASE } from '../backup/format.ts';
import type { FairSandbox } from '../sandbox/fair-sandbox.ts';
import { Counter, gauge, Histogram } from './metrics.ts';

const DELAY_PERIOD_MS = 60_000;
/** Sampling interval of the event loop delay. Each sample wakes an idle process. */
const DELAY_RESOLUTION_MS = 20;
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** {@link HostState} of the local host: one process, its data folder and its sandboxes. */
export class LocalState implements HostState {
  readonly #sandbox: Pick<FairSandbox, 'status' | 'load'>;
  readonly #folder: string;
  readonly #startedAt = new Date();
  readonly #delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  readonly #timer: NodeJS.Timeout;
  #lastDelays: SystemState['event_loop_delay_ms'] | undefined;
  readonly #requests = new Counter('platform_requests_total', 'HTTP requests by method and status.', [
    'method',
    'status',
  ]);
  readonly #requestTimes = new Histogram(
    'platform_request_duration_seconds',
    'Time until the response to a request started.',
  );
  readonly #runs = new Counter('platform_runs_total', 'Finished runs by status and trigger.', ['status', 'source']);
  readonly #runTimes = new Histogram('platform_run_duration_seconds', 'Time from the start of a run to its end.');

  #overdueRuns = 0;

  constructor({
    sandbox,
    folder,
  }: { readonly sandbox: Pick<FairSandbox, 'status' | 'load'>; readonly folder: string }) {
    this.#sandbox = sandbox;
    this.#folder = folder;
    this.#delay.enable();
    this.#timer = setInterval(() => {
      this.#lastDelays = this.#delays();
      this.#delay.reset();
    }, DELAY_PERIOD_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#delay.disable();
  }

  countRequest(method: string, status: number, ms: number): void {
    // Clients may send arbitrary methods.
    this.#requests.add(METHODS.includes(method) ? method : 'other', status);
    this.#requestTimes.observe(ms / 1000);
  }

  countRun({ status, source, durationMs }: EndedRun): void {
    this.#runs.add(status, source);
    this.#runTimes.observe(durationMs / 1000);
  }

  noteOverdueRuns(count: number): void {
    this.#overdueRuns = count;
  }

  async parts() {
    return [{ name: 'sandbox', problem: (await this.#sandbox.status()).problem }];
  }

  async system(): Promise<SystemState> {
    const { kind, problem = null } = await this.#sandbox.status();
    const { running, waiting, max, oldestMs } = this.#sandbox.load;
    return {
      version: VERSION,
      node: process.version,
      started_at: this.#startedAt.toISOString(),
      sandbox: { kind, problem, running, waiting, max, queue_age_ms: oldestMs },
      disk: await this.#disk(),
      event_loop_delay_ms: this.#lastDelays ?? this.#delays(),
      memory_bytes: process.memoryUsage.rss(),
    };
  }

  async metrics(): Promise<string> {
    const { version, node, sandbox, disk, event_loop_delay_ms: delay, memory_bytes } = await this.system();
    const lines = [
      gauge('platform_info', 'Version of the platform.', [{ version, node, sandbox: sandbox.kind }, 1]),
      this.#requests.lines(),
      this.#requestTimes.lines(),
      this.#runs.lines(),
      this.#runTimes.lines(),
      gauge(
        'platform_runs_overdue',
        'Runs whose time to begin, to continue or to end is over by more than three minutes.',
        [{}, this.#overdueRuns],
      ),
      gauge(
        'platform_sandboxes',
        'Sandboxes in use, and runs that wait for one.',
        [{ state: 'running' }, sandbox.running],
        [{ state: 'waiting' }, sandbox.waiting],
      ),
      gauge('platform_sandboxes_max', 'Maximum number of sandboxes in use.', [{}, sandbox.max]),
      gauge('platform_queue_age_seconds', 'Wait time of the run that has waited longest for a sandbox.', [
        {},
        sandbox.queue_age_ms / 1000,
      ]),
      gauge(
        'platform_event_loop_delay_seconds',
        'Event loop delay over the last minute.',
        [{ quantile: '0.5' }, delay.p50 / 1000],
        [{ quantile: '0.99' }, delay.p99 / 1000],
        [{ quantile: '1' }, delay.max / 1000],
      ),
      gauge('platform_disk_free_bytes', 'Free space on the disk of the data folder.', [{}, disk.free_bytes]),
      gauge('platform_disk_size_bytes', 'Size of the disk of the data folder.', [{}, disk.size_bytes]),
      gauge('platform_database_bytes', 'Size of the database, without its journal.', [{}, disk.database_bytes]),
      gauge('process_resident_memory_bytes', 'Memory of the process.', [{}, memory_bytes]),
      gauge('process_start_time_seconds', 'Start time of the process in epoch seconds.', [
        {},
        this.#startedAt.getTime() / 1000,
      ]),
    ];
    return `${lines.flat().join('\n')}\n`;
  }

  async #disk(): Promise<SystemState['disk']> {
    const { bsize, bavail, blocks } = await statfs(this.#folder);
    const { size } = await stat(join(this.#folder, DATABASE));
    return { free_bytes: bsize * bavail, size_bytes: bsize * blocks, database_bytes: size };
  }

  #delays(): SystemState['event_loop_delay_ms'] {
    const [p50, p99] = [this.#delay.percentile(50), this.#delay.percentile(99)];
    return { p50: delayMs(p50), p99: delayMs(p99), max: delayMs(this.#delay.max) };
  }
}

/**
 * Returns the event loop delay in milliseconds from a value of `monitorEventLoopDelay`, which is the time between two
 * samples in nanoseconds, sampling interval included. Before the first sample that is NaN or 0.
 */
export const delayMs = (nanoseconds: number): number =>
  Number.isFinite(nanoseconds) ? Math.max(0, Math.round(nanoseconds / 1e4 - DELAY_RESOLUTION_MS * 100) / 100) : 0;
