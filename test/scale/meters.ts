import type { Clock } from '#core/ports/clock.ts';

/** Token bucket of `burst` tokens, refilled at `rate` per second: AWS's own algorithm for most rates. */
export class TokenBucket {
  readonly #clock: Clock;
  readonly #rate: number;
  readonly #burst: number;
  #tokens: number;
  #filledAt: number;

  constructor(clock: Clock, { rate, burst = rate }: { readonly rate: number; readonly burst?: number }) {
    this.#clock = clock;
    this.#rate = rate;
    this.#burst = burst;
    this.#tokens = burst;
    this.#filledAt = clock.now();
  }

  /** Remaining tokens; negative after a request that took more than there were. */
  get left(): number {
    const now = this.#clock.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#filledAt) / 1000) * this.#rate);
    this.#filledAt = now;
    return this.#tokens;
  }

  /** Takes the tokens if there are enough. */
  take(tokens = 1): boolean {
    if (this.left < tokens) return false;
    this.#tokens -= tokens;
    return true;
  }

  /** Takes the tokens even if there are too few, because DynamoDB knows the cost of a request only after serving it. */
  charge(tokens: number): void {
    this.#tokens = this.left - tokens;
  }

  /** Waits for a token and takes it. */
  async wait(): Promise<void> {
    while (!this.take()) await this.#clock.sleep(Math.max(1, Math.ceil(((1 - this.left) / this.#rate) * 1000)));
  }
}

/** Peak rate: the average per second of the busiest window of `seconds` so far. */
export class RateMeter {
  readonly #clock: Clock;
  readonly #spanMs: number;
  #span = -1;
  #count = 0;
  #peak = 0;
  total = 0;

  constructor(clock: Clock, seconds = 1) {
    this.#clock = clock;
    this.#spanMs = seconds * 1000;
  }

  add(count = 1): void {
    const span = Math.floor(this.#clock.now() / this.#spanMs);
    if (span !== this.#span) {
      this.#span = span;
      this.#count = 0;
    }
    this.#count += count;
    this.total += count;
    this.#peak = Math.max(this.#peak, this.#count);
  }

  get peak(): number {
    return this.#peak / (this.#spanMs / 1000);
  }
}

/** Current number, and its maximum so far. */
export class LevelMeter {
  level = 0;
  peak = 0;

  add(count: number): void {
    this.level += count;
    this.peak = Math.max(this.peak, this.level);
  }
}
