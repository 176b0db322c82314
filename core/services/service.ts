import type { InstanceReport } from '#core/ports/service-host.ts';

/**
 * An agent whose process is kept running. Times are epoch milliseconds. The record says how the service is to be; the host
 * is told by `apply.ts`, and tells how it is by reports (`core/ports/service-host.ts`).
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
  /** The agent began with this version. */
  readonly agentFirstVersion: number;
  /** A program if there are `args`, else a shell line; null: the agent's own command. */
  readonly command: string | null;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Names of secrets that the agent version requires. */
  readonly requiredSecrets: readonly string[];
  /** Names of secrets that the agent version gets if the workspace has them. */
  readonly optionalSecrets: readonly string[];
  /** Names of secrets that an owner of the workspace added. */
  readonly extraSecrets: readonly string[];
  readonly minInstances: number;
  readonly maxInstances: number;
  /** Whether old instances serve until new ones are ready. */
  readonly overlap: boolean;
  /** Whether it follows new versions of its agent. */
  readonly autoUpdate: boolean;
  readonly alertWebhookUrl: string | null;
  readonly maxRestartFailures: number;

  readonly desired: 'running' | 'stopped' | 'deleted';
  /** One more with each change that the host must be told. */
  readonly revision: number;
  /** The newest order that the host has accepted. */
  readonly applied: Applied | null;
  /** Lease of the process that is giving the host an order; `until` in epoch milliseconds. */
  readonly applying: { readonly by: string; readonly until: number } | null;
  /** Tokens of orders whose instances may still boot, newest last. */
  readonly tokens: readonly BootToken[];
  /** The revision that the host cannot run, and why. */
  readonly refusal: { readonly revision: number; readonly message: string } | null;
  readonly address: string | null;

  /** By id: those that are not gone, and for an hour those that are, so that a late report revives none. */
  readonly instances: { readonly [id: string]: Instance };
  /** Whether an instance was ever ready. */
  readonly hasRun: boolean;
  /** The newest revision that was ready. */
  readonly readyRevision: number;
  /** Failed restarts count from this revision on. */
  readonly countedFrom: number;
  /** Failed restarts in a row; keeps its value while the service is stopped. */
  readonly consecutiveFailures: number;
  /** Whether this row of failures has had its warning. */
  readonly isWarned: boolean;
  /** Restarts on request, and those of instances that are no longer in {@link instances}. */
  readonly pastRestarts: number;

  readonly lastError: { readonly at: number; readonly message: string } | null;
  readonly lastRestartAt: number | null;
  readonly lastDeployedAt: number;
  readonly autoPausedAt: number | null;
  readonly createdBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The newest order that the host accepted. */
export interface Applied {
  readonly revision: number;
  /** When the host accepted it. */
  readonly at: number;
  readonly isRunning: boolean;
  /** Hash of everything in the order but revision and token. */
  readonly shape: string;
}

export interface BootToken {
  readonly revision: number;
  /** SHA-256, hexadecimal. */
  readonly hash: string;
  /** SHA-256 of the service key that is derived from the token, hexadecimal. */
  readonly keyHash: string;
}

/** An instance by its newest report. */
export interface Instance
  extends Pick<
    InstanceReport,
    'revision' | 'startedAt' | 'sequence' | 'isWorker' | 'restarts' | 'failures' | 'steadyAt'
  > {
  /** When its app ended last. Its words are in the timeline: a record has room for many instances. */
  readonly lastEndAt: number | null;
  readonly phase: InstanceReport['phase'] | 'gone';
  /** When it was last known to be alive; for one that is gone, its end. */
  readonly seenAt: number;
  /** Whether it ended without being told to. */
  readonly hasCrashed: boolean;
  /** The last UTC day that is in the usage completely, such as `2026-11-21`; null before. */
  readonly meteredDay: string | null;
  /** Whether its whole life is in the usage; only for one that is gone. */
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

/** Secrets without which the service does not start, each once. */
export const requiredNames = ({ requiredSecrets, extraSecrets }: Pick<Service, 'requiredSecrets' | 'extraSecrets'>) => [
  ...new Set([...requiredSecrets, ...extraSecrets]),
];
