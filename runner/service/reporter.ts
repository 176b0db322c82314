import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import type { ServiceReport } from '#core/ports/service-host.ts';
import { restartDelay } from './backoff.ts';

/** Sends reports in batches, one after the other, and retries each until it is accepted. */
export class Reporter {
  readonly #take: (reports: readonly ServiceReport[]) => Promise<void>;
  readonly #clock: Clock;
  readonly #log: Pick<Log, 'error'>;
  /** Latest report of each instance, which includes the earlier ones. The end of an instance is a separate entry. */
  #waiting = new Map<string, ServiceReport>();
  #work: Promise<void> | undefined;

  constructor(
    take: (reports: readonly ServiceReport[]) => Promise<void>,
    { clock, log }: { clock: Clock; log: Pick<Log, 'error'> },
  ) {
    this.#take = take;
    this.#clock = clock;
    this.#log = log;
  }

  add(report: ServiceReport): void {
    const about = report.type === 'failed' ? `${report.serviceId} ${report.revision}` : report.instanceId;
    this.#waiting.set(`${report.type} ${about}`, report);
    this.#work ??= this.#handOn().finally(() => {
      this.#work = undefined;
    });
  }

  /** Resolves when all reports so far are accepted. */
  async settled(): Promise<void> {
    while (this.#work) await this.#work;
  }

  async #handOn(): Promise<void> {
    for (let failures = 0; this.#waiting.size > 0; ) {
      const batch = this.#waiting;
      this.#waiting = new Map();
      try {
        await this.#take([...batch.values()]);
        failures = 0;
      } catch (error) {
        this.#log.error('service reports not accepted', { error: String(error) });
        // Newer reports take precedence over those of the failed batch.
        this.#waiting = new Map([...batch, ...this.#waiting]);
        failures += 1;
        await this.#clock.sleep(restartDelay(failures, Math.random()));
      }
    }
  }
}
