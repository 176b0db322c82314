import type { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { FieldError } from '#core/manifest/field-error.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import type { Trace } from '#core/runs/trace/trace.ts';
import type { Spending } from '#core/runs/usage/spending.ts';
import type { CallInput } from '../input/call-input.ts';
import type { PromptFiles } from '../input/prompt-input.ts';
import type { Skill } from '../skills/skills.ts';
import type { ProgressEvent } from './progress.ts';

/** One run, checked and admitted, as engines get it. */
export interface EngineRun {
  readonly runId: string;
  /** Owns the run, provides its secrets and pays for it. */
  readonly workspaceId: string;
  readonly agent: AgentVersion;
  /** Places where a value does not match a schema of the agent, each as text for the model. */
  readonly validate: (schema: Readonly<Record<string, unknown>>, value: Json) => Promise<readonly FieldError[]>;
  /** The command of a tool of the agent with a model's values; `problem` is for the model. */
  readonly fillCommand: (
    command: string,
    values: Readonly<Record<string, Json>>,
  ) => Promise<{ readonly command: string } | { readonly problem: string }>;
  readonly input: CallInput;
  /** What a prompt gets of the files of its call beside the input. */
  readonly promptFiles?: PromptFiles;
  /** In the order in which the model gets them. */
  readonly skills: readonly Skill[];
  /** Models in order of preference; the next one is for the case that a provider fails. Empty for programs. */
  readonly models: readonly ModelChoice[];
  /** Whether the agent, or one above it in the chain of calls, is in strict mode. */
  readonly isStrict: boolean;
  /** Files for the run's sandbox besides the uploads, such as skills, by absolute path. */
  readonly files: readonly { readonly path: string; readonly content: Uint8Array }[];
  /** Environment of the run's sandbox: secrets and the platform's variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly mask: SecretMask;
  /** Epoch milliseconds. Engines end with TIMEOUT by then. */
  readonly deadline: number;
  /** What runs must have in common beside their agent to use one sandbox after another (`SandboxSpec.kind`). */
  readonly kind?: () => Promise<unknown>;
  /** Whether it may have a sandbox that the host takes away when it needs the place, and that costs less (`SandboxSpec`). */
  readonly isInterruptible?: boolean;
  /** Whether another run waits for this one: then its sandbox takes no turn. */
  readonly isSubCall?: boolean;
  /** Aborted with a RUN_CANCELLED error when the run is cancelled. Engines pass it on to everything they wait for. */
  readonly signal: AbortSignal;
  /** Sends an event to the client that watches the run. Secrets in it are masked on the way. */
  readonly emit: (event: ProgressEvent) => void;
  /** Whether a client watches: otherwise the model answers a prompt without streaming, which costs less. */
  readonly isWatched?: boolean;
  readonly trace: Trace;
}

/** How a run ended: with `error` or with `data`. Secrets are masked. Programs spend nothing. */
export interface EngineResult extends Partial<Spending> {
  readonly data?: Json;
  /** Places where `data` does not match the agent's schema, if the engine has checked it. */
  readonly dataProblems?: readonly FieldError[];
  readonly warnings: Warning[];
  readonly error?: PlatformError;
  readonly stdout: string;
  readonly stderr: string;
  /** Exit code of the program; null for other engines. */
  readonly exitCode: number | null;
  readonly executionMs: number;
}

/** A note in the answer of a successful call. */
export interface Warning {
  readonly code: 'LOW_CONFIDENCE' | 'TRUNCATED' | 'DEPRECATED_FIELD' | 'VALIDATION_SKIPPED';
  readonly field?: string;
  readonly message: string;
}
