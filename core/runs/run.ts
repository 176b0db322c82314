import type { ExecutionEngine } from '#core/agents/definition.ts';
import type { ErrorCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { TraceEvent } from './trace.ts';

/** The record of a run. */
export interface Run {
  readonly id: string;
  readonly workspaceId: string;
  readonly agentId: string;
  /** Of the agent's author. */
  readonly agentWorkspaceId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly agentVersion: string;
  readonly engine: ExecutionEngine | null;
  readonly endpoint: string;
  readonly status: RunStatus;
  readonly triggerSource: string;
  readonly startedAt: string;
  /** Epoch milliseconds. A run that is unfinished past it was lost with its host. */
  readonly deadline: number;
  /** The run that made this sub-call, and the one on top of the chain; a run without a parent is its own root. */
  readonly parentRunId: string | null;
  readonly rootRunId: string;
  readonly replayOf: string | null;
  readonly tenantId: string | null;
  readonly scheduleId: string | null;
  readonly completedAt: string | null;
  readonly durationMs: number | null;
  readonly executionMs: number | null;
  readonly exitCode: number | null;
  readonly errorCode: ErrorCode | null;
  readonly errorMessage: string | null;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly llmProvider: string | null;
  readonly llmModel: string | null;
  /** What the provider charges for the tokens; null where no price is known. */
  readonly costUsd: number | null;
  /** What the caller paid in credits. */
  readonly creditsCents: number;
}

/** `contract.md` 7.4. */
export type RunStatus = 'queued' | 'running' | 'completed' | 'failed' | 'timeout' | 'cancelled';

export interface RunBody {
  readonly input: Json | null;
  readonly output: Json | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly trace: readonly TraceEvent[];
}

/** How a run ended. Secrets must have been masked in all of it. */
export interface RunResult extends RunBody {
  readonly status: Exclude<RunStatus, 'queued' | 'running'>;
  readonly executionMs: number | null;
  readonly exitCode: number | null;
  readonly errorCode: ErrorCode | null;
  readonly errorMessage: string | null;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly llmProvider?: string;
  readonly llmModel?: string;
  readonly costUsd?: number;
  readonly creditsCents: number;
}

/** A run that begins. */
export interface NewRun {
  readonly id: string;
  readonly agentId: string;
  /** Of the agent's author. */
  readonly agentWorkspaceId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly agentVersion: string;
  readonly engine: ExecutionEngine | null;
  readonly endpoint: string;
  readonly triggerSource: string;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  readonly deadline: number;
  readonly parentRunId?: string;
  readonly rootRunId?: string;
  readonly replayOf?: string;
  readonly tenantId?: string;
  /** The schedule that it is a run of. */
  readonly scheduleId?: string;
  /** Masked. */
  readonly input: Json;
  /** What sub-calls of this run are checked against, see `core/orchestration`. */
  readonly context?: Json;
}

/** How a run ends whose end somebody asked for. */
export const CANCELLED = {
  status: 'cancelled',
  errorCode: 'RUN_CANCELLED',
  errorMessage: 'The run was cancelled.',
} as const satisfies Partial<RunResult>;
