import { hasEnded, isInstallation } from '#core/base/run-kinds.ts';
import type { Run } from '../run.ts';

/** Background action that replays or cancels many runs. Times are ISO texts. `docs/interface/runs.md#bulk-actions`. */
export interface Bulk {
  readonly id: string;
  readonly workspaceId: string;
  readonly action: BulkAction;
  /** Filter of the runs, including its time window; null if the runs are listed by id. */
  readonly filter: StoredFilter | null;
  /** Version to replay instead of each run's own. */
  readonly agentVersion: string | null;
  readonly status: 'running' | 'completed' | 'aborted' | 'failed';
  /** Reason why the action failed or ended early. */
  readonly message: string | null;
  /** Number of matching runs when the action began. */
  readonly total: number;
  readonly totalIsExact: boolean;
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  /** The first failures. */
  readonly failures: readonly BulkFailure[];
  readonly createdBy: string;
  /** Whether the action was started with a key that is limited to this workspace. */
  readonly isBound: boolean;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly endedAt: string | null;
  /** Runs of the current page that are not done yet. If the process dies, the next one continues with them. */
  readonly page: readonly string[];
  /** Start of the next page: a position in the listing or in the list of ids; null after the last page. */
  readonly next: BulkPlace | null;
}

export type BulkAction = 'cancel' | 'replay';
export type BulkPlace = { readonly index: number } | { readonly at: string; readonly id: string };
export type StoredFilter = { readonly [member: string]: string | number | boolean };

export interface BulkFailure {
  readonly run_id: string;
  readonly code: string;
  readonly message: string;
}

/** Maximum number of run ids in one bulk action. */
export const MAX_BULK_IDS = 1000;
/** Maximum number of runs that a bulk action with a filter processes. */
export const MAX_BULK_RUNS = 10_000;
/** Maximum number of concurrent bulk actions in a workspace. */
export const MAX_OPEN_BULKS = 5;
/** Default window of a filter without `from`. */
export const BULK_WINDOW_MS = 7 * 24 * 3600_000;
export const MAX_FAILURES_SHOWN = 20;

/** Whether an action applies to a run that a filter found: installations are neither replayed nor cancelled. */
export const appliesTo = (action: BulkAction, run: Run): boolean =>
  !isInstallation(run) && hasEnded(run.status) === (action === 'replay');
