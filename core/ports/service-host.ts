import type { Egress, SandboxLimits } from './sandbox.ts';

/**
 * Keeps the processes of always-on services running (`docs/interface/services.md`).
 *
 * `core/services` decides and keeps the records; a host does what it is told and reports what happened. A host knows no
 * rule: it counts no failures, pauses nothing by itself and sends no alerts.
 *
 * **Calls.** Each is safe to repeat, and ends once the host has accepted the order, not once the instances are ready. A
 * call for an older revision than the host has already is ignored. Throws {@link ServiceHostError}; any other error counts
 * as temporary, and the call is made again.
 *
 * **Reports.** A host hands {@link ServiceReport}s to the listener that it was built with, which is
 * `core/services/reports.ts`. Reports may be lost, doubled, late and in any order: an instance's report holds everything
 * about it up to then, and `list` is compared with the records each minute. A listener that throws is called again with
 * the same reports, by the host's own queue or at its next report.
 *
 * **Instances.** An instance is one runner in service mode with one app (`runner/service`). The runner starts the app
 * again after a crash; a host starts another instance, with an id of its own, when a runner itself has ended
 * without being told to. While the service is to run, the host keeps `minInstances` (to `maxInstances`, where it scales).
 *
 * **Tokens.** The order of a revision has the token with which its instances get their boot document
 * ({@link BootDocument}). A repeated order of the same revision may have another token; both are good, and the host may
 * keep either.
 */
export interface ServiceHost extends ServiceLogs {
  /** Makes the service and starts its instances. If the host has it already, the same as {@link update}. */
  deploy(order: ServiceOrder): Promise<void>;
  /**
   * Replaces all instances by instances of the order's revision, and takes over its numbers. With `overlap`, old
   * instances serve until as many new ones are ready; without it, they have ended before new ones start. A service that
   * the host has no more, such as after a restart of the platform, is made again.
   */
  update(order: ServiceOrder): Promise<void>;
  /** {@link update} of a service of which nothing but revision and token has changed. */
  restart(order: ServiceOrder): Promise<void>;
  /** Ends all instances (SIGTERM, then SIGKILL after the grace period). The address stays reserved. */
  pause(service: ServiceRef): Promise<void>;
  /** {@link update} of a paused service. */
  resume(order: ServiceOrder): Promise<void>;
  /** Ends all instances and deletes everything of the service, its logs included. A service that is not there is none. */
  remove(service: ServiceRef): Promise<void>;
  /**
   * The public address without a slash at the end, such as `https://bot-1a2b3c.services.example.com`; `undefined` while
   * the host has not assigned one. It never changes between {@link deploy} and {@link remove}.
   */
  address(service: ServiceRef): Promise<string | undefined>;
  /**
   * Everything that the host has, of all workspaces, for the comparison with the records. A host that has lost its
   * services has none: they are then ordered again, some at a time.
   */
  list(): AsyncIterable<HostedService>;
}

/** The part of a host that functions without further rights have. */
export interface ServiceLogs {
  /** A page of the log, oldest line first. A service without a line has none; that is no error. */
  logs(service: ServiceRef, query: ServiceLogQuery): Promise<ServiceLogLine[]>;
}

/** Where the gateway of an instance listens, in the instance: its app cannot. */
export const GATEWAY_PORT = 8080;

/** A service, by what never changes about it. */
export interface ServiceRef {
  /** A UUID. Hosts name what they make by it, never by names that users chose. */
  readonly id: string;
  readonly workspaceId: string;
  /** Leftmost part of its host name: lower-case letters, digits and hyphens, at most 50, unique on the platform. */
  readonly label: string;
}

/** How the service is to be from now on. */
export interface ServiceOrder extends ServiceRef {
  /** Rises with every change that needs new instances. */
  readonly revision: number;
  /** Opens the boot document of this revision and takes its reports, and nothing else. */
  readonly token: string;
  /** At least 1. */
  readonly minInstances: number;
  readonly maxInstances: number;
  /** `false`: no two instances of different revisions at the same moment. */
  readonly overlap: boolean;
  readonly limits: ServiceLimits;
}

/** Of one instance. Services have no limit of processor time. */
export type ServiceLimits = Omit<SandboxLimits, 'cpuSeconds'>;

/**
 * What an instance needs to start its app. It is asked for at every start of an instance and is never stored by a host:
 * it has the values of secrets. A refusal is a failed start, with the error's message: the token is no longer good
 * (`UNAUTHORIZED`, which ends the instance), or the app cannot start as things are (such as `MISSING_SECRETS`).
 */
export interface BootDocument {
  readonly serviceId: string;
  readonly workspaceId: string;
  readonly revision: number;
  /** `org/agent@v1`. */
  readonly agent: string;
  readonly app: ServiceApp;
  /** Plain variables of the deploy, `PORT`, `PLATFORM_HTTP_PORT`, `PLATFORM_HEALTH_PORT` and the platform's own. */
  readonly env: Readonly<Record<string, string>>;
  /** Further variables, whose values are masked in logs and reports. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Where the app listens, inside the instance. Same as `PORT`. */
  readonly port: number;
  /** Absent for a loop, which has none. */
  readonly bundle?: BootBlob;
  readonly layer?: BootBlob;
  readonly egress: Egress;
  readonly limits: ServiceLimits;
}

