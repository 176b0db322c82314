import { ManualClock } from './manual-clock.ts';

/** Longer than every retry delay and shorter than every time limit. */
const SHORT_MS = 20_000;

/** Manual clock that advances by itself when the code under test waits before a retry. */
export class HastyClock extends ManualClock {
  /** Retry delays so far, in milliseconds. */
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
