import type { Deps } from '../deps.ts';
import type { ErrorCode } from '../errors.ts';
import { epochSeconds, isoTime } from '../ports/clock.ts';
import type { Item, Json } from '../ports/table.ts';

/**
 * Runs table: `WS#<workspace id>#RUN / <run id without dashes>` is the run's head (gsi1: the runs of an agent version by
 * time; gsi2: those of the workspace); `WS#<workspace id>#RUNBODY / <the same>` is what went in and came out. Random
 * sort keys let a busy workspace's partition split, and find a run by the first digits of its id.
 */
export interface Run {
  readonly id: string;
  readonly workspaceId: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly agentVersion: string;
  readonly endpoint: string;
  readonly status: RunStatus;
  readonly triggerSource: string;
  readonly startedAt: string;
  /** Epoch milliseconds. A run that is unfinished past it was lost with its host. */
  readonly deadline: number;
  readonly completedAt: string | null;
  readonly durationMs: number | null;
  readonly executionMs: number | null;
  readonly exitCode: number | null;
  readonly errorCode: ErrorCode | null;
  readonly errorMessage: string | null;
}

/** `contract.md` 7.4. */
export type RunStatus = 'running' | 'completed' | 'failed' | 'timeout';

export interface RunBody {
  readonly input: Json | null;
  readonly output: Json | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a run ended. Secrets must have been masked in all of it. */
export interface RunResult extends RunBody {
  readonly status: Exclude<RunStatus, 'running'>;
  readonly executionMs: number | null;
  readonly exitCode: number | null;
  readonly errorCode: ErrorCode | null;
  readonly errorMessage: string | null;
}

/** Larger bodies lie in a blob (`design.md` section 5). */
const MAX_INLINE_BODY_BYTES = 100 * 1024;
/** A host may need this long past the deadline to write down how a run ended. */
const LOST_AFTER_MS = 30_000;

type StoreDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>;

/** The runs of one workspace. */
export class RunStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  #key(runId: string) {
    return { pk: `WS#${this.#workspaceId}#RUN`, sk: hexOf(runId) };
  }

  #bodyKey(runId: string) {
    return { pk: `WS#${this.#workspaceId}#RUNBODY`, sk: hexOf(runId) };
  }

  async start(run: {
    id: string;
    agentId: string;
    agentName: string;
    agentVersion: string;
    endpoint: string;
    triggerSource: string;
    startedAt: number;
    deadline: number;
  }): Promise<void> {
    const startedAt = isoTime(run.startedAt);
    await this.#deps.runs.put({
      ...this.#key(run.id),
      id: run.id,
      workspace_id: this.#workspaceId,
      agent_id: run.agentId,
      agent_name: run.agentName,
      agent_version: run.agentVersion,
      endpoint: run.endpoint,
      status: 'running',
      trigger_source: run.triggerSource,
      started_at: startedAt,
      deadline: run.deadline,
      ttl: this.#expiry(run.startedAt),
      gsi1pk: `AGENT#${run.agentId}`,
      gsi1sk: `${startedAt}#${run.id}`,
      gsi2pk: `WS#${this.#workspaceId}#RUNS`,
      gsi2sk: `${startedAt}#${run.id}`,
    });
  }

  #expiry(startedAt: number): number {
    return epochSeconds(startedAt) + this.#deps.config.runRetentionDays * 24 * 3600;
  }

  /** What a run printed so far. */
  async saveProgress(runId: string, startedAt: number, body: RunBody): Promise<void> {
    const json = JSON.stringify(body);
    const key = this.#bodyKey(runId);
    const ttl = this.#expiry(startedAt);
    if (Buffer.byteLength(json) <= MAX_INLINE_BODY_BYTES) {
      await this.#deps.runs.put({ ...key, ttl, body: body as unknown as Json });
    } else {
      const blob = `runs/${this.#workspaceId}/${runId}.json`;
      await this.#deps.blobs.put(blob, Buffer.from(json));
      await this.#deps.runs.put({ ...key, ttl, blob });
    }
  }

  async finish(runId: string, startedAt: number, result: RunResult): Promise<void> {
    const { input, output, stdout, stderr } = result;
    await this.saveProgress(runId, startedAt, { input, output, stdout, stderr });
    const now = this.#deps.clock.now();
    await this.#deps.runs.update(this.#key(runId), {
      set: {
        status: result.status,
        completed_at: isoTime(now),
        duration_ms: now - startedAt,
        execution_ms: result.executionMs,
        exit_code: result.exitCode,
        error_code: result.errorCode,
        error_message: result.errorMessage,
      },
    });
  }

  async find(runId: string): Promise<Run | undefined> {
    const item = await this.#deps.runs.get(this.#key(runId));
    return item && readRun(item, this.#deps.clock.now());
  }

  async body(runId: string): Promise<RunBody | undefined> {
    return readBody(this.#deps, await this.#deps.runs.get(this.#bodyKey(runId)));
  }
}

const hexOf = (runId: string): string => runId.replaceAll('-', '');

/** A run that nobody can finish any more reads as failed; its record need not be repaired for that. */
function readRun(item: Item, now: number): Run {
  const lost = item.status === 'running' && now > (item.deadline as number) + LOST_AFTER_MS;
  return {
    id: item.id as string,
    workspaceId: item.workspace_id as string,
    agentId: item.agent_id as string,
    agentName: item.agent_name as string,
    agentVersion: item.agent_version as string,
    endpoint: item.endpoint as string,
    status: lost ? 'failed' : (item.status as RunStatus),
    triggerSource: item.trigger_source as string,
    startedAt: item.started_at as string,
    deadline: item.deadline as number,
    completedAt: (item.completed_at as string | undefined) ?? null,
    durationMs: (item.duration_ms as number | undefined) ?? null,
    executionMs: (item.execution_ms as number | null | undefined) ?? null,
    exitCode: (item.exit_code as number | null | undefined) ?? null,
    errorCode: lost ? 'INTERNAL_ERROR' : ((item.error_code as ErrorCode | null | undefined) ?? null),
    errorMessage: lost
      ? 'The platform stopped while this run was under way.'
      : ((item.error_message as string | null | undefined) ?? null),
  };
}

async function readBody({ blobs }: Pick<Deps, 'blobs'>, item: Item | undefined): Promise<RunBody | undefined> {
  if (item === undefined) return undefined;
  if (item.blob === undefined) return item.body as unknown as RunBody;
  const bytes = await blobs.get(item.blob as string);
  return bytes && (JSON.parse(Buffer.from(bytes).toString()) as RunBody);
}

/**
 * The latest runs of an agent version, whichever workspaces started them, newest first, with what they printed. Only
 * for the agent's owners; what callers sent and got is not in it.
 */
export async function listAgentRuns(
  deps: StoreDeps,
  agentId: string,
  { limit, before }: { limit: number; before?: string },
): Promise<(Run & Pick<RunBody, 'stdout' | 'stderr'>)[]> {
  const { items } = await deps.runs.query({
    index: 'gsi1',
    pk: `AGENT#${agentId}`,
    sk: before === undefined ? undefined : { lessThan: before },
    limit,
    reverse: true,
  });
  return Promise.all(
    items.map(async (item) => {
      const run = readRun(item, deps.clock.now());
      const body = await new RunStore(deps, run.workspaceId).body(run.id);
      return { ...run, stdout: body?.stdout ?? '', stderr: body?.stderr ?? '' };
    }),
  );
}
