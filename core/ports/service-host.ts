import type { Egress, EgressTargets, SandboxLimits } from './sandbox.ts';

/**
 * Keeps the processes of always-on services running (`docs/interface/services.md`).
 *
 * `core/services` decides and stores the records; a host follows orders and reports events. A host has no
 * policy: it counts no failures, pauses nothing on its own and sends no alerts.
 *
 * **Calls.** Each is idempotent, and resolves once the host has accepted the order, not once the instances are ready. A
 * call with an older revision than the host's is ignored. Throws {@link ServiceHostError}; any other error counts
 * as temporary, and the call is repeated.
 *
 * **Reports.** A host passes {@link ServiceReport}s to the listener that it was built with, which is
 * `core/services/reports.ts`. Reports may be lost, duplicated, late and out of order: a report contains the complete
 * state of its instance so far, and `list` is compared with the records each minute. A listener that throws is called
 * again with the same reports, by the host's own queue or at its next report.
 *
 * **Instances.** An instance is one runner in service mode with one app (`runner/service`). The runner restarts the app
 * after a crash; if a runner itself ends without an order, the host starts another instance with a new
 * id. While the service is running, the host keeps `minInstances` instances (up to `maxInstances`, if it scales).
 *
 * **Tokens.** The order of a revision contains the token with which its instances fetch their boot document ({@link
 * BootDocument}). A repeated order of the same revision may have another token; both are valid, and the host may keep
 * either.
 */
export interface ServiceHost extends ServiceLogs {
  /** Creates the service and starts its instances. If it exists already, this is the same as {@link update}. */
  deploy(order: ServiceOrder): Promise<void>;
  /**
   * Replaces all instances with instances of the order's revision, and applies its instance counts. With `overlap`, old
   * instances serve until the same number of new ones is ready; without it, they have ended before new ones start. A
   * service that the host has lost, such as after a restart of the platform, is created again.
   */
  update(order: ServiceOrder): Promise<void>;
  /** Updates a service of which only revision and token have changed, like {@link update}. */
  restart(order: ServiceOrder): Promise<void>;
  /** Ends all instances (SIGTERM, then SIGKILL after the grace period). The address stays reserved. */
  pause(service: ServiceRef): Promise<void>;
  /** Updates a paused service, like {@link update}. */
  resume(order: ServiceOrder): Promise<void>;
  /**
   * Ends all instances and deletes all data of the service, including its logs. A no-op if the service does not exist.
   */
  remove(service: ServiceRef): Promise<void>;
  /**
   * Returns the public address without a slash at the end, such as `https://bot-1a2b3c.services.example.com`;
   * `undefined` while the host has not assigned one. It never changes between {@link deploy} and {@link remove}.
   */
  address(service: ServiceRef): Promise<string | undefined>;
  /**
   * Lists all services of the host, of all workspaces, to compare them with the records. Services that a host has lost
   * are missing and are ordered again gradually.
   */
  list(): AsyncIterable<HostedService>;
}

/** The part of a host that functions need to read logs, without further privileges. */
export interface ServiceLogs {
  /** Returns a page of the log, oldest line first. It is empty if the service has not logged anything. */
  logs(service: ServiceRef, query: ServiceLogQuery): Promise<ServiceLogLine[]>;
}

/** Port of the gateway inside an instance; the app cannot listen on it. */
export const GATEWAY_PORT = 8080;

/** The immutable identity of a service. */
export interface ServiceRef {
  /** A UUID. Hosts name their resources by it, never by names that users chose. */
  readonly id: string;
  readonly workspaceId: string;
  /** First label of its host name: lower-case letters, digits and hyphens, at most 50, unique on the platform. */
  readonly label: string;
}

/** Desired state of a service. */
export interface ServiceOrder extends ServiceRef {
  /** Increases with every change that requires new instances. */
  readonly revision: number;
  /** Authorizes reading the boot document of this revision and sending its reports, and nothing else. */
  readonly token: string;
  /** At least 1. */
  readonly minInstances: number;
  readonly maxInstances: number;
  /** `false`: instances of different revisions never run at the same time. */
  readonly overlap: boolean;
  readonly limits: ServiceLimits;
}

/** Limits of one instance. Services have no CPU limit. */
export type ServiceLimits = Omit<SandboxLimits, 'cpuSeconds'>;

/**
 * What an instance needs to start its app. It is fetched at every start and never stored by a host, because it contains
 * the values of secrets. A refusal is a failed start with the error's message: the token is no longer valid
 * (`UNAUTHORIZED`, which ends the instance), or the app cannot start at present (such as `MISSING_SECRETS`).
 */
export interface BootDocument {
  readonly serviceId: string;
  readonly workspaceId: string;
  readonly revision: number;
  /** `org/agent@v1`. */
  readonly agent: string;
  readonly app: ServiceApp;
  /** Plain variables of the deployment, `PORT`, `PLATFORM_HTTP_PORT`, `PLATFORM_HEALTH_PORT` and the platform's own. */
  readonly env: Readonly<Record<string, string>>;
  /** Further variables, whose values are masked in logs and reports. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Port on which the app listens inside the instance; the same as `PORT`. */
  readonly port: number;
  /** Absent for a loop, which has no bundle. */
  readonly bundle?: BootBlob;
  readonly layer?: BootBlob;
  readonly egress: Egress;
  readonly egressTargets?: EgressTargets;
  readonly limits: ServiceLimits;
}

