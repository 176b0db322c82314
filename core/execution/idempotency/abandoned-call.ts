import type { Json } from '#core/base/json.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { ClaimedKey } from './key-store.ts';
import { answerFromRecord, type KeptAnswer } from './stored-answer.ts';

/** How a call recovers from the death of its host. */
export interface Recovery {
  /**
   * Makes the answer from the record of a run that ended in any way. With it, a run that was lost with its host is also
   * answered, and never made again. @default - as a call is answered; a lost run is made again
   */
  readonly answerFrom?: (run: Run, output: Json | null) => KeptAnswer;
  /**
   * Ensures that the run of a call never begins; returns false if it has begun. With it, a host that has not begun its run
   * after ten seconds counts as dead. @default - a host counts as dead only after the deadline of its call
   */
  readonly prevent?: (runId: string) => Promise<boolean>;
}

/** Grace period in which a host stores its answer, past the end of the run. */
const SAVE_GRACE_MS = 5_000;
/** A call that began no run is dead this long past its deadline. */
const DEAD_AFTER_MS = RUN_GRACE_MS + SAVE_GRACE_MS;
/** With {@link Recovery.prevent}: time in which a host begins its run. */
const BEGIN_GRACE_MS = 10_000;

/**
 * Decides the fate of a call whose host may have died: `pending` while the host may still answer, `lost` if the call must
 * be made again, or the answer that the run's record gives.
 */
export async function outcomeOfAbandonedCall(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
  workspaceId: string,
  claimed: ClaimedKey,
  recovery: Recovery,
): Promise<KeptAnswer | 'lost' | 'pending'> {
  const runs = new RunStore(deps, workspaceId);
  const run = await runs.find(claimed.runId);
  const now = deps.clock.now();
  if (run === undefined) return fateWithoutRun(claimed, recovery, now);
  if (run.status === 'running' || run.status === 'queued') return 'pending';
  const { answerFrom } = recovery;
  // Lost, but not recorded so: the run's host may still record another end.
  if (answerFrom !== undefined && run.completedAt === null) return 'pending';
  if (mayBeSaving(run, now)) return 'pending';
  // Failures of the platform may be tried again.
  if (answerFrom === undefined && run.errorCode === 'INTERNAL_ERROR') return 'lost';
  const output = (await runs.body(run.id))?.output ?? null;
  return (answerFrom ?? answerFromRecord)(run, output);
}

async function fateWithoutRun(
  { runId, deadline, claimedAt }: ClaimedKey,
  { prevent }: Recovery,
  now: number,
): Promise<'lost' | 'pending'> {
  if (prevent === undefined) return now <= deadline + DEAD_AFTER_MS ? 'pending' : 'lost';
  if (isWithin(BEGIN_GRACE_MS, claimedAt, now)) return 'pending';
  return (await prevent(runId)) ? 'lost' : 'pending';
}

/** Whether the run's host may still be storing its answer. A lost run has no time of completion. */
const mayBeSaving = ({ completedAt }: Run, now: number): boolean =>
  completedAt !== null && isWithin(SAVE_GRACE_MS, Date.parse(completedAt), now);

/** In both directions, because clocks may be set back. */
const isWithin = (ms: number, time: number, now: number): boolean => Math.abs(now - time) <= ms;
