import type { Clock } from '#core/ports/clock.ts';
import { LevelMeter, TokenBucket } from './meters.ts';

/** Error of Lambda when it does not start a function. */
export class LambdaThrottle extends Error {
  override readonly name = 'TooManyRequestsException';
}

export interface LambdaProps {
  readonly clock: Clock;
  /** Maximum of concurrent executions of all functions of the account. */
  readonly concurrency: number;
  /** Maximum of new environments per function in ten seconds. */
  readonly scaling: number;
  /** Reserved concurrency by function. */
  readonly reserved: Readonly<Record<string, number>>;
  /** Duration of a cold start, in milliseconds. */
  readonly startMs: number;
  readonly throttles: boolean;
}

interface Pool {
  /** Idle environments. */
  idle: number;
  readonly running: LevelMeter;
  readonly scaling: TokenBucket;
  environments: number;
}

/** Applies Lambda's limits on concurrent executions and on the rate of new environments. */
export class LambdaModel {
  readonly #props: LambdaProps;
  readonly #pools = new Map<string, Pool>();
  readonly all = new LevelMeter();
  /** Executions of functions without a reservation, which share the remaining concurrency. */
  readonly #shared = new LevelMeter();
  /** By function. */
  readonly refused = new Map<string, number>();

  constructor(props: LambdaProps) {
    this.#props = props;
  }

  /** Runs the work in an environment of the function. Throws {@link LambdaThrottle} if Lambda does not start it. */
  async invoke<T>(fn: string, work: () => Promise<T>): Promise<T> {
    const pool = this.#pool(fn);
    if (this.#props.throttles && !this.#hasPlace(fn, pool)) {
      this.refused.set(fn, (this.refused.get(fn) ?? 0) + 1);
      throw new LambdaThrottle('Rate Exceeded.');
    }
    const isCold = pool.idle === 0;
    const shared = this.#props.reserved[fn] === undefined ? [this.#shared] : [];
    const meters = [pool.running, this.all, ...shared];
    for (const meter of meters) meter.add(1);
    if (isCold) {
      pool.scaling.charge(1);
      pool.environments += 1;
    } else pool.idle -= 1;
    try {
      if (isCold) await this.#props.clock.sleep(this.#props.startMs);
      return await work();
    } finally {
      for (const meter of meters) meter.add(-1);
      pool.idle += 1;
    }
  }

  /** Returns the maximum number of concurrent executions of a function. */
  peakOf(fn: string): number {
    return this.#pools.get(fn)?.running.peak ?? 0;
  }

  /** Returns the number of environments that a function got. */
  environmentsOf(fn: string): number {
    return this.#pools.get(fn)?.environments ?? 0;
  }

  #hasPlace(fn: string, { running, idle, scaling }: Pool): boolean {
    const { concurrency, reserved } = this.#props;
    const own = reserved[fn];
    const setAside = Object.values(reserved).reduce((sum, each) => sum + each, 0);
    const hasPlace = own === undefined ? this.#shared.level < concurrency - setAside : running.level < own;
    return hasPlace && (idle > 0 || scaling.left >= 1);
  }

  #pool(fn: string): Pool {
    let pool = this.#pools.get(fn);
    if (pool === undefined) {
      const { clock, scaling } = this.#props;
      const bucket = new TokenBucket(clock, { rate: scaling / 10, burst: scaling });
      pool = { idle: 0, running: new LevelMeter(), scaling: bucket, environments: 0 };
      this.#pools.set(fn, pool);
    }
    return pool;
  }
}
