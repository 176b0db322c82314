import { type CancelDeps, cancelRun } from '#core/runs/cancellation.ts';
import { type Evaluation, judgeRunIdsOf, runIdOf } from './eval.ts';
import { EvalStore } from './store.ts';

/** Cancels the runs of an evaluation that have begun, and those of its judges, after its end was recorded. Safe to repeat. */
export async function cancelRuns(
  deps: CancelDeps,
  { id, workspaceId }: Pick<Evaluation, 'id' | 'workspaceId'>,
): Promise<void> {
  const store = new EvalStore(deps, workspaceId);
  for await (const slot of store.slots(id)) {
    const { case: number, lane, runId, result } = slot;
    if (result !== undefined) continue;
    // A recorded run is not of this evaluation.
    if (lane !== 'observed') await cancelRun(deps, workspaceId, runId);
    const [each] = await store.casesOnly(id, { from: number, limit: 1 });
    const judges = judgeRunIdsOf(runIdOf(id, slot), each?.asserts ?? []);
    for (const judgeRunId of judges) await cancelRun(deps, workspaceId, judgeRunId);
  }
}
