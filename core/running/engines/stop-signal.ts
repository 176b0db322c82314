import { PlatformError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import { RUN_ENDED } from '#core/runs/cancellation.ts';
import type { EngineRun } from './engine.ts';

export interface StopSignal {
  readonly signal: AbortSignal;
  /** Stops the timer and the listener. */
  release(): void;
}

/**
 * A signal that is aborted with TIMEOUT at the deadline of a run, or with the run's own reason if it is cancelled.
 *
 * @param whatHung Begins the message of TIMEOUT, such as `The model had not answered`.
 */
export function stopSignal(clock: Clock, run: Pick<EngineRun, 'deadline' | 'signal'>, whatHung: string): StopSignal {
  const stop = new AbortController();
  const onCancel = (): void => stop.abort(run.signal.reason);
  if (run.signal.aborted) onCancel();
  run.signal.addEventListener('abort', onCancel);
  const released = new AbortController();
  const deadline = new Date(run.deadline).toISOString();
  clock.sleep(Math.max(0, run.deadline - clock.now()), released.signal).then(
    () => stop.abort(new PlatformError('TIMEOUT', `${whatHung} at the deadline of the run, ${deadline}.`)),
    () => {},
  );
  return {
    signal: stop.signal,
    release() {
      released.abort(RUN_ENDED);
      run.signal.removeEventListener('abort', onCancel);
    },
  };
}
