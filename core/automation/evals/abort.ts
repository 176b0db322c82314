import { type CancelDeps, cancelRun } from '#core/runs/cancellation.ts';
import { type Evaluation, judgeRunIdOf } from './eval.ts';
import { EvalStore } from './store.ts';

/** Cancels the runs of an evaluation that have begun, and those of its judges, after its end was recorded. Safe to repeat. */
export async function cancelRuns(
  deps: CancelDeps,
  { id, workspaceId }: Pick<Evaluation, 'id' | 'workspaceId'>,
): Promise<void> {
  const store = new EvalStore(deps, workspaceId);
  for await (const { case: number, runId, result } of store.slots(id)) {
    if (result !== undefined) continue;
    await cancelRun(deps, workspaceId, runId);
    const [each] = await store.casesOnly(id, { from: number, limit: 1 });
    for (const [index, { type }] of each?.asserts.entries() ?? []) {
      if (type !== 'llm-rubric') continue;
      for (const attempt of [1, 2]) await cancelRun(deps, workspaceId, judgeRunIdOf(runId, index, attempt));
    }
  }
}
