import type { Json } from '#core/base/json.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { ClaimedKey } from './key-store.ts';
import { answerFromRecord, type KeptAnswer } from './stored-answer.ts';

/** Recovery of a call whose host died. */
export interface Recovery {
  /**
   * Builds the answer from the record of an ended run. If defined, a run that was lost with its host is also answered,
   * and
   * never repeated. @default - the call's usual answer; a lost run is repeated
   */
  readonly answerFrom?: (run: Run, output: Json | null) => KeptAnswer;
  /** Builds the answer to a call that is answered as soon as its run is recorded. @default - when the run has ended */
  readonly answerAtOnce?: (run: Run) => KeptAnswer;
  /**
   * Ensures that the run of a call never begins; returns false if it has begun. If defined, a host that has not begun
   * its run
   * after ten seconds counts as dead. @default - a host counts as dead only after the deadline of its call
   */
  readonly prevent?: (runId: string) => Promise<boolean>;
}

/** Grace period after the end of the run in which its host may store the answer. */
const SAVE_GRACE_MS = 5_000;
/** Time past its deadline after which a call without a run counts as dead. */
const DEAD_AFTER_MS = RUN_GRACE_MS + SAVE_GRACE_MS;
/** Time in which a host must begin its run, used with {@link Recovery.prevent}. */
const BEGIN_GRACE_MS = 10_000;

/**
 * Determines the state of a call whose host may have died: `pending` while the host may still answer, `lost` if the
 * call must
 * be repeated, or the answer according to the run's record.
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
  if (recovery.answerAtOnce !== undefined) return recovery.answerAtOnce(run);
  if (!hasEnded(run.status)) return 'pending';
  const { answerFrom } = recovery;
  // Lost but not recorded as ended: the run's host may still record another end.
  if (answerFrom !== undefined && run.completedAt === null) return 'pending';
  if (mayBeSaving(run, now)) return 'pending';
  // Failures of the platform may be retried.
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

/** Whether the run's host may still be storing its answer. A lost run has no completion time. */
const mayBeSaving = ({ completedAt }: Run, now: number): boolean =>
  completedAt !== null && isWithin(SAVE_GRACE_MS, Date.parse(completedAt), now);

/** Compares in both directions, because clocks may be set back. */
const isWithin = (ms: number, time: number, now: number): boolean => Math.abs(now - time) <= ms;
