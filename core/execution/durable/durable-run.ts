import { planOf } from '#core/base/plans.ts';
import { mayWait } from '#core/manifest/approval.ts';
import type { Deps, RunJob } from '#core/ports/deps.ts';
import type { AnnounceDeps } from '#core/runs/destinations/announce.ts';
import { dropLease, firstLease, giveBackLease, keepLease, type Lease, putLease } from '#core/runs/leases.ts';
import type { NewRun } from '#core/runs/run.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import type { Call, PreparedCall } from '../calls/prepare.ts';
import { ProgramSteps } from '../steps/store.ts';
import { Journal, type JournalPlace } from './journal.ts';
import { endOrder, orderedUntil, putOrder } from './order.ts';
import type { Waits } from './waits.ts';

type DurableDeps = AnnounceDeps & Pick<Deps, 'ids' | 'background' | 'handOver' | 'wakeRun' | 'onRunEnd'>;

/** Time after the end of a run for which its journal is kept if nothing removes it. */
const KEPT_AFTER_END_MS = 24 * 3600 * 1000;

/** A host that starts processes by the minute looks at programs that work by themselves about as often. */
const LOOK_EVERY_MS = 30_000;

/** Returns until when steps of a journal are kept, if the run has ended by a time (epoch milliseconds). */
export const keptUntil = (endedBy: number): number => endedBy + KEPT_AFTER_END_MS;

/** Writes the first steps of a run whose record does not exist yet. */
export type BeginJournal = (place: JournalPlace) => Promise<Journal>;

/**
 * Stores the order of a run, and writes the journal with which it begins.
 *
 * @param until Epoch milliseconds by which the run has certainly ended.
 */
export async function putBeginning(
  deps: DurableDeps,
  call: Call,
  { until, beginJournal }: { readonly until: number; readonly beginJournal?: BeginJournal | undefined },
): Promise<Journal> {
  const { runId, workspace } = call;
  const seal = await putOrder(deps, call, until);
  const place = { workspaceId: workspace.id, runId, seal, keptUntil: keptUntil(until) };
  if (beginJournal === undefined) return Journal.begin(deps, place);
  return beginJournal(place).catch(async (error) => {
    await endOrder(deps, workspace.id, runId);
    throw error;
  });
}

/** A durable run in this process, which holds its lease. */
export class DurableRun {
  readonly journal: Journal;
  readonly lease: Lease;
  /** Maximum size of the files that move with the run to another sandbox. */
  readonly snapshotBytes: number;
  /** Aborted with {@link RunContinuesError} when the run has to leave this process at once. */
  readonly leaving: AbortSignal;
  readonly #deps: DurableDeps;
  readonly #call: PreparedCall;
  readonly #startedAt: number;
  readonly #stop: () => void;

