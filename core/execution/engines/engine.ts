import type { MemoryDocument, MemoryStore, MemoryWrite } from '#core/accounts/documents/memory.ts';
import type { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { TraceHeaders } from '#core/base/trace-context.ts';
import type { FieldError } from '#core/manifest/field-error.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import type { RunContinuesError } from '#core/runs/run-continues.ts';
import type { NewState, PastTurn } from '#core/runs/sessions/session.ts';

import type { Trace } from '#core/runs/trace/trace.ts';
import type { Spending } from '#core/runs/usage/spending.ts';
import type { Journal } from '../durable/journal.ts';
import type { Waits } from '../durable/waits.ts';
import type { CallInput } from '../input/call-input.ts';
import type { PromptFiles } from '../input/prompt-input.ts';
import type { Skill } from '../skills/skills.ts';
import type { ProgramSteps } from '../steps/store.ts';
import type { SearchKey } from '../web/search.ts';
import type { Said } from './loop/said.ts';
import type { ProgressEvent } from './progress.ts';

/** A checked and admitted run, as passed to engines. */
export interface EngineRun {
  readonly runId: string;
  /** Workspace that owns the run, provides its secrets and pays for it. */
  readonly workspaceId: string;
  readonly agent: AgentVersion;
  /** Returns the places where a value does not match a schema of the agent, each as text for the model. */
  readonly validate: (schema: Readonly<Record<string, unknown>>, value: Json) => Promise<readonly FieldError[]>;
  /** Fills the command of one of the agent's tools with a model's values; `problem` is for the model. */
  readonly fillCommand: (
    command: string,
    values: Readonly<Record<string, Json>>,
  ) => Promise<{ readonly command: string } | { readonly problem: string }>;
  readonly input: CallInput;
  /** Files of a prompt's call, in addition to the input. */
  readonly promptFiles?: PromptFiles;
  /** Skills in the order in which the model gets them. */
  readonly skills: readonly Skill[];
  /** Models in order of preference; if a provider fails, the next one is used. Empty for programs. */
  readonly models: readonly ModelChoice[];
  /** Whether the agent, or an agent above it in the chain of calls, is in strict mode. */
  readonly isStrict: boolean;
  /** Files for the run's sandbox besides the uploads, such as skills, by absolute path. */
  readonly files: readonly { readonly path: string; readonly content: Uint8Array }[];
  /** Environment of the run's sandbox: secrets and the platform's variables. */
  readonly env: Readonly<Record<string, string>>;
  /** The part of {@link env} that belongs to this run alone, such as its key. @default - nothing */
  readonly ownEnv?: Readonly<Record<string, string>>;
  readonly mask: SecretMask;
  /** Epoch milliseconds by which engines end with TIMEOUT. */
  readonly deadline: number;
  /** Key that runs of an agent must share to reuse a sandbox (`SandboxSpec.kind`). */
  readonly kind?: () => Promise<unknown>;
  /** Whether the run may use a cheaper sandbox that the host may reclaim (`SandboxSpec`). */
  readonly isInterruptible?: boolean;
  /** Whether another run waits for this one: its sandbox then bypasses the queue. */
  readonly isSubCall?: boolean;
  /** Aborted with a RUN_CANCELLED error when the run is cancelled. Engines pass it to everything they wait for. */
  readonly signal: AbortSignal;
  /** Sends an event to clients that watch the run, with secrets masked. */
  readonly emit: (event: ProgressEvent) => void;
  /** Whether a client watches the run: otherwise a prompt is answered without streaming, which costs less. */
  readonly isWatched?: boolean;
  readonly trace: Trace;
  /**
   * Returns headers for requests that the run sends, which name its span or, given its number, a part of it. Absent if
   * neither the caller nor the workspace takes part in tracing.
   */
  readonly traceHeaders?: ((part?: number) => TraceHeaders) | undefined;
  /** Queues a later run of the same agent, and returns its id. Throws what `runOwnLater` throws. */
  readonly later?: (order: OwnLater) => Promise<string>;
  /** Counts a call of an agent of others as a sub-call. Throws what `countRemoteCall` throws. */
  readonly countRemote?: (name: string) => Promise<void>;
  /** The workspace's key for searches of the web. */
  readonly search?: SearchKey | undefined;
  /**
   * Returns the memory that the run may use. Throws FORBIDDEN if agents of other workspaces in its chain were not granted it.
   */
  readonly memory?: () => Promise<RunMemory>;
  /** For durable runs: what the run did so far, and whether it should leave this process. */
  readonly durable?: DurableWork | undefined;
  /** For a run of a session: what came before it. */
  readonly session?: SessionOfRun | undefined;
}

/** What the run of a session is given. */
export interface SessionOfRun {
  readonly id: string;
  /** Number of the run's turn, from 1. */
  readonly number: number;
  /** Completed turns before it, the oldest first; empty for programs. */
  readonly turns: readonly PastTurn[];
  /** Number of turns before these that are left out, because the model would get too much text. */
  readonly leftOut: number;
  /** For loops: what was said until the end of the turn `after`. @default - nothing is known but the turns */
  readonly conversation?: (Said & { readonly after: number }) | undefined;
  /** Files that its runs share, for an agent whose manifest has `workspace`. */
  readonly workspace?: SessionWorkspace | undefined;
  /** Messages that a loop takes while it works, if the session lets it. */
  readonly steering?: Steering | undefined;
  /** Stores what the result gives to the next message. It counts once the end of the run is recorded. */
  keep?(result: Pick<EngineResult, 'conversation' | 'files'>): Promise<NewState | undefined>;
}

export interface SessionWorkspace {
  /** Maximum size of a snapshot. */
  readonly maxBytes: number;
  /**
   * Reads the snapshot, and whether it was taken in a sandbox with another bundle; `undefined` if there is none. Throws
   * INTERNAL_ERROR if it is damaged or missing.
   */
  read(): Promise<{ readonly content: Uint8Array; readonly isOtherBundle: boolean } | undefined>;
}

/** Messages that came for a run under way. Each is taken once, or becomes the session's next message. */
export interface Steering {
  /** Returns the texts that were not taken, and the number of the last of them; `undefined` if there are none. */
  waiting(): Promise<{ readonly texts: readonly string[]; readonly upTo: number } | undefined>;
  /** Records that all texts up to this number were taken. Safe to repeat. */
  take(upTo: number): Promise<void>;
}

/** The memory of a run, which writes in the name of its agent. */
export interface RunMemory extends Pick<MemoryStore, 'list' | 'get' | 'delete'> {
  /** Throws what `MemoryStore.write` throws. */
  write(name: string, write: Pick<MemoryWrite, 'text' | 'expectedVersion' | 'requestId'>): Promise<MemoryDocument>;
}

/** A later run of its own agent that a run asks for. */
export interface OwnLater {
  readonly input: { readonly [member: string]: Json };
  /** Epoch milliseconds. */
  readonly runAt: number;
  /** The same whenever the same request is made again, so that it has one run. @default - each request has its own */
  readonly requestId?: string | undefined;
}

/** What an engine needs of a durable run. */
export interface DurableWork {
  readonly journal: Journal;
  /** Whether the run should leave this process before its next turn. */
  mustLeave(hasProgressed: boolean): boolean;
  /** When another process should look at a program that works by itself, if this one should leave it. Epoch milliseconds. */
  nextLook(): number | undefined;
  /** Maximum size of the files that move with the run to another sandbox. */
  readonly snapshotBytes: number;
  /** The calls of tools that wait for people, time or events. */
  waits(): Promise<Waits>;
  /** What the program did before; `undefined` if it does no steps. */
  steps(): Promise<ProgramSteps | undefined>;
}

/** Result of a run, with either `error` or `data`. Secrets are masked. Programs have no spending. */
export interface EngineResult extends Partial<Spending> {
  readonly data?: Json;
  /** Places where `data` does not match the agent's schema; absent if the engine did not check it. */
  readonly dataProblems?: readonly FieldError[];
  /** For a prompt in a session: its message to the model, masked. */
  readonly said?: string;
  readonly warnings: Warning[];
  readonly error?: PlatformError;
  readonly stdout: string;
  readonly stderr: string;
  /** For a loop in a session: what was said, for the next message. */
  readonly conversation?: Said | undefined;
  /** What the session gives to its next message, stored. */
  readonly state?: NewState;
  /** The files in `/home/user`, as a snapshot, if they have changed and the session keeps them. */
  readonly files?: Uint8Array;
  /** Exit code of the program; null for other engines. */
  readonly exitCode: number | null;
  readonly executionMs: number;
  /** Set if the run has not ended and continues in another process. */
  readonly continues?: Pick<RunContinuesError, 'departure' | 'until'>;
}

/** A note in the answer of a successful call. */
export interface Warning {
  readonly code: 'LOW_CONFIDENCE' | 'TRUNCATED' | 'DEPRECATED_FIELD' | 'VALIDATION_SKIPPED';
  readonly field?: string;
  readonly message: string;
}
