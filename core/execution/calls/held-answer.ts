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
  try {
    return await (heldUntil === undefined ? work : untilThen(clock, heldUntil, work));
  } catch (error) {
    if (isRunContinues(error)) return undefined;
    throw error;
  }
}

/** Returns `undefined` if the work takes longer. Without a signal: its abort would cost more than the rest. */
async function untilThen<Result>(
  clock: Deps['clock'],
  until: number,
  work: Promise<Result>,
): Promise<Result | undefined> {
  const tooLong = Promise.withResolvers<undefined>();
  const cancel = clock.after(Math.max(0, until - clock.now()), () => tooLong.resolve(undefined));
  try {
    return await Promise.race([work, tooLong.promise]);
  } finally {
    cancel();
  }
}
