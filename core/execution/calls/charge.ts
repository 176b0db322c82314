import type { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { hasCancelledBelow } from '#core/runs/cancellation.ts';
import type { NewRun } from '#core/runs/run.ts';
import type { EngineResult } from '../engines/engine.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import { deadlineOf, type PreparedCall } from './prepare.ts';

/** Progress events that contain output of the agent. */
const OUTPUT: readonly ProgressEvent['type'][] = ['stdout', 'text_delta'];

/** Tracks whether output of a run was shown before its end, to the calling client or to watchers of the run. */
export class ShownOutput {
  #isShown = false;

  note({ type }: ProgressEvent): void {
    this.#isShown ||= OUTPUT.includes(type);
  }

  /** A program's output is in the run's record even if the run was cancelled. */
  isIn({ stdout }: Pick<EngineResult, 'stdout'>): boolean {
    return this.#isShown || stdout !== '';
  }
}

/**
 * Whether the caller, and not the agent or the platform, ended a run (`docs/interface/billing.md#paid-calls`): by
 * cancelling
 * it or a run above or below it, or by a deadline that is shorter than those of agent, plan and platform.
 */
export async function isEndedByCaller(
  deps: Pick<Deps, 'config' | 'runs' | 'blobs' | 'clock'>,
  call: PreparedCall,
  run: Pick<NewRun, 'id' | 'rootRunId'>,
  { code }: Pick<PlatformError, 'code'>,
): Promise<boolean> {
  if (code === 'RUN_CANCELLED') return true;
  if (code !== 'TIMEOUT') return hasCancelledBelow(deps, call.workspace.id, run);
  const { wantedDeadline: _, lineage, ...others } = call;
  const allowed = deadlineOf(deps, { ...others, lineage: { ...lineage, deadline: undefined } });
  return deadlineOf(deps, call) < allowed;
}