/**
 * What an instance runs, in the bundle's folder (`docs/interface/service-instances.md#entrypoint`):
 *
 * - `argv`: a program with its arguments, without a shell
 * - `shell`: a line for `bash -c`
 * - `loop`: no program, and so no place to run in. The gateway passes each `POST` on as a call of the agent
 */
export type ServiceApp =
  | { readonly kind: 'argv'; readonly argv: readonly string[] }
  | { readonly kind: 'shell'; readonly line: string }
  | { readonly kind: 'loop'; readonly inputSchema: Readonly<Record<string, unknown>> | null };

/** A blob to unpack. `url` is a link of some minutes, for instances that do not share the platform's blob store. */
export interface BootBlob {
  readonly key: string;
  /** Hex. Absent for blobs of version 0.1.0. */
  readonly sha256?: string;
  readonly url?: string;
}

/** All times are epoch milliseconds. */
export type ServiceReport = InstanceReport | InstanceEnd | RevisionFailure;

/**
 * How an instance is, by its runner: at each change, and every 60 seconds. Sums and counts cover the instance's whole
 * life, so the newest report makes all earlier ones superfluous.
 */
export interface InstanceReport {
  readonly type: 'instance';
  readonly serviceId: string;
  /** Unique for ever: a UUID, or the host's own id of a task. */
  readonly instanceId: string;
  readonly revision: number;
  /** From 1, one more with each report of this instance. Of two reports, the one with the greater number is right. */
  readonly sequence: number;
  readonly at: number;
  /** When the host started the instance. */
  readonly startedAt: number;
  /**
   * - `starting`: the app's process runs and does not listen yet
   * - `ready`: it listens on its port, or has shown that it needs none (`isWorker`)
   * - `waiting`: it has ended, and is started again after a pause
   * - `stopping`: the host told the runner to end
   */
  readonly phase: 'starting' | 'ready' | 'waiting' | 'stopping';
  /** Ready without listening: a process that only connects to others. */
  readonly isWorker: boolean;
  /** How often the app was started again. */
  readonly restarts: number;
  /** Starts in a row that failed: the app ended before it was ready for 60 seconds. Those 60 seconds make it 0. */
  readonly failures: number;
  /** When the app was last ready for 60 seconds on end; null before. */
  readonly steadyAt: number | null;
  /** The app's last end; null before. Masked, at most 2,000 characters. */
  readonly lastEnd: { readonly at: number; readonly exitCode: number; readonly message: string } | null;
}

/** An instance is gone, and never comes back. Told by the host. */
export interface InstanceEnd {
  readonly type: 'ended';
  readonly serviceId: string;
  readonly instanceId: string;
  readonly revision: number;
  readonly startedAt: number;
  /** When it ended; if the host does not know, when it was last seen. */
  readonly at: number;
  /**
   * - `stopped`: by an order, or because the host moved or replaced it; no failure
   * - `crashed`: the runner itself ended, such as for lack of memory; one failed restart more
   */
  readonly reason: 'stopped' | 'crashed';
  /** For users; for `crashed`, why. At most 2,000 characters. */
  readonly message: string;
}

/** The host cannot start instances of this revision, and will not try again. */
export interface RevisionFailure {
  readonly type: 'failed';
  readonly serviceId: string;
  readonly revision: number;
  readonly at: number;
  /** For users, at most 2,000 characters. */
  readonly message: string;
}

/** What the host has of a service at this moment. */
export interface HostedService {
  readonly serviceId: string;
  readonly workspaceId: string;
  /** Of the newest order that it follows. */
  readonly revision: number;
  readonly isPaused: boolean;
  /** Instances that are not gone. One that is missing here and known to the records has ended. */
  readonly instances: readonly HostedInstance[];
  /** What else the host still knows, and may have told in vain: ends of instances, and why it starts none. */
  readonly reports?: readonly (InstanceEnd | RevisionFailure)[];
}

export interface HostedInstance {
  readonly instanceId: string;
  readonly revision: number;
  /** Null while the host prepares it: it has no time yet that counts. */
  readonly startedAt: number | null;
  /** The runner's newest report, where the host has it. */
  readonly report?: InstanceReport;
}

export const LOG_SEVERITIES = ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'] as const;
export type LogSeverity = (typeof LOG_SEVERITIES)[number];

export interface ServiceLogQuery {
  /** 1 to 500. Of more lines, the newest. */
  readonly limit: number;
  /** Only lines of this moment and later. */
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
  /** Who wrote it. Absent where nobody can tell: in lines of older versions, and in what is no line of the runner. */
  readonly source?: LogSource | undefined;
}

export const LOG_SOURCES = ['app', 'platform'] as const;
export type LogSource = (typeof LOG_SOURCES)[number];

/** A refused order. */
export class ServiceHostError extends Error {
  readonly code = 'SERVICE_HOST';
  /** Whether the same order would be refused again. */
  readonly isFinal: boolean;

  /** @param message the reason and the remedy, fit to be shown to a user */
  constructor(message: string, { isFinal }: { readonly isFinal: boolean }) {
    super(message);
    this.name = 'ServiceHostError';
    this.isFinal = isFinal;
  }
}
