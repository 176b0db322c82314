import type { CalledChannel } from '#core/agents/channels/channel.ts';
import { type ErrorCode, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { EndStatus, RunStatus } from '#core/base/run-kinds.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import { Zone } from '#core/base/zone.ts';
import type { AgentDefinition, ExecutionEngine } from '#core/manifest/definition.ts';
import type { QueueRules } from '#core/manifest/queue-rules.ts';
import { versionName } from '#core/manifest/references.ts';
import type { RetryPolicy } from '#core/manifest/retry-policy.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import type { NewState, TurnOfRun } from './sessions/session.ts';
import type { TraceEvent } from './trace/trace.ts';

/** The record of a run. */
export interface Run {
  readonly id: string;
  readonly workspaceId: string;
  readonly agentId: string;
  /** The workspace of the agent's author. */
  readonly agentWorkspaceId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly agentVersion: string;
  /** The channel that led to this version. @default - the call named the version, or `latest` */
  readonly channel?: CalledChannel;
  readonly engine: ExecutionEngine | null;
  readonly endpoint: string;
  readonly status: RunStatus;
  readonly triggerSource: string;
  /** When it began; while it waits for its time, when it was asked for. */
  readonly startedAt: string;
  /** When it was asked for. */
  readonly createdAt: string;
  /** When it was to begin, for a call that named a time. */
  readonly runAt: string | null;
  /** Epoch milliseconds. A run that is still running some time later is lost, see {@link lostBefore}. */
  readonly deadline: number;
  /** The calling run of a sub-call, and the root of the chain. A run without a parent is its own root. */
  readonly parentRunId: string | null;
  readonly rootRunId: string;
  readonly replayOf: string | null;
  /** Null for a run that begins at its beginning. */
  readonly branch: Branch | null;
  /** Whether another process continues it if its own dies. */
  readonly isDurable: boolean;
  readonly tenantId: string | null;
  /** The caller's span (`telemetry/span-ids.ts`). */
  readonly trace?: string;
  /** The session that it is a message of. */
  readonly sessionId: string | null;
  /** Whether what was said in it was erased. */
  readonly isErased?: true;
  readonly scheduleId: string | null;
  readonly scheduled: ScheduledMoment | null;
  readonly completedAt: string | null;
  readonly durationMs: number | null;
  readonly executionMs: number | null;
  readonly exitCode: number | null;
  readonly errorCode: ErrorCode | null;
  readonly errorMessage: string | null;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** Input tokens that the provider read from its cache, and wrote to it. */
  readonly cacheReadTokens: number | null;
  readonly cacheWriteTokens: number | null;
  readonly llmProvider: string | null;
  readonly llmModel: string | null;
  /** The provider's charge for the tokens in US dollars; null if the price is not known. */
  readonly costUsd: number | null;
  /** Credits that the caller paid, in cents. */
  readonly creditsCents: number;
  /** Null for a run without a retry policy. */
  readonly retries: Retries | null;
  /** When the next try of a run that waits for it begins, ISO 8601. */
  readonly nextTryAt: string | null;
  /** Whether it failed for good and was not replayed since. */
  readonly isExhausted: boolean;
  /** Null for a run that no rule keeps from beginning or continuing. */
  readonly heldBy: HeldBy | null;
  /** Whether it has begun. If it has and is `queued`, it waits for its next try, or for its turn to continue. */
  readonly hasBegun: boolean;
}

/** The rule that keeps a run from beginning or continuing (`docs/interface/queues.md`). */
export interface HeldBy {
  readonly rule: keyof QueueRules;
  /** Masked; null if the rule has no key, or the input no value for it. */
  readonly key: string | null;
  /** Number of runs that the rule allows. */
  readonly limit: number;
  /** Time for which it allows them; null if that is at once. */
  readonly seconds: number | null;
  readonly priority: number;
  /** When the run begins, in epoch milliseconds; null if that depends on others. */
  readonly due: number | null;
  /** When the run ends if it has not begun, in epoch milliseconds. */
  readonly until: number;
}

/** What a branch may change of the turns before it (`docs/interface/branches.md`). */
export const BRANCH_CHANGES = ['message', 'tool_results', 'model', 'version'] as const;

/** The turn of its original run from which a run begins again, and what is changed before it. */
export interface Branch {
  /** From 1. */
  readonly fromTurn: number;
  readonly changed: readonly (typeof BRANCH_CHANGES)[number][];
}

/** Whether a run can begin again from one of its turns, as long as they are kept. */
export const hasTurns = ({ isDurable, engine }: Pick<Run, 'isDurable' | 'engine'>): boolean =>
  isDurable && engine === 'managed_loop';

/** Scheduled time of a schedule's run: `at` in epoch milliseconds, and the schedule's time zone. */
export interface ScheduledMoment {
  readonly at: number;
  readonly timezone: string;
}

/** The moment as agents and records show it (`docs/interface/schedules.md#moment`). */
export const momentView = ({ at, timezone }: ScheduledMoment) => ({
  scheduled_at: isoTime(at),
  scheduled_local: Zone.of(timezone).textOf(at),
  scheduled_zone: timezone,
});

export interface RunBody {
  readonly input: Json | null;
  readonly output: Json | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly trace: readonly TraceEvent[];
  /** Whether a separate blob stores the trace contents. @default - false */
  readonly hasContent?: true;
}

/** Providers of searches (`core/execution/web`), by preference. */
export const SEARCH_PROVIDERS = ['brave', 'tavily'] as const;
export type SearchProvider = (typeof SEARCH_PROVIDERS)[number];

/** A provider's charge for all requests of a run to one model, or for its searches, of which `model` is the tool. */
export interface ModelCost {
  readonly provider: LlmProvider | SearchProvider;
  readonly model: string;
  /** US dollars; absent if no price is known. */
  readonly costUsd?: number;
}

/** Result of a run. All secrets in it must be masked. */
export interface RunResult extends RunBody {
  readonly status: EndStatus;
  readonly executionMs: number | null;
  readonly exitCode: number | null;
  readonly errorCode: ErrorCode | null;
  readonly errorMessage: string | null;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
  readonly llmProvider?: string;
  readonly llmModel?: string;
  /** The models that answered, each at most once with a price and once without; absent for programs. */
  readonly costs?: readonly ModelCost[];
  readonly costUsd?: number;
  /** For a prompt in a session: its message to the model. */
  readonly said?: string;
  /** For a run of a session: what it gives to the next message. */
  readonly state?: NewState;
  readonly creditsCents: number;
  /** Charge if the run turns out to have been cancelled. @default 0 */
  readonly cancelledCreditsCents?: number;
}

/** What a run has spent. */
export type Spent = Pick<
  RunResult,
  | 'executionMs'
  | 'inputTokens'
  | 'outputTokens'
  | 'cacheReadTokens'
  | 'cacheWriteTokens'
  | 'llmProvider'
  | 'llmModel'
  | 'costs'
  | 'costUsd'
>;

/** A try of a run that failed, after which the run is tried again. */
export interface FailedTry {
  /** ISO 8601. */
  readonly started_at: string;
  readonly duration_ms: number;
  readonly error_code: string;
  readonly error_message: string;
  /** US dollars; absent if the price of a model is not known. */
  readonly cost_usd?: number;
}

/** The tries of a run with a retry policy. Its other record describes the last try, with the sums of all. */
export interface Retries {
  readonly policy: RetryPolicy;
  /** Tries that failed before the current one. */
  readonly failed: readonly FailedTry[];
  /** Start of the current try, in epoch milliseconds. */
  readonly triedAt: number;
  /** Sums of the failed tries. @default - nothing */
  readonly spent?: Spent | undefined;
}

/** A run that is about to begin. */
export interface NewRun {
  readonly id: string;
  readonly agentId: string;
  /** The workspace of the agent's author. */
  readonly agentWorkspaceId: string;
  readonly agentOrg: string;
  readonly agentName: string;
  readonly agentVersion: string;
  /** The channel that led to this version. */
  readonly channel?: CalledChannel;
  readonly engine: ExecutionEngine | null;
  readonly endpoint: string;
  readonly triggerSource: string;
  /** Epoch milliseconds, as is the deadline. */
  readonly startedAt: number;
  readonly deadline: number;
  /** When a run that waits is to begin, in epoch milliseconds. */
  readonly runAt?: number;
  readonly parentRunId?: string;
  readonly rootRunId?: string;
  readonly replayOf?: string;
  readonly branch?: Branch;
  readonly tenantId?: string;
  /** Its turn in a session. */
  readonly session?: TurnOfRun;
  /** For a run in a session: hash of its `Idempotency-Key`, under which its answer is kept. */
  readonly keyHash?: string;
  /** Schedule that started the run. */
  readonly scheduleId?: string;
  readonly scheduled?: ScheduledMoment;
  /** Masked. */
  readonly input: Json;
  /** Whether another process continues it if this one dies. @default - false */
  readonly isDurable?: true;
  /** Whether its end is announced (`destinations/announce.ts`). @default - false */
  readonly isAnnounced?: true;
  /** The caller's span (`telemetry/span-ids.ts`). */
  readonly trace?: string;
  /** Whether its spans are sent (`telemetry/backlog.ts`). @default - false */
  readonly isExported?: true;
  /** Whether it is scored once it has completed (`online/notes.ts`). @default - false */
  readonly isSampled?: true;
  /** Address that the call gave for the end of this run alone. */
  readonly webhookUrl?: string;
  /** Absent for a run that is not tried again. */
  readonly retries?: Retries;
  /** The queue (`queues/queue.ts`) in which it waits or has a place. @default - its agent has no limit */
  readonly queueId?: string;
  /** For a run that waits: for a place, with its sort key among the entries that do; for a rate, with its window. */
  readonly heldBy?: HeldBy & { readonly entry?: string; readonly window?: number };
  /** Whether a run that waits has a place. @default - false */
  readonly hasPlace?: true;
  /** Whether a run that waits for its turn has begun before, and continues then. @default - false */
  readonly continues?: true;
  /** Limits and identity that this run's sub-calls are checked against: a `RunContext`. */
  readonly context?: Json;
}

/** Agent of a run: a published version, or the remaining data of a deleted one. */
interface RunAgent extends Pick<AgentVersion, 'id' | 'workspaceId' | 'orgSlug' | 'name'> {
  /** Number of the version, or its name such as `v3`. */
  readonly version: number | string;
  readonly definition?: Pick<AgentDefinition, 'execution_engine'>;
}

/** Builds the record of a run that begins. */
export function newRunOf(agent: RunAgent, run: Omit<NewRun, `agent${string}` | 'engine'>): NewRun {
  return {
    ...run,
    agentId: agent.id,
    agentWorkspaceId: agent.workspaceId,
    agentOrg: agent.orgSlug,
    agentName: agent.name,
    agentVersion: typeof agent.version === 'number' ? versionName(agent.version) : agent.version,
    engine: agent.definition?.execution_engine ?? null,
  };
}

/** Part of a run's record that describes its end. */
export type RunEnd = Pick<RunResult, 'status' | 'errorCode' | 'errorMessage'>;

/** Returns the end of a run that failed with `error`, or that completed if it is undefined. */
export function endedWith(error: PlatformError | undefined): RunEnd {
  if (error === undefined) return { status: 'completed', errorCode: null, errorMessage: null };
  return { status: failureStatus(error.code), errorCode: error.code, errorMessage: error.message };
}

function failureStatus(code: ErrorCode): RunEnd['status'] {
  if (code === 'TIMEOUT') return 'timeout';
  return code === 'RUN_CANCELLED' ? 'cancelled' : 'failed';
}

export const cancelledError = (): PlatformError => new PlatformError('RUN_CANCELLED', 'The run was cancelled.');

/** Message of a run that was cancelled because another one took its place. */
export const replacedText = (runId: string): string => `The run was replaced by the run ${runId}.`;

/** End of a cancelled run. */
export const CANCELLED = endedWith(cancelledError());

/** End of a run whose host died. */
export const LOST = endedWith(
  new PlatformError('INTERNAL_ERROR', 'The platform stopped while this run was in progress.'),
);

/**
 * Returns the time (epoch milliseconds) before which a running run's deadline means that the run is lost: its host
 * would have finished it.
 */
export const lostBefore = (now: number): number => now - RUN_GRACE_MS;

/** Body of a run that has neither output nor logs. */
export const emptyBody = (input: Json | null): RunBody => ({ input, output: null, stdout: '', stderr: '', trace: [] });

/** Builds the result of a run whose agent never ran, or whose host died. */
export const emptyResult = (end: RunEnd, input: Json | null): RunResult => ({
  ...emptyBody(input),
  ...end,
  executionMs: null,
  exitCode: null,
  creditsCents: 0,
});

/** State of a run in event streams. */
export const outcomeOf = (run: Run) => ({
  status: run.status,
  error_code: run.errorCode,
  error_message: run.errorMessage,
  completed_at: run.completedAt,
  duration_ms: run.durationMs,
  input_tokens: run.inputTokens,
  output_tokens: run.outputTokens,
  cost_usd: run.costUsd,
});

/** Returns the member of an answer with the tokens of a run; nothing for a run that asked no model. */
export const usageOf = ({ inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }: Run) =>
  inputTokens === null
    ? undefined
    : {
        usage: {
          input_tokens: inputTokens,
          output_tokens: outputTokens ?? 0,
          ...(cacheReadTokens !== null && { cache_read_tokens: cacheReadTokens }),
          ...(cacheWriteTokens !== null && { cache_write_tokens: cacheWriteTokens }),
        },
      };
