import type { AgentVersion } from '#core/agents/version.ts';
import type { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import type { SecretMask } from '#core/runs/masking.ts';
import type { Trace } from '#core/runs/trace.ts';
import type { CallInput } from '../input/call-input.ts';
import type { Skill } from '../skills/skills.ts';
import type { ProgressEvent, TokenUsage } from './progress.ts';

/** What an engine is given: one run, checked and allowed. */
export interface EngineRun {
  readonly runId: string;
  /** The workspace that the run, its secrets and its costs belong to. */
  readonly workspaceId: string;
  readonly agent: AgentVersion;
  readonly input: CallInput;
  /** In the order in which they are to be given to the model. */
  readonly skills: readonly Skill[];
  /** Models to use, the first one unless its provider refuses; empty for engines that need none. */
  readonly models: readonly ModelChoice[];
  /** Whether the agent must orchestrate strictly: its own mode, or that of an agent above it. */
  readonly isStrict: boolean;
  /** To be written into the run's sandbox beside the uploads, such as the texts of skills; absolute paths. */
  readonly files: readonly { readonly path: string; readonly content: Uint8Array }[];
  /** The environment of the run's sandbox: secrets and the platform's variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly mask: SecretMask;
  /** Epoch milliseconds. Engines end by then, with TIMEOUT. */
  readonly deadline: number;
  /** Whether another run waits for this one: then its sandbox must not wait for others to end. */
  readonly isSubCall?: boolean;
  /** Aborted with a RUN_CANCELLED error when the run is cancelled. Engines pass it on to whatever they wait for. */
  readonly signal: AbortSignal;
  /** Shows what happens to whoever watches the run. The pipeline masks secrets in it. */
  readonly emit: (event: ProgressEvent) => void;
  /** Whether anybody does: a model whose words nobody follows answers at once, which costs less. */
  readonly isWatched?: boolean;
  readonly trace: Trace;
}

/** What came of a run. `error` or `data`; everything masked. */
export interface EngineResult {
  readonly data?: Json;
  readonly warnings: Warning[];
  readonly error?: PlatformError;
  readonly stdout: string;
  readonly stderr: string;
  /** Of the program; null for engines that run none. */
  readonly exitCode: number | null;
  readonly executionMs: number;
  /** Of all turns together, also of a run that failed; absent for engines without a model. */
  readonly usage?: TokenUsage;
  /** What the tokens were spent on. */
  readonly model?: Pick<ModelChoice, 'provider' | 'model'>;
  /** What the provider charges for them; absent where a price is not known. */
  readonly costUsd?: number;
}

/** A note in the answer of a successful call. */
export interface Warning {
  readonly code: 'LOW_CONFIDENCE' | 'TRUNCATED' | 'DEPRECATED_FIELD' | 'VALIDATION_SKIPPED';
  readonly field?: string;
  readonly message: string;
}
