import type { Config } from '#core/base/config.ts';
import type { BlobLinks, Blobs } from './blobs.ts';
import type { Clock } from './clock.ts';
import type { EndedRun, HostState } from './host-state.ts';
import type { Ids } from './ids.ts';
import type { Llm } from './llm.ts';
import type { Mail } from './mail.ts';
import type { ModelTable } from './model-table.ts';
import type { OperatorKey } from './operator-key.ts';
import type { Outbound } from './outbound.ts';
import type { Payments } from './payments.ts';
import type { RunSignals } from './run-signals.ts';
import type { Sandbox } from './sandbox.ts';
import type { ServiceHost, ServiceLogs } from './service-host.ts';
import type { SignInProvider } from './sign-in-provider.ts';
import type { Space } from './space.ts';
import type { Table } from './table.ts';
import type { Timers } from './timers.ts';
import type { ToolServers } from './tool-servers.ts';
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
  readonly toolServers: ToolServers;
  /** Where sandboxed agents reach the API, which is not always where clients do; no slash at the end. */
  readonly gatewayUrl: string;
  readonly mail: Mail;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /** Absent where the host has tools of its own for it, as AWS has CloudWatch. */
  readonly hostState?: HostState;
  /** Called for every run that ends in this process. @default - no call */
  readonly onRunEnd?: (run: EndedRun) => void;
  /**
   * Work that may outlast the answer. The local host goes on with it and waits for it at shutdown; a Lambda function
   * stops with its answer, so there the returned promise ends only with the work.
   */
  readonly background: (work: Promise<void>) => Promise<void>;
  /**
   * Has an installation done, which takes minutes and may outlast the answer by far. Ends with it, or once another
   * process has it to do.
   */
  readonly startInstall: (job: InstallJob) => Promise<void>;
  /**
   * Has the host brought into line with the records of these services, soon and by the process that may do it. The records
   * alone say what is to be done: a lost call is made up for by the next sweep. Absent where the host keeps no services.
   */
  readonly wakeServices?: (serviceIds: readonly string[]) => Promise<void>;
  /**
   * How streams of events look for news: how often, in milliseconds, and until when at the latest.
   * @default - once a second, until their own time is over
   */
  readonly watching?: { readonly pollMs: number; readonly closing: AbortSignal };
}

/** With what few functions need: the bundles of all others are without it on AWS. */
export interface AllDeps extends Deps {
  readonly payments: Payments;
  readonly operatorKey: OperatorKey;
  /** Absent where the operator has set up none. */
  readonly signInProvider?: SignInProvider;
  readonly timers: Timers;
  /** Absent where the host keeps no services, or another process orders them ({@link Deps.wakeServices}). */
  readonly serviceHost?: ServiceHost;
  /** Absent where the host keeps no services. */
  readonly serviceLogs?: ServiceLogs;
  /** Absent where instances of services read the platform's own blobs. */
  readonly blobLinks?: BlobLinks;
}

/** One JSON line each. Never pass inputs, outputs or headers. */
export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** The installation of a version's dependencies, as its record announces it; small enough for any queue. */
export interface InstallJob {
  readonly versionId: string;
  readonly runId: string;
}
