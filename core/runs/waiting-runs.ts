import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import {
  absent,
  allOf,
  anyOf,
  type Changes,
  type Condition,
  equals,
  exists,
  type Item,
  lessThan,
  type TransactOperation,
} from '#core/ports/table.ts';
import { noteEndOperations, noteOperation } from './destinations/notes.ts';
import {
  beginChanges,
  endWithoutBeginning,
  headKey,
  NO_LONGER_WAITS,
  newRunFrom,
  newRunItems,
  orderKey,
  placeOperations,
  retryChanges,
  runExpiry,
  waitChanges,
  waitingKey,
} from './items.ts';
import {
  endLease,
  endLeaseOperation,
  findLease,
  keepLeaseOperation,
  type Lease,
  putLeaseOperation,
  retryLeaseOperation,
  waitLeaseOperation,
  wakeLeaseOperation,
} from './leases.ts';
import { emptyBody, emptyResult, type NewRun, type RunEnd, type RunResult } from './run.ts';
import { beginOfTurn, endOfTurn, RunStore } from './store.ts';
import { withEarlierTries, withFailedTry } from './usage/earlier-tries.ts';

type WaitingDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'onRunEnd' | 'handOver'>;

interface NextTry {
  /** Epoch milliseconds. */
  readonly nextAt: number;
  /** The lease that this process has of a durable run, and a new one of any other. */
  readonly lease: Lease;
}

/** Builds the changes to the head of a run that was to begin or to continue, and that a rule holds. `ttl` in epoch seconds. */
const heldChanges = ({ queueId, heldBy, hasPlace, continues }: NewRun, ttl: number): Changes => ({
  set: { status: 'queued', queue: queueId, held_by: { ...heldBy! }, has_place: hasPlace, continues, ttl },
});

/** Whether a run has begun, and waits: for people, time or events, or for its turn to continue after that. */
const PAUSED: Condition = anyOf(equals('status', 'waiting'), allOf(equals('status', 'queued'), exists('continues')));
export const isPaused = ({ status, continues }: Item): boolean =>
  status === 'waiting' || (status === 'queued' && continues === true);

/** The changes to the head of a run that waited and is worked on again. */
const CONTINUED_CHANGES: Changes = { set: { status: 'running' }, remove: NO_LONGER_WAITS };

/**
 * The runs of one workspace that wait: for their time, their next try, their turn, or for people, time and events. `items.ts`
 * documents their storage.
 */
export class WaitingRuns {
  readonly #deps: WaitingDeps;
  readonly #workspaceId: string;
  readonly #records: RunStore;

  constructor(deps: WaitingDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
    this.#records = new RunStore(deps, workspaceId);
  }

