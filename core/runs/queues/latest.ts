import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Key, TransactOperation } from '#core/ports/table.ts';

/**
 * Which of the runs with the same key is the latest one (`docs/interface/queues.md`). Runs table:
 *
 * - `WS#<workspace id>#DEBOUNCE#<id of the rule and its key> / STATE`: the id of that run. Others do not begin.
 */
export interface Series {
  readonly workspaceId: string;
  readonly seriesId: string;
}

/** The item is kept for longer than a run waits. */
const KEPT_SECONDS = 3 * 24 * 3600;

const keyOf = ({ workspaceId, seriesId }: Series): Key => ({
  pk: `WS#${workspaceId}#DEBOUNCE#${seriesId}`,
  sk: 'STATE',
});

/** Returns the write by which a run becomes the latest one, for the transaction that records it. */
export const latestOperation = ({ clock }: Pick<Deps, 'clock'>, series: Series, runId: string): TransactOperation => ({
  op: 'put',
  item: { ...keyOf(series), run_id: runId, ttl: epochSeconds(clock.now()) + KEPT_SECONDS },
});

export async function latestRun({ runs }: Pick<Deps, 'runs'>, series: Series): Promise<string | undefined> {
  return (await runs.get(keyOf(series)))?.run_id as string | undefined;
}
