import { ManualClock } from './manual-clock.ts';

/** Above all waits before a retry, below all limits. */
const SHORT_MS = 20_000;

/** A manual clock that moves ahead by itself where the code under test waits before it tries again. */
export class HastyClock extends ManualClock {
  /** These waits, in milliseconds. */
  readonly waits: number[] = [];

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const slept = super.sleep(ms, signal);
    if (ms <= SHORT_MS) {
      this.waits.push(ms);
      void this.advance(ms);
    }
    return slept;
  }
}
