import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';

/** Index partition of the evaluations that are running (`store.ts`). */
export const OPEN_EVALS = 'EVALS';

/** An evaluation that a process may claim, as listed in the index. */
export interface DueEval {
  readonly id: string;
  readonly workspaceId: string;
  readonly listedAs: string;
}

/** Yields evaluations of all workspaces that no process holds. */
export async function* listDueEvals({ runs, clock }: Pick<Deps, 'runs' | 'clock'>): AsyncGenerator<DueEval> {
  // In the sort key, `#` and the id follow the time; `$` sorts after `#`.
  const sk = { lessThan: `${isoTime(clock.now())}$` };
  for await (const item of queryAll(runs, { index: 'gsi1', pk: OPEN_EVALS, sk })) {
    yield { id: item.sk, workspaceId: item.workspaceId as string, listedAs: item.gsi1sk! };
  }
}
