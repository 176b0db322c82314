import type { Config } from '#core/base/config.ts';
import type { BlobLinks, Blobs } from './blobs.ts';
import type { CardKey } from './card-key.ts';
import type { Clock } from './clock.ts';
import type { OwnFeed } from './feed.ts';
import type { EndedRun, HostState } from './host-state.ts';
import type { IdTokenVerifier } from './id-tokens.ts';
import type { Ids } from './ids.ts';
import type { Llm } from './llm.ts';
import type { Mail } from './mail.ts';
import type { McpEndpoint } from './mcp-endpoint.ts';
import type { ModelTable } from './model-table.ts';
import type { OperatorKey } from './operator-key.ts';
import type { OperatorTelemetry } from './operator-telemetry.ts';
import type { Outbound, OutboundExchanges } from './outbound.ts';
import type { OwnServices } from './own-services.ts';
import type { Payments } from './payments.ts';
import type { ShowQuestion } from './questions.ts';
import type { RunSignals } from './run-signals.ts';
import type { Sandbox } from './sandbox.ts';
import type { BootDocument, ServiceHost, ServiceLogs } from './service-host.ts';
import type { SignInProvider } from './sign-in-provider.ts';
import type { Space } from './space.ts';
import type { Table } from './table.ts';
import type { PushTask } from './task-pushes.ts';
import type { Timers } from './timers.ts';
import type { ToolServers } from './tool-servers.ts';
import type { ToolSignIn } from './tool-sign-in.ts';
import type { UploadForms } from './upload-forms.ts';
import type { Vault } from './vault.ts';

/** Everything the platform needs from its host, built once per process: `local/deps.ts`, `aws/deps.ts`. */
export interface Deps {
  readonly config: Config;
  readonly main: Table;
  readonly runs: Table;
  readonly counters: Table;
  readonly blobs: Blobs;
  readonly space: Space;
  readonly uploadForms: UploadForms;
  readonly vault: Vault;
  readonly sandbox: Sandbox;
  readonly runSignals: RunSignals;
  readonly llm: Llm;
  readonly modelTable: ModelTable;
  readonly outbound: Outbound;
  /** Requests to addresses that models name. */
  readonly exchanges: OutboundExchanges;
  readonly toolServers: ToolServers;
  readonly toolSignIn: ToolSignIn;
  readonly ownServices: OwnServices;
  /** Base URL of the API for sandboxed agents, which may differ from the clients' URL; no slash at the end. */
  readonly gatewayUrl: string;
  readonly mail: Mail;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /** Absent on hosts with their own monitoring, such as CloudWatch on AWS. */
  readonly hostState?: HostState;
  /** Called for every run that ends in this process. @default - no call */
  readonly onRunEnd?: (run: EndedRun) => void;
  /**
   * The ends of runs, whose usage this process sums. Absent where another process does: its sums follow within seconds.
   */
  readonly endedRuns?: OwnFeed;
  /** Absent if the operator has no collector. */
  readonly operatorTelemetry?: OperatorTelemetry | undefined;
  /** Called with the number of runs that wait past their time. @default - no call */
  readonly onRunsOverdue?: (count: number) => void;
  /**
   * Runs work that may outlast the answer. The local host continues it and waits for it at shutdown. A Lambda function
   * is frozen after its answer, so there the returned promise resolves only when the work is done.
   */
  readonly background: (work: Promise<void>) => Promise<void>;
  /**
   * Starts an installation, which takes minutes and may outlast the answer by far. Resolves when it is done, or when
   * another process has accepted it.
   */
  readonly startInstall: (job: InstallJob) => Promise<void>;
  /** How durable runs leave this process. @default - they stay in it until they end */
  readonly handOver?: HandOver;
  /**
   * Takes up a run that waited, or that has got its place in a queue, soon: in this process or another one. Never throws.
   * @default - the next sweep finds the run
   */
  readonly wakeRun?: (job: RunJob) => Promise<void>;
  /** Shows questions of runs to people, in a higher wing. @default - they are only listed */
  readonly showQuestion?: ShowQuestion;
  /** Posts tasks to those who follow them, in a higher wing. @default - nothing is posted */
  readonly pushTask?: PushTask;
  /**
   * Asks for a prompt reconciliation of the host with the records of these services, by the process that is allowed to
   * do it. Calls are hints: the next sweep makes up for a lost one. Absent on hosts without services.
   */
  readonly wakeServices?: (serviceIds: readonly string[]) => Promise<void>;
  /**
   * How event streams poll for news: the interval in milliseconds, and a signal that ends them early.
   * @default - once a second, until their own timeout
   */
  readonly watching?: { readonly pollMs: number; readonly closing: AbortSignal };
}

/** Dependencies that few functions need: on AWS, other bundles omit them. */
export interface AllDeps extends Deps {
  readonly payments: Payments;
  readonly operatorKey: OperatorKey;
  /** Absent if the operator has configured none. */
  readonly signInProvider?: SignInProvider;
  readonly idTokens: IdTokenVerifier;
  /** Absent if the operator does not sign the cards of agents. */
  readonly cardKey?: CardKey | undefined;
  readonly timers: Timers;
  readonly mcp: McpEndpoint;
  /** Absent on hosts without services, and where another process controls them ({@link Deps.wakeServices}). */
  readonly serviceHost?: ServiceHost;
  /** Absent on hosts without services. */
  readonly serviceLogs?: ServiceLogs;
  /** Absent where instances of services read the platform's blobs directly. */
  readonly blobLinks?: BlobLinks;
  /**
   * Returns what an instance needs to start, from a process that may read secrets, for the token of its revision.
   * @default - this process may read them
   */
  readonly askForBoot?: (serviceId: string, token: string) => Promise<BootDocument>;
}

/** One JSON line each. Never pass inputs, outputs or headers. */
export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** How durable runs move from this process to another one (`core/execution/durable`). */
export interface HandOver {
  /** Aborted when the process is about to stop: runs leave it before their next turn. */
  readonly stopping?: AbortSignal;
  /** Aborted when the process stops: runs leave it at once. */
  readonly stopped?: AbortSignal;
  /** Milliseconds after which a run leaves this process before its next turn. @default - it stays */
  readonly afterMs?: number;
  /** The same for a run whose program can work while no process waits for it. @default {@link afterMs} */
  readonly lookAfterMs?: number;
  /**
   * Asks another process to take up a run, soon. Runs whose caller does not wait are then given to it at once.
   * @default - the next sweep finds the run
   */
  readonly startRun?: (job: RunJob) => Promise<void>;
}

/** A durable run that any process may take up. */
export interface RunJob {
  readonly workspaceId: string;
  readonly runId: string;
}

/** Installation of a version's dependencies, as recorded with the version; small enough for any queue. */
export interface InstallJob {
  readonly versionId: string;
  readonly runId: string;
}
