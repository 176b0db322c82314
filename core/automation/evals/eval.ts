import { derivedUuid } from '#core/base/derived-uuid.ts';
import { type Assert, type EvalCase, isJudged, type Suite } from '#core/manifest/evals/suite.ts';
import type { Lane, Outcome, ReplayedLane } from './outcome.ts';
import type { Summary, Verdict } from './verdict.ts';

/** Maximum number of evaluations in progress in a workspace. */
export const MAX_OPEN_EVALS = 5;

/** An evaluation (`docs/interface/evals.md`). Times are ISO texts. */
export interface Evaluation {
  readonly id: string;
  readonly workspaceId: string;
  readonly agentName: string;
  /** See `AgentVersion.firstVersion`: an agent of the same name that was deleted before has other evaluations. */
  readonly firstVersion: number;
  /** Present if a publish started it. */
  readonly trigger?: 'publish';
  /** Whether the gate of its version opens if it passes. @default false */
  readonly opensGate?: true;
  /** Ids and names of the versions. */
  readonly versions: { readonly candidate: EvalVersion; readonly baseline?: EvalVersion };
  /** Whether it is compared with the recorded runs of its cases. */
  readonly isAgainstObserved?: true;
  readonly status: 'running' | 'completed' | 'aborted' | 'failed';
  /** Null until it is over, and if it was aborted or failed. */
  readonly verdict: Verdict | null;
  /** Why it ended early, failed or decides nothing; null otherwise. */
  readonly reason: string | null;
  readonly suites: readonly Suite[];
  /** Hash of the fixed prompt of the judge; null if no suite has one. */
  readonly judgePrompt: string | null;
  readonly cases: number;
  /** Runs that it makes in all, and that have a result. Recorded runs count nowhere. */
  readonly runs: number;
  readonly done: number;
  readonly passed: number;
  readonly failed: number;
  readonly errors: number;
  readonly budgetUsd: number;
  /** Cost of its runs and of its judges, in millionths of a US dollar. */
  readonly costMicro: number;
  /** Null until it is over. */
  readonly summary: Summary | null;
  readonly createdBy: string;
  /** Whether it was started with a key that is limited to this workspace. */
  readonly isBound: boolean;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly endedAt: string | null;
}

export interface EvalVersion {
  readonly id: string;
  /** Such as `v3`. */
  readonly name: string;
}

/** One run of a case: of which lane, and its number among the repeats, from 1. */
export interface Slot {
  readonly case: number;
  readonly lane: Lane;
  readonly repeat: number;
}

export interface StoredCase extends EvalCase {
  /** From 0, over all suites. */
  readonly number: number;
}

export interface AssertOutcome {
  /** Name as in the file, such as `not-contains`. */
  readonly type: string;
  readonly metric?: string;
  readonly pass: boolean;
  readonly score: number;
  readonly reason: string;
  /** The run of its judge. */
  readonly judge_run_id?: string;
}

export interface SlotResult {
  readonly outcome: Outcome;
  readonly score: number;
  /** Why it did not pass; null if it did. */
  readonly reason: string | null;
  readonly asserts: readonly AssertOutcome[];
  readonly latencyMs: number | null;
  /** Cost of the run and its judges; null if the price of a model is not known. */
  readonly costUsd: number | null;
}

/** A slot whose run has begun, or is about to. */
export interface StoredSlot extends Slot {
  readonly runId: string;
  /** The version of a recorded run that was found. */
  readonly version?: string;
  /** Absent while it runs. */
  readonly result?: SlotResult;
}

export const lanesOf = ({ versions }: Pick<Evaluation, 'versions'>): readonly ReplayedLane[] =>
  versions.baseline === undefined ? ['candidate'] : ['candidate', 'baseline'];

/** Yields the runs of a case. Those of both versions alternate, so that a change of the world meets both. */
export function* slotsOf(evaluation: Pick<Evaluation, 'versions' | 'suites'>, each: StoredCase): Generator<Slot> {
  if (each.run !== undefined) yield { case: each.number, lane: 'observed', repeat: 1 };
  const lanes = lanesOf(evaluation);
  for (let repeat = 1; repeat <= evaluation.suites[each.suite]!.repeat; repeat++) {
    for (const lane of lanes) yield { case: each.number, lane, repeat };
  }
}

/** Derives the id of a run, so that every process derives the same and it is made once. */
export const runIdOf = (evalId: string, { case: number, lane, repeat }: Slot): string =>
  derivedUuid(evalId, String(number), lane, String(repeat));

/**
 * Derives the id of the run of a judge: of which slot ({@link runIdOf}) and assert, and the number of the attempt, from 1. A recorded run has
 * another judgement in each evaluation, so its own id would not do.
 */
export const judgeRunIdOf = (slotId: string, assert: number, attempt: number): string =>
  derivedUuid(slotId, 'judge', String(assert), String(attempt));

/** Attempts of a judge: one more if the answer is not the object that is asked for. */
export const JUDGE_ATTEMPTS = [1, 2] as const;

/** Derives the ids of all runs that the judges of a slot may have. */
export const judgeRunIdsOf = (slotId: string, asserts: readonly Assert[]): string[] =>
  asserts.flatMap((assert, index) =>
    isJudged(assert) ? JUDGE_ATTEMPTS.map((attempt) => judgeRunIdOf(slotId, index, attempt)) : [],
  );
