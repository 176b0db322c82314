import type { Clock } from '#core/ports/clock.ts';

/** Grace period in which stopped tools may still return their output. */
const STOP_GRACE_MS = 300;

/** Returns the result of `work`. Once `signal` is aborted, throws its reason, at the latest after a grace period. */
export async function raceWithAbort<T>(clock: Clock, signal: AbortSignal, work: Promise<T>): Promise<T> {
  const stopped = Promise.withResolvers<never>();
  let forget = (): void => {};
  const onStop = (): void => {
    forget = clock.after(STOP_GRACE_MS, () => stopped.reject(signal.reason));
  };
  if (signal.aborted) onStop();
  else signal.addEventListener('abort', onStop);
  try {
    const result = await Promise.race([work, stopped.promise]);
    signal.throwIfAborted();
    return result;
  } finally {
    signal.removeEventListener('abort', onStop);
    forget();
  }
}
