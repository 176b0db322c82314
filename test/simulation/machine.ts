import { setImmediate } from 'node:timers/promises';
import type { Clock } from '#core/ports/clock.ts';
import type { Random } from './random.ts';

/** Probability of each fault in a call of a port. */
export interface Weather {
  /** The process dies before or after the call takes effect. */
  readonly crash: number;
  /** The call is delayed while others continue. */
  readonly hold: number;
  /** The process freezes for a while. */
  readonly stall: number;
}

/** Runs the platform's code. Calls of a dead process are never answered. */
export class Process {
  readonly name: string;
  isDead = false;
  /** Milliseconds of {@link Machine.elapsed}. */
  stalledUntil = 0;
  readonly #death = Promise.withResolvers<void>();
  readonly died = this.#death.promise;

  constructor(name: string) {
    this.name = name;
  }

  die(): void {
    this.isDead = true;
    this.#death.resolve();
  }
}

interface Call {
  readonly process: Process;
  readonly label: string;
  readonly perform: () => Promise<unknown>;
  readonly answer: (result: Promise<unknown>) => void;
}

interface Sleeper {
  readonly process: Process;
  readonly wakeAt: number;
  /** Whether it wakes at its exact time; polls wake with other events, as on a busy machine. */
  readonly isExact: boolean;
  readonly wake: () => void;
}

const STALL_MS = [2_000, 30_000, 70_000, 200_000, 400_000] as const;
const SHORT_MS = 20;
const LONG_MS = 5_000;

/**
 * Runs processes step by step: their port calls wait here and run in an order chosen by the seed. Time passes only when
 * no call waits.
 */
export class Machine {
  weather: Weather = { crash: 0, hold: 0, stall: 0 };
  readonly trace: string[] | undefined;
  readonly #random: Random;
  readonly #calls = new Set<Call>();
  readonly #sleepers = new Set<Sleeper>();
  #elapsed = 0;
  #start: number;

  constructor(random: Random, start: number, isTraced: boolean) {
    this.#random = random;
    this.#start = start;
    if (isTraced) this.trace = [];
  }

  /** Milliseconds since the start, unaffected by clock jumps. */
  get elapsed(): number {
    return this.#elapsed;
  }

  /** Current clock time in epoch milliseconds. */
  readonly now = (): number => Math.floor(this.#start + this.#elapsed);

  /** Sets the clock. Sleeping processes still wake on time. */
  jump(ms: number): void {
    this.#start += ms;
    this.note(`clock set by ${ms / 1000} s`);
  }

  get isIdle(): boolean {
    return this.#calls.size === 0;
  }

  note(line: string): void {
    this.trace?.push(`${new Date(this.now()).toISOString()} ${line}`);
  }

  clockOf(process: Process): Clock {
    const sleep: Clock['sleep'] = (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const stop = (settle: () => void) => () => {
          this.#sleepers.delete(sleeper);
          signal?.removeEventListener('abort', onAbort);
          settle();
        };
        const onAbort = stop(() => reject(signal?.reason));
        const isExact = ms < SHORT_MS || ms >= LONG_MS;
        const sleeper = { process, wakeAt: this.#elapsed + ms, isExact, wake: stop(resolve) };
        if (process.isDead) return;
        signal?.addEventListener('abort', onAbort);
        this.#sleepers.add(sleeper);
      });
    return {
      now: this.now,
      sleep,
      after(ms, work) {
        const cancelled = new AbortController();
        sleep(ms, cancelled.signal).then(work, () => {});
        return () => cancelled.abort();
      },
    };
  }

  /** Returns the port of a process. Methods in `direct` are answered at once. */
  port<Port extends object>(process: Process, name: string, port: Port, direct: readonly string[] = []): Port {
    return new Proxy(port, {
      get: (target, member) => {
        const method = Reflect.get(target, member);
        if (typeof method !== 'function' || direct.includes(member as string)) {
          return typeof method === 'function' ? method.bind(target) : method;
        }
        return (...args: unknown[]) =>
          new Promise((answer) => {
            if (process.isDead) return;
            const label = `${process.name} ${name}.${String(member)}${this.trace ? ` ${summary(args[0])}` : ''}`;
            this.#calls.add({ process, label, perform: () => method.apply(target, args), answer });
          });
      },
    });
  }

  /** Kills a process. Its waiting calls may still take effect, but are not answered. */
  kill(process: Process): void {
    process.die();
    this.note(`${process.name} DIES`);
    for (const sleeper of this.#sleepers) if (sleeper.process === process) this.#sleepers.delete(sleeper);
    for (const call of this.#calls) {
      if (call.process !== process) continue;
      this.#calls.delete(call);
      if (this.#random.chance(0.3)) this.#perform(call, 'unheard').catch(() => {});
    }
  }

  /** Executes waiting calls until all processes wait for time to pass. */
  async settle(): Promise<void> {
    for (;;) {
      await setImmediate();
      this.#wake();
      const ready = [...this.#calls].filter(({ process }) => process.stalledUntil <= this.#elapsed);
      if (ready.length === 0) {
        await setImmediate();
        if ([...this.#calls].every(({ process }) => process.stalledUntil > this.#elapsed)) return;
        continue;
      }
      const { crash, hold, stall } = this.weather;
      for (const call of this.#random.shuffle(ready)) {
        if (call.process.isDead) {
          this.#calls.delete(call);
          continue;
        }
        if (ready.length > 1 && this.#random.chance(hold)) continue;
        if (this.#random.chance(stall)) {
          const ms = this.#random.pick(STALL_MS);
          call.process.stalledUntil = this.#elapsed + ms;
          this.note(`${call.process.name} STANDS STILL for ${ms / 1000} s`);
        }
        if (call.process.stalledUntil > this.#elapsed) continue;
        this.#calls.delete(call);
        if (this.#random.chance(crash)) {
          if (this.#random.chance(0.5)) this.#perform(call, 'unheard').catch(() => {});
          this.kill(call.process);
          continue;
        }
        call.answer(this.#perform(call));
      }
    }
  }

  /** Lets time pass; exact sleepers wake at their time. */
  async advance(ms: number): Promise<void> {
    const end = this.#elapsed + ms;
    await this.settle();
    for (;;) {
      let next = Number.POSITIVE_INFINITY;
      for (const { process, wakeAt, isExact } of this.#sleepers) {
        if (isExact) next = Math.min(next, Math.max(wakeAt, process.stalledUntil));
      }
      if (next > end) break;
      this.#elapsed = Math.max(this.#elapsed, Math.ceil(next));
      await this.settle();
    }
    this.#elapsed = Math.max(this.#elapsed, end);
    await this.settle();
  }

  #wake(): void {
    for (const sleeper of this.#sleepers) {
      const { process, wakeAt, wake } = sleeper;
      if (process.isDead) this.#sleepers.delete(sleeper);
      else if (wakeAt <= this.#elapsed && process.stalledUntil <= this.#elapsed) wake();
    }
  }

  #perform({ label, perform }: Call, remark = ''): Promise<unknown> {
    const result = perform();
    if (this.trace) {
      result.then(
        (answer) => this.note(`${label} -> ${summary(answer)} ${remark}`),
        (error) => this.note(`${label} -> ${String(error)} ${remark}`),
      );
    }
    return result;
  }
}

const summary = (value: unknown): string => (JSON.stringify(value) ?? 'nothing').slice(0, 200);
