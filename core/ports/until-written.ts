import type { Clock } from './clock.ts';

/** Each round one of the writers that met wins. */
const MAX_ATTEMPTS = 100;
const MAX_PAUSE_MS = 200;

/**
 * Does `attempt` again while it answers `undefined`: another writer was faster. At once the first time, after a moment
 * from then on. Throws after 100 rounds, with `what` in the message.
 */
export async function untilWritten<T>(clock: Clock, what: string, attempt: () => Promise<T | undefined>): Promise<T> {
  for (let round = 0; round < MAX_ATTEMPTS; round++) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (round > 0) await clock.sleep(Math.random() * Math.min(2 ** round, MAX_PAUSE_MS));
  }
  throw new Error(`${what} was busy ${MAX_ATTEMPTS} times`);
}
