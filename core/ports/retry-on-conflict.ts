import { isHostBusy } from '#core/base/errors.ts';
import type { Clock } from './clock.ts';

/** In each round one of the competing writers succeeds. */
const MAX_ATTEMPTS = 100;
const MAX_PAUSE_MS = 200;

/**
 * Repeats `attempt` while it returns `undefined` because another writer was faster, or the host throttles: once
 * immediately, then with random exponential backoff of at most 200 ms. After 100 attempts it throws the host's last
 * throttling error, if any, or an error whose message contains `what`.
 */
export async function retryOnConflict<T>(
  clock: Clock,
  what: string,
  attempt: () => Promise<T | undefined>,
): Promise<T> {
  for (let round = 0; round < MAX_ATTEMPTS; round++) {
    const result = await attempt().catch((error: unknown) => {
      if (!isHostBusy(error) || round === MAX_ATTEMPTS - 1) throw error;
    });
    if (result !== undefined) return result;
    if (round > 0) await clock.sleep(Math.random() * Math.min(2 ** round, MAX_PAUSE_MS));
  }
  throw new Error(`${what} was busy ${MAX_ATTEMPTS} times`);
}