  /**
   * Records a run that waits for its time, or for its turn, with its lease, and counts it. Returns false if the workspace has
   * `max` of them, and `taken` if another run has its turn in its session.
   *
   * @param alongside Writes of the rule for which it waits.
   */
  async queue(
    run: NewRun,
    lease: Lease,
    { max, alongside = [] }: { readonly max: number; readonly alongside?: readonly TransactOperation[] },
  ): Promise<boolean | 'taken'> {
    const { runs, config, clock } = this.#deps;
    if (max < 1) return false;
    const ttl = runExpiry(config, lease.until);
    const body = await this.#records.putBody(run.id, emptyBody(run.input), ttl);
    const [head, ...listed] = newRunItems(this.#workspaceId, run, { body, ttl, hasLease: true });
    const turn = await beginOfTurn(this.#workspaceId, run);
    const what = `the number of waiting runs of the workspace ${this.#workspaceId}`;
    return retryOnConflict<boolean | 'taken'>(clock, what, async () => {
      const operations: TransactOperation[] = [
        { op: 'put', item: head, condition: absent() },
        { ...this.#count(1), condition: anyOf(absent('count'), lessThan('count', max)) },
        putLeaseOperation(lease),
        ...listed.map((item) => ({ op: 'put', item }) as const),
        ...alongside,
        ...turn,
      ];
      const written = await runs.transact(operations);
      if (written.ok) return true;
      if (written.failed.includes(1)) return false;
      if (turn.length > 0 && written.failed.includes(operations.length - 1)) return 'taken';
      if (written.failed.length > 0) throw new Error(`the run ${run.id} was started by another process`);
      return undefined;
    });
  }

  /** Returns the number of runs of the workspace that wait. */
  async count(): Promise<number> {
    return ((await this.#deps.runs.get(waitingKey(this.#workspaceId)))?.count as number | undefined) ?? 0;
  }

  /**
   * Records that a run that waited begins now, with the lease that this process has of it. A run that is not durable ends
   * its lease, so that no process begins it again. Returns false if the run was cancelled, or if another process has it.
   */
  async begin(run: NewRun, lease: Lease): Promise<boolean> {
    const { config } = this.#deps;
    const begins: TransactOperation[] = [
      {
        op: 'update',
        key: headKey(this.#workspaceId, run.id),
        changes: beginChanges(this.#workspaceId, run, runExpiry(config, run.startedAt)),
        condition: equals('status', 'queued'),
      },
      this.#count(-1),
      run.isDurable ? keepLeaseOperation(this.#deps, lease) : endLeaseOperation(this.#deps, lease),
      ...placeOperations(this.#workspaceId, run),
    ];
    return this.#write(`the beginning of the run ${run.id}`, begins);
  }

  /**
   * Records that a rule holds a run which was to begin, or to continue after it waited (`run.heldBy`). Returns false if the
   * run was cancelled, or if another process has it.
   */
  async hold(run: NewRun, lease: Lease, alongside: readonly TransactOperation[]): Promise<boolean> {
    const { config } = this.#deps;
    const { until, due } = run.heldBy!;
    const operations: TransactOperation[] = [
      {
        op: 'update',
        key: headKey(this.#workspaceId, run.id),
        changes: heldChanges(run, runExpiry(config, until)),
        condition: run.continues
          ? allOf(equals('status', 'waiting'), absent('cancel_requested_at'))
          : equals('status', 'queued'),
      },
      retryLeaseOperation(this.#deps, lease, {
        ...{ dueAt: due ?? until, isHeld: true },
        reason: run.continues ? 'turn' : 'later',
      }),
      ...alongside,
    ];
    return this.#write(`the waiting of the run ${run.id}`, operations);
  }

  /**
   * Records that a try of a run failed, and that the run waits for the next one. Returns false if the run was cancelled, or
   * if another process has it.
   */
  async retry(run: NewRun, result: RunResult, { nextAt, lease }: NextTry): Promise<boolean> {
    const { clock, config } = this.#deps;
    const ttl = runExpiry(config, nextAt);
    const { input, output, stdout, stderr, trace } = result;
    const body = await this.#records.putBody(run.id, { input, output, stdout, stderr, trace }, ttl);
    const retries = withFailedTry(run, run.retries!, result, clock.now());
    return this.#pause(run, [
      {
        op: 'update',
        key: headKey(this.#workspaceId, run.id),
        changes: retryChanges(retries, body, { nextAt, ttl }),
        condition: allOf(equals('status', 'running'), absent('cancel_requested_at')),
      },
      retryLeaseOperation(this.#deps, lease, { dueAt: nextAt, isHeld: run.isDurable === true }),
    ]);
  }

  /**
   * Records that a run waits for people, time or events, until `dueAt` (epoch milliseconds). Returns false if the run was
   * cancelled, if another process has it, or if something was decided since this one took it.
   */
  async wait(run: NewRun, lease: Lease, dueAt: number): Promise<boolean> {
    const { clock, config } = this.#deps;
    const ttl = runExpiry(config, dueAt);
    const stored = await this.#records.body(run.id);
    // Written again, so that it is kept as long as the run.
    const body = await this.#records.putBody(run.id, stored ?? emptyBody(run.input), ttl);
    return this.#pause(run, [
      {
        op: 'update',
        key: headKey(this.#workspaceId, run.id),
        changes: waitChanges(body, ttl),
        condition: allOf(equals('status', 'running'), absent('cancel_requested_at')),
      },
      waitLeaseOperation(this.#deps, lease, dueAt),
      ...(run.isAnnounced
        ? [
            noteOperation(
              { workspaceId: this.#workspaceId, runId: run.id, about: `waiting#${lease.holder}` },
              { at: clock.now(), ttl, until: dueAt },
            ),
          ]
        : []),
    ]);
  }

  /**
   * Counts a run in progress that begins to wait, and gives its place in a queue to the next one: in the same write, for
   * another process may continue the run at once.
   */
  async #pause(run: NewRun, pauses: readonly TransactOperation[]): Promise<boolean> {
    const operations = [...pauses, this.#count(1)];
    if (run.queueId === undefined) return this.#write(`the waiting of the run ${run.id}`, operations);
    // Loaded lazily: few agents have a limit, and smaller functions start faster.
    const { leavePlace } = await import('./queues/queue.ts');
    const queue = { workspaceId: this.#workspaceId, queueId: run.queueId };
    return leavePlace(this.#deps, queue, run.id, operations);
  }

  /**
   * Records that a run that waited for people, time or events is worked on again. Returns false if it does not wait, or if an
   * operation `alongside` fails.
   */
  async continue(runId: string, alongside: readonly TransactOperation[] = []): Promise<boolean> {
    const operations: TransactOperation[] = [
      { op: 'update', key: headKey(this.#workspaceId, runId), changes: CONTINUED_CHANGES, condition: PAUSED },
      this.#count(-1),
      ...alongside,
    ];
    return this.#write(`the continuation of the run ${runId}`, operations);
  }

  /**
   * Marks a run that has begun and waits for cancellation, and makes its lease due: the process that takes it
   * up ends it. Returns false if it does not wait.
   */
  async requestCancel(runId: string): Promise<boolean> {
    const { runs, clock } = this.#deps;
    return retryOnConflict(clock, `the cancellation of the run ${runId}`, async () => {
      const lease = await findLease(this.#deps, runId);
      if (lease === undefined) return false;
      const written = await runs.transact([
        {
          op: 'update',
          key: headKey(this.#workspaceId, runId),
          changes: { set: { cancel_requested_at: isoTime(clock.now()) } },
          condition: PAUSED,
        },
        wakeLeaseOperation(this.#deps, lease),
      ]);
      if (written.ok) return true;
      return written.failed.includes(0) ? false : undefined;
    });
  }

  /**
   * Ends a run that waits for its time, its next try, or its turn to begin. Returns false if it does not, or is not one that
   * `isMeant`.
   */
  async end(runId: string, end: RunEnd, isMeant: (run: NewRun) => boolean = () => true): Promise<boolean> {
    const { runs, clock, config } = this.#deps;
    const head = await runs.get(headKey(this.#workspaceId, runId));
    if (head === undefined) return false;
    const now = clock.now();
    const waited = newRunFrom(head);
    if (waited.continues || !isMeant(waited)) return false;
    const hasBegun = head.next_try_at !== undefined;
    const run: NewRun = hasBegun ? waited : { ...waited, startedAt: now };
    const result = withEarlierTries(run, emptyResult(end, null));
    const ttl = runExpiry(config, now);
    const turn = await endOfTurn(this.#deps, this.#workspaceId, run, { result, now });
    const operations: TransactOperation[] = [
      {
        op: 'update',
        key: headKey(this.#workspaceId, runId),
        changes: endWithoutBeginning(run, result, { endedAt: now, ttl }),
        condition: allOf(equals('status', 'queued'), absent('continues')),
      },
      this.#count(-1),
      ...noteEndOperations(this.#workspaceId, run, now, ttl),
    ];
    const isEnded = await retryOnConflict(clock, `the end of the run ${runId}`, async () => {
      const written = await runs.transact([...operations, ...turn]);
      if (written.ok) return true;
      if (written.failed.includes(0)) return false;
      // Its session was erased.
      if (written.failed.includes(operations.length)) turn.pop();
      return undefined;
    });
    if (!isEnded) return false;
    this.#deps.onRunEnd?.({ status: end.status, source: run.triggerSource, durationMs: now - run.startedAt });
    // A transaction has no room for these two. If the process dies here, who takes the lease finds that the run has ended.
    await Promise.all([
      endLease(this.#deps, runId),
      runs.update(orderKey(this.#workspaceId, runId), { set: { ttl: epochSeconds(now) } }, exists()),
      this.#records.leaveQueue(run),
    ]);
    return true;
  }

  /** Returns false, and changes nothing, if a condition does not hold. */
  #write(what: string, operations: readonly TransactOperation[]): Promise<boolean> {
    return retryOnConflict(this.#deps.clock, what, async () => {
      const written = await this.#deps.runs.transact(operations);
      if (written.ok) return true;
      return written.failed.length > 0 ? false : undefined;
    });
  }

  #count(count: 1 | -1) {
    return { op: 'update', key: waitingKey(this.#workspaceId), changes: { add: { count } } } as const;
  }
}