  /** Continues a run whose lease this process has taken. */
  constructor(deps: DurableDeps, call: PreparedCall, lease: Lease, journal: Journal) {
    this.#deps = deps;
    this.#call = call;
    this.snapshotBytes = planOf(deps, call.workspace).snapshot_bytes;
    this.lease = lease;
    this.journal = journal;
    this.#startedAt = deps.clock.now();
    const { lost, stop } = keepLease(deps, lease);
    const leaving = new AbortController();
    const onLost = (): void => leaving.abort(lost.reason);
    const onStop = (): void => leaving.abort(new RunContinuesError(lease.runId, 'handover'));
    const stopped = deps.handOver?.stopped;
    lost.addEventListener('abort', onLost);
    if (stopped?.aborted) onStop();
    else stopped?.addEventListener('abort', onStop);
    this.leaving = leaving.signal;
    this.#stop = () => {
      stop();
      stopped?.removeEventListener('abort', onStop);
    };
  }

  /** Stores the order of a run and takes its lease, before its record is written. */
  static async begin(deps: DurableDeps, call: PreparedCall, beginJournal?: BeginJournal): Promise<DurableRun> {
    const { runId, workspace } = call;
    const beginning = putBeginning(deps, call, { until: orderedUntil(call), beginJournal });
    // To write the journal of another run may take longer than a lease lasts.
    if (beginJournal !== undefined) await beginning;
    const lease = firstLease(deps, { workspaceId: workspace.id, runId });
    const [journal] = await Promise.all([beginning, putLease(deps, lease)]);
    return new DurableRun(deps, call, lease, journal);
  }

  /**
   * Whether the run should leave this process before its next turn.
   *
   * @param hasProgressed Whether it has asked its model here: a run must not pass from process to process in vain.
   */
  mustLeave(hasProgressed: boolean): boolean {
    const { stopping, afterMs } = this.#deps.handOver ?? {};
    if (stopping?.aborted) return true;
    return hasProgressed && afterMs !== undefined && this.#deps.clock.now() - this.#startedAt >= afterMs;
  }

  /** Stops renewing the lease. If nothing else follows, another process takes the run up. */
  rest(): void {
    this.#stop();
  }

  /** Loaded lazily: few runs wait, and smaller functions start faster. */
  async waits(): Promise<Waits> {
    const { Waits } = await import('./waits.ts');
    return new Waits(this.#deps, this.#call, this.lease);
  }

  async steps(): Promise<ProgramSteps | undefined> {
    if (this.#call.agent.definition.durable?.steps !== true) return undefined;
    return ProgramSteps.open(this.#deps, this.lease);
  }

  /** The run has ended: removes what only its continuation needs. */
  async end(): Promise<void> {
    this.#stop();
    const { runId, workspaceId } = this.lease;
    if (mayWait(this.#call.agent.definition)) {
      const { cancelApprovals } = await import('#core/runs/approvals/store.ts');
      await cancelApprovals(this.#deps, { workspaceId, runId });
      await announceRun(this.#deps, { workspaceId, runId });
    }
    await Promise.all([dropLease(this.#deps, runId), endOrder(this.#deps, workspaceId, runId)]);
  }

  nextLook(): number | undefined {
    const { startRun, afterMs = Number.POSITIVE_INFINITY, lookAfterMs = afterMs } = this.#deps.handOver ?? {};
    const now = this.#deps.clock.now();
    const isLong = now - this.#startedAt >= Math.min(afterMs, lookAfterMs);
    // A process that was asked to look does nothing else.
    const leaves = startRun !== undefined && (isLong || this.lease.reason === 'look');
    return leaves ? now + LOOK_EVERY_MS : undefined;
  }

  /**
   * Lets the run wait for people, time or events, until `dueAt` (epoch milliseconds). Returns false if it has to go on: it
   * was cancelled, or something was decided meanwhile.
   */
  async wait(record: NewRun, dueAt: number): Promise<boolean> {
    this.#stop();
    const { WaitingRuns } = await import('#core/runs/waiting-runs.ts');
    const { workspaceId, runId } = this.lease;
    const waits = await new WaitingRuns(this.#deps, workspaceId).wait(record, this.lease, dueAt);
    await announceRun(this.#deps, { workspaceId, runId });
    return waits;
  }

  /** Gives the run to another process, unless one has it already; for `look`, from `until` (epoch milliseconds) on. */
  async leave({ departure, until }: Pick<RunContinuesError, 'departure' | 'until'> = HANDOVER): Promise<void> {
    this.#stop();
    const { runId, workspaceId } = this.lease;
    const isLook = departure === 'look';
    const hasWaited = departure === 'wait';
    const lease = isLook || hasWaited ? { ...this.lease, takenInTurn: 0 } : this.lease;
    const reason = isLook ? 'look' : hasWaited ? 'decision' : 'handover';
    if (!(await giveBackLease(this.#deps, lease, { reason, ...(isLook && { dueAt: until }) })) || isLook) return;
    if (hasWaited) await this.#deps.wakeRun?.({ workspaceId, runId });
    else await askForStart(this.#deps, { workspaceId, runId });
  }
}

/** Begins to announce what a run asks, and what was decided about it. Loaded lazily: few runs wait. */
export async function announceRun(deps: AnnounceDeps & Pick<Deps, 'background'>, run: RunJob): Promise<void> {
  const { announceWaiting } = await import('#core/runs/destinations/announce.ts');
  void deps.background(announceWaiting(deps, run));
}

const HANDOVER = { departure: 'handover' } as const;

/** Asks another process to take up a run. A lost request is made up for by the next sweep. */
export async function askForStart(
  { handOver, log }: Pick<Deps, 'handOver' | 'log'>,
  job: { readonly workspaceId: string; readonly runId: string },
): Promise<void> {
  await handOver?.startRun?.(job).catch((error: unknown) => {
    log.warn('handed-over run not started until the next minute', { run_id: job.runId, error: String(error) });
  });
}
