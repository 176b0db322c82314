import type { InstanceReport } from '#core/ports/service-host.ts';

/**
 * An agent whose process is kept running. Times are epoch milliseconds. The record holds the desired state; `apply.ts`
 * sends it to the host, whose reports update the actual state (`core/ports/service-host.ts`).
 */
export interface Service {
  readonly id: string;
  readonly workspaceId: string;
  readonly name: string;
  /** Leftmost part of its host name, unique on the platform. */
  readonly label: string;
  readonly agentId: string;
  readonly agentWorkspaceId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly agentVersion: string;
  /** First version of the agent. */
  readonly agentFirstVersion: number;
  /** Program if `args` is set, else a shell command. Null: the agent's own command. */
  readonly command: string | null;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Names of secrets that the agent version requires. */
  readonly requiredSecrets: readonly string[];
  /** Names of secrets that the agent version gets if the workspace has them. */
  readonly optionalSecrets: readonly string[];
  /** Names of secrets added by an owner of the workspace. */
  readonly extraSecrets: readonly string[];
  readonly minInstances: number;
  readonly maxInstances: number;
  /** Whether old instances keep serving until new ones are ready. */
  readonly overlap: boolean;
  /** Whether the service follows new versions of its agent. */
  readonly autoUpdate: boolean;
  /** Channel of the agent that it follows in place of `latest`. Absent or null: none. */
  readonly channel?: string | null;
  readonly alertWebhookUrl: string | null;
  readonly maxRestartFailures: number;

  readonly desired: 'running' | 'stopped' | 'deleted';
  /** Increases with each change that the host must apply. */
  readonly revision: number;
  /** Latest order that the host has accepted. */
  readonly applied: Applied | null;
  /** Lease of the process that is giving the host an order; `until` in epoch milliseconds. */
  readonly applying: { readonly by: string; readonly until: number } | null;
  /** Tokens of orders whose instances may still boot, latest last. */
  readonly tokens: readonly BootToken[];
  /** Revision that the host cannot run, and the reason. */
  readonly refusal: { readonly revision: number; readonly message: string } | null;
  readonly address: string | null;

  /** Instances by ID. Gone ones are kept for an hour, so that late reports do not revive them. */
  readonly instances: { readonly [id: string]: Instance };
  /** Whether any instance was ever ready. */
  readonly hasRun: boolean;
  /** Latest revision that was ready. */
  readonly readyRevision: number;
  /** Revision from which failed restarts are counted. */
  readonly countedFrom: number;
  /** Failed restarts in a row; unchanged while the service is stopped. */
  readonly consecutiveFailures: number;
  /** Whether a warning was sent for the current failures in a row. */
  readonly isWarned: boolean;
  /** Restarts on request, plus restarts of instances that are no longer in {@link instances}. */
  readonly pastRestarts: number;

  readonly lastError: { readonly at: number; readonly message: string } | null;
  readonly lastRestartAt: number | null;
  readonly lastDeployedAt: number;
  readonly autoPausedAt: number | null;
  readonly createdBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Latest order that the host accepted. */
export interface Applied {
  readonly revision: number;
  /** When the host accepted it. */
  readonly at: number;
  readonly isRunning: boolean;
  /** Hash of everything in the order except revision and token. */
  readonly shape: string;
}

export interface BootToken {
  readonly revision: number;
  /** SHA-256, hexadecimal. */
  readonly hash: string;
  /** SHA-256 of the service key that is derived from the token, hexadecimal. */
  readonly keyHash: string;
}

/** State of an instance according to its latest report. */
export interface Instance
  extends Pick<
    InstanceReport,
    'revision' | 'startedAt' | 'sequence' | 'isWorker' | 'restarts' | 'failures' | 'steadyAt'
  > {
  /** When its app last ended. The message is only in the timeline, to keep the record small. */
  readonly lastEndAt: number | null;
  readonly phase: InstanceReport['phase'] | 'gone';
  /** When it was last known to be alive; for a gone instance, its end. */
  readonly seenAt: number;
  /** Whether it ended unexpectedly. */
  readonly hasCrashed: boolean;
  /** Last UTC day that is completely metered, such as `2026-11-21`; null before that. */
  readonly meteredDay: string | null;
  /** Whether its whole lifetime is metered; only for gone instances. */
  readonly isMetered: boolean;
}

export const SERVICE_STATES = ['provisioning', 'running', 'paused', 'failed', 'deleting', 'deleted'] as const;
export type ServiceState = (typeof SERVICE_STATES)[number];
export type ServiceHealth = 'healthy' | 'degraded' | 'unhealthy' | 'unknown';

type ServiceEventType =
  | 'deployed'
  | 'running'
  | 'crashed'
  | 'restart_failed'
  | 'crash_loop_warning'
  | 'auto_paused'
  | 'budget_hard_limit_paused'
  | 'paused'
  | 'resumed'
  | 'restarted'
  | 'deploy_failed'
  | 'updated'
  | 'env_updated'
  | 'secrets_updated'
  | 'version_updated'
  | 'version_skipped'
  | 'alert_sent'
  | 'alert_failed'
  | 'deleting'
  | 'deleted';

/** An entry of a service's timeline. */
export interface ServiceEvent {
  readonly id: string;
  readonly type: ServiceEventType;
  readonly message: string;
  readonly createdAt: number;
}
export type NewServiceEvent = Pick<ServiceEvent, 'type' | 'message'>;

/** Returns the names of the secrets without which the service does not start, without duplicates. */
export const requiredNames = ({ requiredSecrets, extraSecrets }: Pick<Service, 'requiredSecrets' | 'extraSecrets'>) => [
  ...new Set([...requiredSecrets, ...extraSecrets]),
];
