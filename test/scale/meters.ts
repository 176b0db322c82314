import type { Clock } from '#core/ports/clock.ts';

/** AWS's own algorithm for most rates: a bucket of `burst` tokens that fills by `rate` a second. */
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

  /** Tokens that are left; less than none after a request that took more than there were. */
  get left(): number {
    const now = this.#clock.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#filledAt) / 1000) * this.#rate);
    this.#filledAt = now;
    return this.#tokens;
  }

  /** Takes the tokens if they are there. */
  take(tokens = 1): boolean {
    if (this.left < tokens) return false;
    this.#tokens -= tokens;
    return true;
  }

  /** Takes them whether or not they are there: DynamoDB knows what a request costs when it has served it. */
  charge(tokens: number): void {
    this.#tokens = this.left - tokens;
  }

  /** Waits until there is a token, and takes it. */
  async wait(): Promise<void> {
    while (!this.take()) await this.#clock.sleep(Math.max(1, Math.ceil(((1 - this.left) / this.#rate) * 1000)));
  }
}

/** The busiest of `seconds`-long spans so far, a second's average of it. */
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

/** How many there are at once, and the most there were. */
export class LevelMeter {
  level = 0;
  peak = 0;

  add(count: number): void {
    this.level += count;
    this.peak = Math.max(this.peak, this.level);
  }
}
