import type { Clock } from '#core/ports/clock.ts';

/** Grace period in which stopped tools may still return what they had printed. */
const STOP_GRACE_MS = 300;

/** The result of `work`. Once `signal` is aborted, throws its reason, at the latest after a grace period. */
export async function unlessStopped<T>(clock: Clock, signal: AbortSignal, work: Promise<T>): Promise<T> {
  const settled = new AbortController();
  const stopped = new Promise<never>((_, reject) => {
    const onStop = () =>
      clock.sleep(STOP_GRACE_MS, settled.signal).then(
        () => reject(signal.reason),
        () => {},
      );
    if (signal.aborted) onStop();
    else signal.addEventListener('abort', onStop, { signal: settled.signal });
  });
  try {
    const result = await Promise.race([work, stopped]);
    signal.throwIfAborted();
    return result;
  } finally {
    settled.abort();
  }
}
