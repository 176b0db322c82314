import type { Deps } from '#core/ports/deps.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import type { StartedCall } from './call.ts';
import type { CallAnswer } from './finish.ts';

/**
 * Waits for the answer of a call; `undefined` if its durable run continues for longer than a call is held or in another
 * process, or if its run is tried again. Throws the run's error.
 */
export async function answerWhileHeld(
  { clock }: Pick<Deps, 'clock'>,
  { heldUntil }: Pick<StartedCall, 'heldUntil'>,
  work: Promise<CallAnswer>,
): Promise<CallAnswer | undefined> {
  const answered = new AbortController();
  const tooLong = (until: number) =>
    clock.sleep(Math.max(0, until - clock.now()), answered.signal).then(
      () => undefined,
      () => undefined,
    );
  try {
    return await (heldUntil === undefined ? work : Promise.race([work, tooLong(heldUntil)]));
  } catch (error) {
    if (isRunContinues(error)) return undefined;
    throw error;
  } finally {
    answered.abort();
  }
}
