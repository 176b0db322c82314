import { isInstallation } from '#core/base/run-kinds.ts';
import type { Run } from '../run.ts';

/** Repeats or cancels many runs in the background. Times are ISO texts. `docs/interface/runs.md#bulk-actions`. */
export interface Bulk {
  readonly id: string;
  readonly workspaceId: string;
  readonly action: BulkAction;
  /** `RunFilter` of the runs, with its window; null for runs that are named. */
  readonly filter: StoredFilter | null;
  /** The version that a replay runs in place of the run's own. */
  readonly agentVersion: string | null;
  readonly status: 'running' | 'completed' | 'aborted' | 'failed';
  /** Why it failed or ended early. */
  readonly message: string | null;
  /** How many runs were meant when it began. */
  readonly total: number;
  readonly totalIsExact: boolean;
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  /** The first failures. */
  readonly failures: readonly BulkFailure[];
  readonly createdBy: string;
  /** Whether it was started with a key that is good for this workspace alone. */
  readonly isBound: boolean;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly endedAt: string | null;
  /** The runs that are worked on. A process that dies leaves them to the next one. */
  readonly page: readonly string[];
  /** Where the page after this one begins: a place in the listing or in the list of ids; null: there is none. */
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

/** The runs that one bulk action may name. */
export const MAX_BULK_IDS = 1000;
/** The runs that one bulk action by a filter reaches. */
export const MAX_BULK_RUNS = 10_000;
/** Bulk actions of a workspace at one time. */
export const MAX_OPEN_BULKS = 5;
/** Window of a filter without `from`. */
export const BULK_WINDOW_MS = 7 * 24 * 3600_000;
export const MAX_FAILURES_SHOWN = 20;

/** Whether an action can be meant for a run that a filter found: installations are neither repeated nor cancelled. */
export const appliesTo = (action: BulkAction, run: Run): boolean =>
  !isInstallation(run) && (run.status === 'running') === (action === 'cancel');