/**
 * What an instance runs, in the bundle's folder (`docs/interface/service-instances.md#entrypoint`):
 *
 * - `argv`: a program with its arguments, without a shell
 * - `shell`: a line for `bash -c`
 * - `loop`: no program, and so no sandbox. The gateway forwards each `POST` as a call of the agent
 */
export type ServiceApp =
  | { readonly kind: 'argv'; readonly argv: readonly string[] }
  | { readonly kind: 'shell'; readonly line: string }
  | { readonly kind: 'loop'; readonly inputSchema: Readonly<Record<string, unknown>> | null };

/** A blob to unpack. `url` is valid for some minutes, for instances that do not share the platform's blob store. */
export interface BootBlob {
  readonly key: string;
  /** Hex. Absent for blobs of version 0.1.0. */
  readonly sha256?: string;
  readonly url?: string;
}

/** All times are epoch milliseconds. */
export type ServiceReport = InstanceReport | InstanceEnd | RevisionFailure;

/**
 * State of an instance, from its runner: after each change, and every 60 seconds. Totals and counts cover the lifetime
 * of the instance, so the latest report replaces all earlier ones.
 */
export interface InstanceReport {
  readonly type: 'instance';
  readonly serviceId: string;
  /** Globally unique and never reused: a UUID, or the host's id of a task. */
  readonly instanceId: string;
  readonly revision: number;
  /** Starts at 1 and increases with each report of this instance. The report with the greater number wins. */
  readonly sequence: number;
  readonly at: number;
  /** When the host started the instance. */
  readonly startedAt: number;
  /**
   * - `starting`: the app's process runs and does not listen yet
   * - `ready`: it listens on its port, or has proved that it does not listen (`isWorker`)
   * - `waiting`: it has ended, and is restarted after a pause
   * - `stopping`: the host told the runner to end
   */
  readonly phase: 'starting' | 'ready' | 'waiting' | 'stopping';
  /** Whether it is ready without listening: a process that only makes outgoing connections. */
  readonly isWorker: boolean;
  /** Number of restarts of the app. */
  readonly restarts: number;
  /**
   * Consecutive failed starts: the app ended before it was ready for 60 seconds. Being ready for 60 seconds resets it
   * to 0.
   */
  readonly failures: number;
  /** When the app was last ready for 60 seconds without interruption; null before. */
  readonly steadyAt: number | null;
  /** The most recent end of the app; null before the first. Masked, at most 2,000 characters. */
  readonly lastEnd: { readonly at: number; readonly exitCode: number; readonly message: string } | null;
}

/** An instance has ended for good. Reported by the host. */
export interface InstanceEnd {
  readonly type: 'ended';
  readonly serviceId: string;
  readonly instanceId: string;
  readonly revision: number;
  readonly startedAt: number;
  /** When it ended; if unknown, when it was last seen. */
  readonly at: number;
  /**
   * - `stopped`: by an order, or because the host moved or replaced it; not a failure
   * - `crashed`: the runner itself ended, such as for lack of memory; counts as a failed restart
   */
  readonly reason: 'stopped' | 'crashed';
  /** Message for users; for `crashed`, the cause. At most 2,000 characters. */
  readonly message: string;
}

/** The host cannot start instances of this revision and does not retry. */
export interface RevisionFailure {
  readonly type: 'failed';
  readonly serviceId: string;
  readonly revision: number;
  readonly at: number;
  /** Message for users, at most 2,000 characters. */
  readonly message: string;
}

/** Current state of a service on the host. */
export interface HostedService {
  readonly serviceId: string;
  readonly workspaceId: string;
  /** Revision of the latest order that the host accepted. */
  readonly revision: number;
  readonly isPaused: boolean;
  /** Instances that have not ended. A recorded instance that is missing here has ended. */
  readonly instances: readonly HostedInstance[];
  /** Reports that may have been lost: ends of instances, and why the host starts none. */
  readonly reports?: readonly (InstanceEnd | RevisionFailure)[];
}

export interface HostedInstance {
  readonly instanceId: string;
  readonly revision: number;
  /** Null while the host prepares it: its billable time has not begun. */
  readonly startedAt: number | null;
  /** The runner's latest report, if the host has one. */
  readonly report?: InstanceReport;
}

export const LOG_SEVERITIES = ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'] as const;
export type LogSeverity = (typeof LOG_SEVERITIES)[number];

export interface ServiceLogQuery {
  /** Maximum number of lines, 1 to 500. If there are more, the latest are returned. */
  readonly limit: number;
  /** Only lines from this time on, in epoch milliseconds. */
  readonly since?: number;
  /** Only lines of this severity and above. */
  readonly severity?: LogSeverity;
}

/** Masked already. */
export interface ServiceLogLine {
  readonly at: number;
  readonly severity: LogSeverity;
  /** At most 16 KB. */
  readonly message: string;
  /** Writer of the line. Absent if unknown: in lines of older versions, and in lines that the runner did not write. */
  readonly source?: LogSource | undefined;
}

export const LOG_SOURCES = ['app', 'platform'] as const;
export type LogSource = (typeof LOG_SOURCES)[number];

/** The host refused an order. */
export class ServiceHostError extends Error {
  readonly code = 'SERVICE_HOST';
  /** Whether the same order would be refused again. */
  readonly isFinal: boolean;

  /** @param message the cause and the fix, in words for users */
  constructor(message: string, { isFinal }: { readonly isFinal: boolean }) {
    super(message);
    this.name = 'ServiceHostError';
    this.isFinal = isFinal;
  }
}
