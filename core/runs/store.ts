import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, isSurelyWithin, putIfLarge } from '#core/ports/large-value.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  allOf,
  type Changes,
  equals,
  exists,
  getAll,
  type Item,
  queryAll,
  type TransactOperation,
} from '#core/ports/table.ts';
import { noteEndOperations } from './destinations/notes.ts';
import {
  bodyBlobKey,
  bodyChanges,
  bodyKey,
  branchPartition,
  contentBlobKey,
  digitsOf,
  endChanges,
  headKey,
  newRunItems,
  placeOperations,
  runExpiry,
  runFrom,
  runIdOf,
  runPartition,
  type StoredBody,
  schedulePartition,
  treePartition,
} from './items.ts';
import { MAX_EXAMINED } from './listing.ts';
import { CANCELLED, emptyBody, type NewRun, type Run, type RunBody, type RunResult } from './run.ts';
import type { TraceEvent } from './trace/trace.ts';
import type { ContentByEvent } from './trace/trace-content.ts';
import { withEarlierTries } from './usage/earlier-tries.ts';

/** A page of runs, and the total number on all pages. */
interface RunPage {
  readonly runs: Run[];
  readonly total: number;
}

/** Maximum size of a body that is stored in the run's head, which saves an item. */
const MAX_BYTES_IN_HEAD = 4 * 1024;

/** Loaded lazily, as below: few runs belong to a session, and smaller functions start faster. */
const turnOperations = lazy(() => import('./sessions/turn-operations.ts'));

export async function beginOfTurn(workspaceId: string, run: NewRun): Promise<TransactOperation[]> {
  if (run.session === undefined) return [];
  const { turnBegin } = await turnOperations();
  return [turnBegin(workspaceId, run)];
}

export async function endOfTurn(
  deps: Pick<Deps, 'blobs'>,
  workspaceId: string,
  run: NewRun,
  end: { readonly result: RunResult; readonly now: number },
): Promise<TransactOperation[]> {
  if (run.session === undefined) return [];
  const { turnEnd } = await turnOperations();
  const { state } = end.result;
  const given =
    state && (await import('./sessions/state.ts')).stateOperation(workspaceId, run.session.sessionId, state);
  return [await turnEnd(deps, workspaceId, run, end), ...(given ? [given] : [])];
}

type EndOperation = Extract<TransactOperation, { readonly op: 'update' }>;

/** Whether a head has the end that these changes record. */
const hasEndOf = (head: Item, { set }: Changes): boolean =>
  Object.entries(set ?? {}).every(([name, value]) => typeof value === 'object' || head[name] === value);

type StoreDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'onRunEnd' | 'handOver'>;

