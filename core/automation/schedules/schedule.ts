import type { Json } from '#core/base/json.ts';
import type { RunStatus } from '#core/base/run-kinds.ts';
import type { QueueRules } from '#core/manifest/queue-rules.ts';
import type { RetryPolicy } from '#core/manifest/retry-policy.ts';
import type { LlmProvider } from '#core/ports/llm.ts';

/** An agent that runs on a cron expression or a webhook. Times are ISO texts. */
export interface Schedule {
  readonly id: string;
  readonly workspaceId: string;
  readonly agentId: string;
  readonly agentWorkspaceId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly agentVersion: string;
  /** User whose current `dev` version the schedule runs. */
  readonly devOf?: string | null;
  readonly type: 'cron' | 'webhook';
  /** Null for webhooks. */
  readonly cronExpression: string | null;
  readonly timezone: string;
  readonly input: ScheduleInput;
  readonly llmProvider: LlmProvider | null;
  readonly enabled: boolean;
  /** Whether the schedule follows new versions of its agent. */
  readonly autoUpdate: boolean;
  /** Channel of the agent that it follows in place of `latest`. Absent or null: none. */
  readonly channel?: string | null;
  /** Whether a run may start while another one is open. */
  readonly overlap: 'allow' | 'skip';
  /** SHA-256, hexadecimal; null for crons. */
  readonly webhookSecretHash: string | null;
  readonly webhookSecretPreview: string | null;
  readonly alertWebhookUrl: string | null;
  readonly alertOnFailureCount: number;
  readonly maxConsecutiveFailures: number;
  readonly consecutiveFailures: number;
  readonly autoDisabledAt: string | null;
  /** Error of the failure that disabled the schedule. */
  readonly autoDisabledReason?: string | null;
  /** Last moment at which a run may begin. Absent or null: none. */
  readonly endsAt?: string | null;
  /** `runCount` at which the schedule ends. Absent or null: none. */
  readonly maxRuns?: number | null;
  /** Absent or null: the agent's own. */
  readonly retry?: RetryPolicy | null;
  /** Absent or null: the agent's own. */
  readonly concurrency?: QueueRules['concurrency'] | null;
  readonly rate?: QueueRules['rate'] | null;
  readonly debounce?: QueueRules['debounce'] | null;
  /** When `endsAt` or `maxRuns` disabled the schedule. Null: neither did. */
  readonly endedAt?: string | null;
  readonly endedReason?: EndReason | null;
  /** First minute that has not been handled, past or future; null for webhooks and while disabled. */
  readonly nextRunAt: string | null;
  readonly lastRunAt: string | null;
  readonly lastRunId: string | null;
  /** May stay `running` after a success: see `last-run.ts`. */
  readonly lastRunStatus: RunStatus | null;
  readonly runCount: number;
  /** Required secrets that were not granted at the last run, for the timeline. Null: none. */
  readonly lackedGrants: string | null;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly deletedAt: string | null;
}

/** Setting that ended a schedule, by its API name. */
export type EndReason = 'ends_at' | 'max_runs';

export type ScheduleInput = { readonly [member: string]: Json };

type ScheduleEventType =
  | 'created'
  | 'updated'
  | 'enabled'
  | 'disabled'
  | 'auto_disabled'
  | 'ended'
  | 'version_updated'
  | 'run_failed'
  | 'grant_missing'
  | 'input_refused'
  | 'missed'
  | 'skipped_overlap'
  | 'alert_sent'
  | 'alert_failed'
  | 'webhook_regenerated'
  | 'deleted';

/** An entry of a schedule's timeline. */
export interface ScheduleEvent {
  readonly id: string;
  readonly type: ScheduleEventType;
  readonly message: string | null;
  readonly slot: Slots | null;
  readonly createdAt: string;
}

/** Minutes of a schedule without a run. */
export interface Slots {
  /** First of these minutes, in epoch milliseconds. */
  readonly at: number;
  readonly count: number;
}

export interface NewScheduleEvent {
  readonly type: ScheduleEventType;
  readonly message: string;
  /** Minutes that did not run. */
  readonly slot?: Slots;
}
