import { PlatformError } from '#core/base/errors.ts';
import { type Clock, isoTime } from '#core/ports/clock.ts';
import type { EngineRun } from './engine.ts';

export interface StopSignal {
  readonly signal: AbortSignal;
  /** Removes the timer and the listener. */
  release(): void;
}

/**
 * Returns a signal that aborts with TIMEOUT at the deadline of a run, or with the run's own reason if it is cancelled.
 *
 * @param whatHung Begins the message of TIMEOUT, such as `The model had not answered`.
 */
export function stopSignal(clock: Clock, run: Pick<EngineRun, 'deadline' | 'signal'>, whatHung: string): StopSignal {
  const stop = new AbortController();
  const onCancel = (): void => stop.abort(run.signal.reason);
  if (run.signal.aborted) onCancel();
  run.signal.addEventListener('abort', onCancel);
  const cancelTimer = clock.after(Math.max(0, run.deadline - clock.now()), () => {
    const message = `${whatHung} at the deadline of the run, ${isoTime(run.deadline)}.`;
    stop.abort(new PlatformError('TIMEOUT', message));
  });
  return {
    signal: stop.signal,
    release() {
      cancelTimer();
      run.signal.removeEventListener('abort', onCancel);
    },
  };
}