/** The runs of one workspace. `items.ts` documents their storage. */
export class RunStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /**
   * Records a run with its input before it does anything, so that a crash loses no input. Throws if another process
   * started
   * the same run of a schedule, of a bulk action or of an evaluation.
   *
   * With `hasLease`, the caller holds a lease until the run is recorded as ended, by which the sweep finds the run
   * (`core/accounts/limits/admission.ts`). Otherwise the run is listed as open, for two more writes.
   *
   * Returns false if another run has its turn in its session.
   */
  async start(run: NewRun, { hasLease = false }: { readonly hasLease?: boolean } = {}): Promise<boolean> {
    const { runs } = this.#deps;
    const ttl = runExpiry(this.#deps.config, run.startedAt);
    const body = await this.putBody(run.id, emptyBody(run.input), ttl);
    const items = newRunItems(this.#workspaceId, run, { body, ttl, hasLease });
    // Two processes may start the same run of a schedule, of a bulk action or of an evaluation if the first is slow and
    // the second takes it for dead. Ids of other runs are new.
    const isNew = run.replayOf === undefined && run.triggerSource !== 'eval';
    const inPlace = placeOperations(this.#workspaceId, run);
    const turn = run.session === undefined ? [] : await beginOfTurn(this.#workspaceId, run);
    if (items.length === 1 && isNew && inPlace.length === 0 && turn.length === 0) {
      await runs.put(items[0]);
      return true;
    }
    const [head, ...listed] = items;
    // The head alone needs a condition: the other items are only written with it.
    const operations: TransactOperation[] = [
      { op: 'put', item: head, condition: absent() },
      ...listed.map((item) => ({ op: 'put', item }) as const),
      ...inPlace,
      ...turn,
    ];
    const written = await runs.transact(operations);
    if (written.ok) return true;
    // Another writer was faster, or the number of the turn is taken.
    if (turn.length > 0 && written.failed.every((index) => index === operations.length - 1)) return false;
    throw new Error(`the run ${run.id} was started by another process`);
  }

  /** Records that another process continues a durable run. Throws if the run has ended. */
  async continue(runId: string, { deadline, context }: Pick<NewRun, 'deadline' | 'context'>): Promise<void> {
    const { ok } = await this.#deps.runs.update(
      this.#headKey(runId),
      { set: { deadline, context } },
      equals('status', 'running'),
    );
    if (!ok) throw new Error(`the run ${runId} has ended`);
  }

  /** Replaces the body of an unfinished run, to show its output so far. */
  async saveProgress(runId: string, startedAt: number, body: RunBody): Promise<void> {
    const stored = await this.putBody(runId, body, runExpiry(this.#deps.config, startedAt));
    await this.#deps.runs.update(this.#headKey(runId), bodyChanges(stored), exists());
  }

  /**
   * Records the end of a run, once: in one write, from which its usage follows (`core/billing/usage/sum-ended-runs.ts`).
   * Returns false if another process already finished the run. Also returns false if the run was cancelled: it is then
   * recorded as cancelled, whatever its result.
   */
  async finish(
    run: NewRun,
    ofLastTry: RunResult,
    { isErased = false }: { readonly isErased?: boolean } = {},
  ): Promise<boolean> {
    const result = withEarlierTries(run, ofLastTry);
    const { input, output, stdout, stderr, trace, hasContent } = result;
    const ttl = runExpiry(this.#deps.config, run.startedAt);
    const body = await this.putBody(
      run.id,
      { input, output, stdout, stderr, trace, ...(hasContent && { hasContent }) },
      ttl,
    );
    const now = this.#deps.clock.now();
    // What was said in a run may be erased while it runs (`sessions/erase.ts`).
    const isRunning = isErased ? equals('status', 'running') : allOf(equals('status', 'running'), absent('erased'));
    const turn = run.session === undefined ? [] : await endOfTurn(this.#deps, this.#workspaceId, run, { result, now });
    const isRecorded = await this.#recordEnd(
      {
        op: 'update',
        key: this.#headKey(run.id),
        changes: endChanges(run, result, body, now),
        condition: result.status === 'cancelled' ? isRunning : allOf(isRunning, absent('cancel_requested_at')),
      },
      [...turn, ...noteEndOperations(this.#workspaceId, run, now, ttl)],
      turn.length,
    );
    if (isRecorded === 'erased' || (!isRecorded && !isErased && (await this.#isErased(run.id)))) {
      const { eraseEnd } = await import('./sessions/erase-run.ts');
      return eraseEnd(this.#deps, this, this.#workspaceId, { run, result: ofLastTry });
    }
    if (isRecorded) {
      const { status } = result;
      this.#deps.onRunEnd?.({ status, source: run.triggerSource, durationMs: Math.max(0, now - run.startedAt) });
      await this.leaveQueue(run);
      if (result.state !== undefined && run.session !== undefined) {
        const { removeReplaced } = await import('./sessions/state.ts');
        await removeReplaced(this.#deps, { workspaceId: this.#workspaceId, ...run.session }, result.state);
      }
    }
    if (!isRecorded && result.status !== 'cancelled' && (await this.isCancelled(run.id))) {
      const cancelled = {
        ...ofLastTry,
        ...CANCELLED,
        output: null,
        creditsCents: result.cancelledCreditsCents ?? 0,
      };
      await this.finish(run, cancelled, { isErased });
    }
    return isRecorded;
  }

  /**
   * @param notes Writes that belong to the end.
   * @param turns How many of them, at their beginning, end the turn of a session. They fail if that was erased.
   */
  async #recordEnd(end: EndOperation, notes: readonly TransactOperation[], turns: number): Promise<boolean | 'erased'> {
    const { runs, clock } = this.#deps;
    const { key, changes, condition } = end;
    return retryOnConflict<boolean | 'erased'>(clock, `the end of the run ${runIdOf(key)}`, async () => {
      if (notes.length > 0) {
        const written = await runs.transact([end, ...notes]);
        if (written.ok) return true;
        if (written.failed.includes(0)) return false;
        return turns > 0 && written.failed.includes(1) ? 'erased' : undefined;
      }
      if ((await runs.update(key, changes, condition)).ok) return true;
      // A write whose answer was lost is sent again, and then finds its own end.
      const head = await runs.get(key);
      return head !== undefined && hasEndOf(head, changes);
    });
  }

  /** Gives back the place that a run which no longer runs or waits has in a queue. Safe to repeat. */
  async leaveQueue({ id: runId, queueId, heldBy }: NewRun): Promise<void> {
    if (queueId === undefined) return;
    const queue = { workspaceId: this.#workspaceId, queueId };
    // Loaded lazily: few agents have a limit, and smaller functions start faster.
    const { leavePlace, removeEntry } = await import('./queues/queue.ts');
    if (heldBy?.entry !== undefined) await removeEntry(this.#deps, queue, heldBy.entry);
    await leavePlace(this.#deps, queue, runId);
  }

  /** Stores the trace contents of a run, before its end is recorded. */
  async putContent(runId: string, text: string): Promise<void> {
    await this.#deps.blobs.put(contentBlobKey(this.#workspaceId, runId), Buffer.from(text));
  }

  /** Reads the trace contents of a run; empty if none are stored. */
  async content(runId: string): Promise<ContentByEvent> {
    const text = await getLarge(this.#deps, contentBlobKey(this.#workspaceId, runId));
    return text === undefined ? {} : (JSON.parse(text) as ContentByEvent);
  }

  /** Takes a run that failed for good off the list of such runs, because it was replayed. */
  async noteReplay(runId: string): Promise<void> {
    await this.#deps.runs.update(this.#headKey(runId), { remove: ['exhausted'] }, exists('exhausted'));
  }

  /** Marks a running run for cancellation, on any host. Returns false if it is not running. */
  async requestCancel(runId: string): Promise<boolean> {
    const { ok } = await this.#deps.runs.update(
      this.#headKey(runId),
      { set: { cancel_requested_at: isoTime(this.#deps.clock.now()) } },
      equals('status', 'running'),
    );
    return ok;
  }

  /** Notes which run replaces a run that has begun, before that is cancelled. */
  async noteReplacement(runId: string, by: string): Promise<void> {
    const isOpen = allOf(exists(), absent('duration_ms'));
    await this.#deps.runs.update(this.#headKey(runId), { set: { replaced_by: by } }, isOpen);
  }

  /** Whether what was said in this run, which has not ended, was erased. */
  async #isErased(runId: string): Promise<boolean> {
    const head = await this.#deps.runs.get(this.#headKey(runId));
    return head?.erased === true && head.status === 'running';
  }

  /** Whether a cancellation of this run was requested. */
  async isCancelled(runId: string): Promise<boolean> {
    return (await this.#deps.runs.get(this.#headKey(runId)))?.cancel_requested_at !== undefined;
  }

  async find(runId: string): Promise<Run | undefined> {
    const head = await this.#deps.runs.get(this.#headKey(runId));
    return head && this.#read(head);
  }

  /**
   * Finds a run by its id, its request id (`req_...`), or the first 7 or more digits of either
   * (`docs/interface/identifiers.md#run-ids`). Throws NOT_FOUND, and CONFLICT if several runs begin with these digits.
   */
  async findByName(name: string): Promise<Run> {
    const digits = digitsOf(name);
    if (/^[0-9a-f]{7,32}$/.test(digits)) {
      const sk = { beginsWith: digits };
      const { items } = await this.#deps.runs.query({ pk: runPartition(this.#workspaceId, digits), sk, limit: 3 });
      if (items.length > 1) {
        const found = items.map(runIdOf).join(', ');
        throw new PlatformError('CONFLICT', `More than one run begins with "${name}": ${found}. Give more digits.`);
      }
      if (items.length === 1) return this.#read(items[0]!);
    }
    throw new PlatformError(
      'NOT_FOUND',
      `There is no run "${name.slice(0, 64)}" in this workspace; give its id, or the first 7 or more digits of it.`,
    );
  }

  /** Returns those of the runs that exist, in the order of `runIds`. */
  async findAll(runIds: readonly string[]): Promise<Run[]> {
    return (await this.#heads(runIds)).map((head) => this.#read(head));
  }

  /** Reads the input, output and logs of a run; `undefined` if the run does not exist. */
  async body(runId: string): Promise<RunBody | undefined> {
    const head = await this.#deps.runs.get(this.#headKey(runId));
    return head && this.#bodyOf(head);
  }

  /** Reads a run with its body in one step; `undefined` if it does not exist. */
  async withBody(runId: string): Promise<{ readonly run: Run; readonly body: RunBody } | undefined> {
    const head = await this.#deps.runs.get(this.#headKey(runId));
    const body = head && (await this.#bodyOf(head));
    return body && { run: this.#read(head!), body };
  }

  /** Lists the runs of a schedule, newest first. Reads at most the newest 1,000. */
  async listOfSchedule(
    scheduleId: string,
    { status, limit, offset }: { readonly status?: string; readonly limit: number; readonly offset: number },
  ): Promise<RunPage> {
    const ids: string[] = [];
    const query = { pk: schedulePartition(this.#workspaceId, scheduleId), reverse: true, limit: MAX_EXAMINED };
    for await (const { run_id } of queryAll(this.#deps.runs, query)) {
      ids.push(run_id as string);
      if (ids.length === MAX_EXAMINED) break;
    }
    // Without a filter, only the records of this page are read.
    const wanted = status === undefined ? ids.slice(offset, offset + limit) : ids;
    const runs = await this.findAll(wanted);
    if (status === undefined) return { runs, total: ids.length };
    const found = runs.filter((run) => run.status === status);
    return { runs: found.slice(offset, offset + limit), total: found.length };
  }

  /** Returns the newest runs that begin from a turn of this one, newest first: at most `limit`. */
  async branchesOf(runId: string, limit: number): Promise<Run[]> {
    const pk = branchPartition(this.#workspaceId, runId);
    const { items } = await this.#deps.runs.query({ pk, reverse: true, limit });
    return this.findAll(items.map(({ run_id }) => run_id as string));
  }

  /** Returns the sub-calls of a chain: run id -> id of the calling run. */
  async callers(rootRunId: string): Promise<ReadonlyMap<string, string>> {
    const callers = new Map<string, string>();
    const pk = treePartition(this.#workspaceId, rootRunId);
    for await (const item of queryAll(this.#deps.runs, { pk, limit: 1000 })) {
      callers.set(item.run_id as string, item.parent_run_id as string);
    }
    return callers;
  }

  /** Returns the direct sub-calls of a run, oldest first, without those that `isKnown` selects. */
  async subCallsOf({ id, rootRunId }: Run, isKnown: (id: string) => boolean = () => false): Promise<Run[]> {
    const ids = [...(await this.callers(rootRunId))].filter(([called, by]) => by === id && !isKnown(called));
    return (await this.findAll(ids.map(([called]) => called))).sort((a, b) => (a.startedAt < b.startedAt ? -1 : 1));
  }

  /** Returns all runs of a chain, its root and every sub-call, oldest first, with their traces. */
  async tree(rootRunId: string): Promise<{ run: Run; trace: readonly TraceEvent[] }[]> {
    const ids = [rootRunId, ...(await this.callers(rootRunId)).keys()];
    const found = await Promise.all(
      (await this.#heads(ids)).map(async (head) => ({
        run: this.#read(head),
        trace: (await this.#bodyOf(head))?.trace ?? [],
      })),
    );
    return found.sort((a, b) => (a.run.startedAt < b.run.startedAt ? -1 : 1));
  }

  #headKey(runId: string) {
    return headKey(this.#workspaceId, runId);
  }

  #read(head: Item): Run {
    return runFrom(head, this.#deps.clock.now());
  }

  async #heads(ids: readonly string[]): Promise<Item[]> {
    const keys = ids.map((id) => this.#headKey(id));
    return (await getAll(this.#deps.runs, keys)).filter((head) => head !== undefined);
  }

  /** Writes a body to an item or blob unless it is small enough for the head. Returns the attributes of the head. */
  async putBody(runId: string, body: RunBody, ttl: number): Promise<StoredBody> {
    const inHead = { body: body as unknown as Json, body_in: 'head' } as const;
    if (isSurelyWithin(MAX_BYTES_IN_HEAD, inHead.body)) return inHead;
    const text = JSON.stringify(body);
    if (Buffer.byteLength(text) <= MAX_BYTES_IN_HEAD) return inHead;
    if (await putIfLarge(this.#deps, bodyBlobKey(this.#workspaceId, runId), text)) return { body_in: 'blob' };
    await this.#deps.runs.put({ ...bodyKey(this.#workspaceId, runId), ttl, body: body as unknown as Json });
    return { body_in: 'item' };
  }

  async #bodyOf(head: Item): Promise<RunBody | undefined> {
    const runId = runIdOf(head);
    if (head.body_in === 'head') return head.body as unknown as RunBody;
    if (head.body_in === 'item') {
      const item = await this.#deps.runs.get(bodyKey(this.#workspaceId, runId));
      return item?.body as unknown as RunBody | undefined;
    }
    const text = await getLarge(this.#deps, bodyBlobKey(this.#workspaceId, runId));
    return text === undefined ? undefined : (JSON.parse(text) as RunBody);
  }
}
