import type { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { FieldError } from '#core/manifest/field-error.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import type { RunContinuesError } from '#core/runs/run-continues.ts';
import type { Trace } from '#core/runs/trace/trace.ts';
import type { Spending } from '#core/runs/usage/spending.ts';
import type { Journal } from '../durable/journal.ts';
import type { Waits } from '../durable/waits.ts';
import type { CallInput } from '../input/call-input.ts';
import type { PromptFiles } from '../input/prompt-input.ts';
import type { Skill } from '../skills/skills.ts';
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
  /** Queues a later run of the same agent, and returns its id. Throws what `runOwnLater` throws. */
  readonly later?: (order: OwnLater) => Promise<string>;
  /** For durable runs: what the run did so far, and whether it should leave this process. */
  readonly durable?: DurableWork | undefined;
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
}

/** Result of a run, with either `error` or `data`. Secrets are masked. Programs have no spending. */
export interface EngineResult extends Partial<Spending> {
  readonly data?: Json;
  /** Places where `data` does not match the agent's schema; absent if the engine did not check it. */
  readonly dataProblems?: readonly FieldError[];
  readonly warnings: Warning[];
  readonly error?: PlatformError;
  readonly stdout: string;
  readonly stderr: string;
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
