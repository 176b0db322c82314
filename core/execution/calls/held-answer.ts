import type { Deps } from '#core/ports/deps.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import type { StartedCall } from './call.ts';
import type { CallAnswer } from './finish.ts';

/**
 * Waits for the answer of a call; `undefined` if its durable run continues for longer than a call is held, or in another
 * process. Throws the run's error.
 */
export async function answerWhileHeld(
  { clock }: Pick<Deps, 'clock'>,
  { heldUntil }: Pick<StartedCall, 'heldUntil'>,
  work: Promise<CallAnswer>,
): Promise<CallAnswer | undefined> {
  if (heldUntil === undefined) return work;
  const answered = new AbortController();
  const tooLong = clock.sleep(Math.max(0, heldUntil - clock.now()), answered.signal).then(
    () => undefined,
    () => undefined,
  );
  try {
    return await Promise.race([work, tooLong]);
  } catch (error) {
    if (isRunContinues(error)) return undefined;
    throw error;
  } finally {
    answered.abort();
  }
}
