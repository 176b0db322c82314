import { type ErrorCode, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import {
  absent,
  allOf,
  equals,
  exists,
  getAll,
  type Item,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';
import { usageOperations } from './rollup.ts';
import {
  CANCELLED,
  emptyBody,
  LOST,
  lostBefore,
  type NewRun,
  type Run,
  type RunBody,
  type RunResult,
  type RunStatus,
} from './run.ts';
import type { TraceEvent } from './trace.ts';

export interface RunFilter {
  readonly agentName?: string;
  readonly status?: RunStatus;
  /** Hexadecimal digits of the id, without dashes. */
  readonly prefix?: string;
  readonly limit: number;
  readonly offset: number;
}

/** Runs that a listing looks at: on AWS each is paid for. */
const MAX_EXAMINED = 1000;
/** Bodies up to here lie in the run's own item, and cost no further one. */
const MAX_EMBEDDED_BODY_BYTES = 4 * 1024;
/** Larger bodies lie in a blob (`design.md` section 5). */
const MAX_INLINE_BODY_BYTES = 100 * 1024;
type StoreDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>;

/**
 * Runs table: `WS#<workspace id>#RUN / <run id without dashes>` is the run's head (gsi1: the runs of an agent version by
 * time; gsi2: those of the workspace); `WS#<workspace id>#RUNBODY / <the same>` is what went in and came out. Random
 * sort keys let a busy workspace's partition split, and find a run by the first digits of its id. Nothing is in a head
 * that follows from another attribute: DynamoDB bills each write by the begun kilobyte.
 */
/** The runs of one workspace. */
export class RunStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  #key(runId: string) {
    return headKey(this.#workspaceId, runId);
  }

  #bodyKey(runId: string) {
    return { pk: `WS#${this.#workspaceId}#RUNBODY`, sk: hexOf(runId) };
  }

  /** Records a run before anything of it happens. With its input, so that a crash loses none. */
  async start(run: NewRun): Promise<void> {
    const { runs } = this.#deps;
    const startedAt = isoTime(run.startedAt);
    const ttl = this.#expiry(run.startedAt);
    const head: Item = {
      ...this.#key(run.id),
      agent_id: run.agentId,
      agent_workspace_id: run.agentWorkspaceId === this.#workspaceId ? undefined : run.agentWorkspaceId,
      agent_org: run.agentOrg,
      agent_name: run.agentName,
      agent_version: run.agentVersion,
      engine: run.engine,
      endpoint: run.endpoint,
      status: 'running',
      trigger_source: run.triggerSource,
      deadline: run.deadline,
      parent_run_id: run.parentRunId,
      root_run_id: run.rootRunId === run.id ? undefined : run.rootRunId,
      replay_of: run.replayOf,
      tenant_id: run.tenantId,
      schedule_id: run.scheduleId,
      context: run.context,
      ...(await this.#embed(run.id, ttl, emptyBody(run.input))),
      ttl,
      // An installation shows what it printed while it goes on, and is repaired by the next upload.
      ...(run.triggerSource === 'install' ? agentIndex(run) : openIndex(run)),
      gsi2pk: `WS#${this.#workspaceId}#RUNS`,
      gsi2sk: startedAt,
    };
    const listed: Item[] = [];
    if (run.parentRunId !== undefined) {
      const key = this.#childKey(run.rootRunId ?? run.id, run.id);
      listed.push({ ...key, ttl, run_id: run.id, parent_run_id: run.parentRunId });
    }
    if (run.scheduleId !== undefined) {
      listed.push({ pk: this.#schedulePartition(run.scheduleId), sk: `${startedAt}#${run.id}`, ttl, run_id: run.id });
    }
    // A run of a schedule may be begun by two, when one takes it for lost that the other is only slow with.
    const operations = [head, ...listed].map((item) => ({ op: 'put' as const, item, condition: absent() }));
    if (listed.length === 0) await runs.put(head);
    else if (!(await runs.transact(operations)).ok) throw new Error(`the run ${run.id} was started by another process`);
  }

  #schedulePartition(scheduleId: string): string {
    return `WS#${this.#workspaceId}#SCHEDULE#${scheduleId}`;
  }

  #childKey(rootRunId: string, runId: string) {
    return { pk: this.#treePartition(rootRunId), sk: hexOf(runId) };
  }

  #treePartition(rootRunId: string): string {
    return `WS#${this.#workspaceId}#TREE#${hexOf(rootRunId)}`;
  }

  #expiry(startedAt: number): number {
    return epochSeconds(startedAt) + this.#deps.config.runRetentionDays * 24 * 3600;
  }

  /** The attribute of the head that holds a body; one that is too large for it is put where the attribute says. */
  async #embed(runId: string, ttl: number, body: RunBody): Promise<{ body?: Json; body_in: 'head' | 'item' | 'blob' }> {
    const json = JSON.stringify(body);
    const bytes = Buffer.byteLength(json);
    if (bytes <= MAX_EMBEDDED_BODY_BYTES) return { body: body as unknown as Json, body_in: 'head' };
    if (bytes <= MAX_INLINE_BODY_BYTES) {
      await this.#deps.runs.put({ ...this.#bodyKey(runId), ttl, body: body as unknown as Json });
      return { body_in: 'item' };
    }
    await this.#deps.blobs.put(this.#blobKey(runId), Buffer.from(json));
    return { body_in: 'blob' };
  }

  #blobKey(runId: string): string {
    return `runs/${this.#workspaceId}/${runId}.json`;
  }

  /** What a run printed so far. */
  async saveProgress(runId: string, startedAt: number, body: RunBody): Promise<void> {
    const embedded = await this.#embed(runId, this.#expiry(startedAt), body);
    await this.#deps.runs.update(this.#key(runId), { set: embedded, remove: embedded.body ? [] : ['body'] }, exists());
  }

  /**
   * Records how a run ended, together with what it adds to usage, once: false when it is not recorded so, because it was
   * finished already by whoever else, or is cancelled: what anybody asked the end of never counts as completed.
   */
  async finish(run: NewRun, result: RunResult): Promise<boolean> {
    const { input, output, stdout, stderr, trace } = result;
    const ttl = this.#expiry(run.startedAt);
    const embedded = await this.#embed(run.id, ttl, { input, output, stdout, stderr, trace });
    const now = this.#deps.clock.now();
    const operations: TransactOperation[] = [
      {
        op: 'update',
        key: this.#key(run.id),
        changes: {
          set: {
            ...embedded,
            status: result.status,
            duration_ms: now - run.startedAt,
            execution_ms: result.executionMs ?? undefined,
            exit_code: result.exitCode ?? undefined,
            error_code: result.errorCode ?? undefined,
            error_message: result.errorMessage ?? undefined,
            input_tokens: result.inputTokens,
            output_tokens: result.outputTokens,
            llm_provider: result.llmProvider,
            llm_model: result.llmModel,
            cost_usd: result.costUsd,
            credits_cents: result.creditsCents,
            ...agentIndex(run),
          },
          remove: embedded.body ? [] : ['body'],
        },
        condition:
          result.status === 'cancelled'
            ? equals('status', 'running')
            : allOf(equals('status', 'running'), absent('cancel_requested_at')),
      },
      ...usageOperations(this.#workspaceId, run, result, now, ttl),
    ];
    // Roll-ups are items that many runs write at once: on AWS one of two transactions that meet is refused.
    const isRecorded = await untilWritten(this.#deps.clock, `a roll-up of run ${run.id}`, async () => {
      const written = await this.#deps.runs.transact(operations);
      if (written.ok) return true;
      return written.failed.includes(0) ? false : undefined;
    });
    if (!isRecorded && result.status !== 'cancelled' && (await this.isCancelled(run.id))) {
      await this.finish(run, { ...result, ...CANCELLED, output: null, creditsCents: 0 });
    }
    return isRecorded;
  }

  async find(runId: string): Promise<Run | undefined> {
    const item = await this.#deps.runs.get(this.#key(runId));
    return item && readRun(item, this.#deps.clock.now());
  }

  /**
   * The run that an id, a request id (`req_...`) or the first digits of either name (`contract.md` 0.5). Throws NOT_FOUND,
   * and CONFLICT when these digits begin more than one.
   */
  async findByName(name: string): Promise<Run> {
    const digits = digitsOf(name);
    if (/^[0-9a-f]{7,32}$/.test(digits)) {
      const sk = { beginsWith: digits };
      const { items } = await this.#deps.runs.query({ pk: `WS#${this.#workspaceId}#RUN`, sk, limit: 3 });
      if (items.length > 1) {
        const found = items.map(runIdOf).join(', ');
        throw new PlatformError('CONFLICT', `More than one run begins with "${name}": ${found}. Give more digits.`);
      }
      if (items.length === 1) return readRun(items[0]!, this.#deps.clock.now());
    }
    throw new PlatformError(
      'NOT_FOUND',
      `There is no run "${name.slice(0, 64)}" in this workspace; give its id, or the first 7 or more digits of it.`,
    );
  }

  /**
   * Runs of the workspace, newest first. Looks at no more than the newest thousand that `prefix`, or nothing, narrows
   * down: `total` is the number of those among them that match.
   */
  async list({ agentName, status, prefix, limit, offset }: RunFilter): Promise<{ runs: Run[]; total: number }> {
    const query =
      prefix === undefined
        ? { index: 'gsi2' as const, pk: `WS#${this.#workspaceId}#RUNS`, reverse: true }
        : { pk: `WS#${this.#workspaceId}#RUN`, sk: { beginsWith: prefix } };
    const found: Run[] = [];
    let examined = 0;
    for await (const item of queryAll(this.#deps.runs, { ...query, limit: 200 })) {
      if (examined++ >= MAX_EXAMINED) break;
      const run = readRun(item, this.#deps.clock.now());
      const isWanted =
        (agentName === undefined || run.agentName === agentName) && (status === undefined || run.status === status);
      if (isWanted) found.push(run);
    }
    if (prefix !== undefined) found.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
    return { runs: found.slice(offset, offset + limit), total: found.length };
  }

  /** Runs of a schedule, newest first; of the newest thousand, as {@link RunStore.list}. */
  async listOfSchedule(
    scheduleId: string,
    { status, limit, offset }: Pick<RunFilter, 'limit' | 'offset'> & { readonly status?: string },
  ): Promise<{ runs: Run[]; total: number }> {
    const ids: string[] = [];
    const query = { pk: this.#schedulePartition(scheduleId), reverse: true, limit: MAX_EXAMINED };
    for await (const { run_id } of queryAll(this.#deps.runs, query)) {
      ids.push(run_id as string);
      if (ids.length === MAX_EXAMINED) break;
    }
    // Without a filter, no other records are read than those that are shown.
    const wanted = status === undefined ? ids.slice(offset, offset + limit) : ids;
    const now = this.#deps.clock.now();
    const runs = (await this.#heads(wanted)).map((head) => readRun(head, now));
    if (status === undefined) return { runs, total: ids.length };
    const found = runs.filter((run) => run.status === status);
    return { runs: found.slice(offset, offset + limit), total: found.length };
  }

  async #heads(ids: readonly string[]): Promise<Item[]> {
    const keys = ids.map((id) => this.#key(id));
    return (await getAll(this.#deps.runs, keys)).filter((head) => head !== undefined);
  }

  /** The runs of a chain that were called by others, each with the run that called it. */
  async callers(rootRunId: string): Promise<ReadonlyMap<string, string>> {
    const callers = new Map<string, string>();
    for await (const item of queryAll(this.#deps.runs, { pk: this.#treePartition(rootRunId), limit: 1000 })) {
      callers.set(item.run_id as string, item.parent_run_id as string);
    }
    return callers;
  }

  /** All runs of a chain: its top and whatever was called below, oldest first, with what happened in each. */
  async tree(rootRunId: string): Promise<{ run: Run; trace: readonly TraceEvent[] }[]> {
    const ids = [rootRunId, ...(await this.callers(rootRunId)).keys()];
    const heads = await this.#heads(ids);
    const now = this.#deps.clock.now();
    const found = await Promise.all(
      heads.map(async (head) => ({ run: readRun(head, now), trace: (await this.#bodyOf(head))?.trace ?? [] })),
    );
    return found.sort((a, b) => (a.run.startedAt < b.run.startedAt ? -1 : 1));
  }

  /** Marks a run for its end, wherever it runs. False when it has ended. */
  async requestCancel(runId: string): Promise<boolean> {
    const { ok } = await this.#deps.runs.update(
      this.#key(runId),
      { set: { cancel_requested_at: isoTime(this.#deps.clock.now()) } },
      equals('status', 'running'),
    );
    return ok;
  }

  /** Whether somebody asked for the end of this run. */
  async isCancelled(runId: string): Promise<boolean> {
    return (await this.#deps.runs.get(this.#key(runId)))?.cancel_requested_at !== undefined;
  }

  async body(runId: string): Promise<RunBody | undefined> {
    const head = await this.#deps.runs.get(this.#key(runId));
    return head && this.#bodyOf(head);
  }

  async #bodyOf(head: Item): Promise<RunBody | undefined> {
    const runId = runIdOf(head);
    if (head.body_in === 'head') return head.body as unknown as RunBody;
    if (head.body_in === 'item') {
      const item = await this.#deps.runs.get(this.#bodyKey(runId));
      return item?.body as unknown as RunBody | undefined;
    }
    const bytes = await this.#deps.blobs.get(this.#blobKey(runId));
    return bytes && (JSON.parse(Buffer.from(bytes).toString()) as RunBody);
  }
}

const agentIndex = (run: NewRun) => ({
  gsi1pk: `AGENT#${run.agentId}`,
  gsi1sk: isoTime(run.startedAt),
});

/** Unfinished runs, by deadline, in as many partitions as a run's first digit has values. */
const openIndex = (run: NewRun) => ({
  gsi1pk: `OPEN#${hexOf(run.id)[0]}`,
  gsi1sk: isoTime(run.deadline),
});

const headKey = (workspaceId: string, runId: string) => ({ pk: `WS#${workspaceId}#RUN`, sk: hexOf(runId) });

/** What stands of a run's id in `req_...`, an id, or the beginning of either. */
export const digitsOf = (name: string): string => hexOf(name.replace(/^req_/i, '').toLowerCase());

export const hexOf = (runId: string): string => runId.replaceAll('-', '');

const runIdOf = ({ sk }: Item): string => sk.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
const workspaceIdOf = ({ pk }: Item): string => pk.split('#')[1]!;
const agentWorkspaceIdOf = (head: Item): string =>
  (head.agent_workspace_id as string | undefined) ?? workspaceIdOf(head);
/** ISO 8601. In records of version 0.1.0 the id follows. */
const startOf = ({ gsi2sk }: Item): string => gsi2sk!.split('#')[0]!;

/** A run with what its sub-calls are checked against, see `core/orchestration`; whoever asks must prove to be the run. */
export async function findRunContext(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  workspaceId: string,
  runId: string,
): Promise<{ run: Run; context: Json | undefined } | undefined> {
  const item = await runs.get(headKey(workspaceId, runId));
  return item && { run: readRun(item, clock.now()), context: item.context };
}

/** The runs of a workspace that began between two times (ISO 8601, both included), newest first. */
export async function* runsStartedBetween(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  workspaceId: string,
  [from, to]: readonly [string, string],
  pageSize: number,
): AsyncGenerator<Run> {
  const sk = { between: [from, to] } as const;
  const query = { index: 'gsi2', pk: `WS#${workspaceId}#RUNS`, sk, limit: pageSize, reverse: true } as const;
  for await (const item of queryAll(runs, query)) yield readRun(item, clock.now());
}

/** A run that is recorded as running. */
export interface OpenRun {
  readonly workspaceId: string;
  readonly run: NewRun;
  /** Whether somebody asked for its end. */
  readonly isCancelled: boolean;
}

/**
 * Runs that are not finished and should have been at `before` (epoch milliseconds; by default all that are not finished),
 * whichever workspace they belong to.
 */
export async function* listOpenRuns({ runs }: Pick<Deps, 'runs'>, before = Date.UTC(9999, 0)): AsyncGenerator<OpenRun> {
  for (const digit of '0123456789abcdef') {
    const sk = { lessThan: isoTime(before) };
    for await (const item of queryAll(runs, { index: 'gsi1', pk: `OPEN#${digit}`, sk, limit: 200 })) {
      yield {
        workspaceId: workspaceIdOf(item),
        run: newRunFrom(item),
        isCancelled: item.cancel_requested_at !== undefined,
      };
    }
  }
}

function newRunFrom(item: Item): NewRun {
  return {
    id: runIdOf(item),
    agentId: item.agent_id as string,
    agentWorkspaceId: agentWorkspaceIdOf(item),
    agentOrg: item.agent_org as string,
    agentName: item.agent_name as string,
    agentVersion: item.agent_version as string,
    engine: item.engine as NewRun['engine'],
    endpoint: item.endpoint as string,
    triggerSource: item.trigger_source as string,
    startedAt: Date.parse(startOf(item)),
    deadline: item.deadline as number,
    parentRunId: item.parent_run_id as string | undefined,
    rootRunId: item.root_run_id as string | undefined,
    replayOf: item.replay_of as string | undefined,
    tenantId: item.tenant_id as string | undefined,
    scheduleId: item.schedule_id as string | undefined,
    // Of no use to whoever ends it.
    input: null,
  };
}

/** A lost run reads as failed before the sweep has repaired its record. */
function readRun(item: Item, now: number): Run {
  const deadline = item.deadline as number;
  const isLost = item.status === 'running' && deadline < lostBefore(now);
  const id = runIdOf(item);
  const startedAt = startOf(item);
  const durationMs = (item.duration_ms as number | undefined) ?? null;
  return {
    id,
    workspaceId: workspaceIdOf(item),
    agentId: item.agent_id as string,
    agentWorkspaceId: agentWorkspaceIdOf(item),
    agentOrg: item.agent_org as string,
    agentName: item.agent_name as string,
    agentVersion: item.agent_version as string,
    engine: item.engine as Run['engine'],
    endpoint: item.endpoint as string,
    status: item.status as RunStatus,
    triggerSource: item.trigger_source as string,
    startedAt,
    deadline,
    parentRunId: (item.parent_run_id as string | undefined) ?? null,
    rootRunId: (item.root_run_id as string | undefined) ?? id,
    replayOf: (item.replay_of as string | undefined) ?? null,
    tenantId: (item.tenant_id as string | undefined) ?? null,
    scheduleId: (item.schedule_id as string | undefined) ?? null,
    completedAt: durationMs === null ? null : isoTime(Date.parse(startedAt) + durationMs),
    durationMs,
    executionMs: (item.execution_ms as number | undefined) ?? null,
    exitCode: (item.exit_code as number | undefined) ?? null,
    errorCode: (item.error_code as ErrorCode | undefined) ?? null,
    errorMessage: (item.error_message as string | undefined) ?? null,
    inputTokens: (item.input_tokens as number | undefined) ?? null,
    outputTokens: (item.output_tokens as number | undefined) ?? null,
    llmProvider: (item.llm_provider as string | undefined) ?? null,
    llmModel: (item.llm_model as string | undefined) ?? null,
    costUsd: (item.cost_usd as number | undefined) ?? null,
    creditsCents: (item.credits_cents as number | undefined) ?? 0,
    ...(isLost && LOST),
  };
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
