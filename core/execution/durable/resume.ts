import { admit, releaseLeaseOf } from '#core/accounts/limits/admission.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { ANYONE, findAnyVersion } from '#core/agents/store.ts';
import type { RunContext } from '#core/base/caller.ts';
import { hasCode, isPlatformError, PlatformError, shownError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { hasEnded, type RunStatus } from '#core/base/run-kinds.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { checkBudgets, takeBudgetPlace } from '#core/billing/budgets/admission.ts';
import { commitSpent, releaseRun } from '#core/billing/budgets/under-way.ts';
import { refund } from '#core/billing/credits/ledger.ts';
import { paymentOf } from '#core/billing/credits/payment.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { refOf } from '#core/manifest/references.ts';
import type { Deps, RunJob } from '#core/ports/deps.ts';
import { headKey, newRunFrom, placeOperations } from '#core/runs/items.ts';
import {
  dropLease,
  dueLeases,
  endLease,
  findLease,
  giveBackLease,
  isOverdue,
  type Lease,
  takeLease,
} from '#core/runs/leases.ts';
import { knownOf, toldOf } from '#core/runs/lost-run.ts';
import { cancelledError, emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import { RunStore } from '#core/runs/store.ts';
import { isPaused, WaitingRuns } from '#core/runs/waiting-runs.ts';
import type { Admitted } from '../calls/admit.ts';
import { finishStarted, liveEventsOf } from '../calls/call.ts';
import { type PreparedCall, prepareCall } from '../calls/prepare.ts';
import { ProgramSteps } from '../steps/store.ts';
import { beginWaiting } from './begin-waiting.ts';
import { announceRun, DurableRun, keptUntil } from './durable-run.ts';
import { Journal, lastProgram, type Step } from './journal.ts';
import { endOrder, findOrder, lastEndOf, type Order, type OrderedCall } from './order.ts';

/** Number of times that a run is taken up without finishing a turn in between. */
const MAX_TAKEN_IN_TURN = 5;

/** Time until a run that waited looks for room again, plus up to as much at random. */
const NO_ROOM_MS = 5_000;

/**
 * Takes up all runs that no process works on: their process died or left them, or their time has come. With `all`, takes
 * every run: use it only while no other process can be working on any. Resolves once all have begun.
 */
export async function resumeRuns(deps: Deps, { all = false }: { readonly all?: boolean } = {}): Promise<void> {
  let overdue = 0;
  for await (const lease of dueLeases(deps, { all })) {
    // At the start of a host, all were left for as long as it was stopped.
    if (!all && isOverdue(lease, deps.clock.now())) overdue += 1;
    const failed = (error: unknown): undefined => {
      deps.log.error('run not continued', { run_id: lease.runId, error: String(error) });
    };
    if (lease.reason !== 'later' && lease.reason !== 'retry')
      void deps.background(takeUp(deps, lease, { isFree: all }).catch(failed));
    else {
      // One after another: thousands may begin at the same time.
      const rest = await takeUpWaiting(deps, lease, { isFree: all }).catch(failed);
      if (rest !== undefined) void deps.background(rest.end().catch(failed));
    }
  }
  deps.onRunsOverdue?.(overdue);
}

/** Takes up one run, and resolves when it has ended or left this process. Safe to repeat. */
export async function resumeRun(deps: Deps, { runId }: RunJob): Promise<void> {
  const lease = await findLease(deps, runId);
  if (lease !== undefined) await takeUp(deps, lease, { isFree: false });
}

/**
 * Whether the workspace of a run moves to another cell, or has moved: no process then takes up its runs. Programs that work by
 * themselves are looked at until the workspace is frozen.
 */
async function moves(deps: Deps, { workspaceId, reason }: Lease): Promise<boolean> {
  const move = (await findWorkspace(deps, workspaceId))?.move;
  return move !== undefined && !(move.state === 'draining' && reason === 'look');
}

/** Begins a run whose time has come. Returns its rest. */
async function takeUpWaiting(deps: Deps, free: Lease, { isFree }: { readonly isFree: boolean }) {
  if (await moves(deps, free)) return undefined;
  const head = await deps.runs.get(headKey(free.workspaceId, free.runId));
  if (head?.status === 'queued') return beginWaiting(deps, free, head, { isFree });
  await endLease(deps, free.runId);
  return undefined;
}

async function takeUp(deps: Deps, free: Lease, { isFree }: { readonly isFree: boolean }): Promise<void> {
  const { workspaceId, runId } = free;
  const [head, isAway] = await Promise.all([deps.runs.get(headKey(workspaceId, runId)), moves(deps, free)]);
  if (isAway) return;
  const isWaiting = head !== undefined && isPaused(head);
  if (head?.status === 'queued' && !isWaiting) return (await beginWaiting(deps, free, head, { isFree }))?.end();
  // Its process died before it wrote the record, or after it wrote the end.
  if (head === undefined || hasEnded(head.status as RunStatus)) {
    if (isFree || free.until <= deps.clock.now()) await removeAll(deps, free);
    return;
  }
  const runs = new RunStore(deps, workspaceId);
  const record: NewRun = { ...newRunFrom(head), input: (await runs.body(runId))?.input ?? null };
  let lease: Lease | undefined;
  let journal: Journal | undefined;
  let hasBegun = false;
  try {
    const order = await findOrder(deps, workspaceId, runId);
    if (order !== undefined) {
      const place = { workspaceId, runId, seal: order.seal, keptUntil: keptUntil(lastEndOf(record, order.call)) };
      journal = await Journal.read(deps, place);
    }
    const turn = await progressOf(deps, free, order, journal);
    lease = await takeLease(deps, free, { turn, isFree });
    if (lease === undefined) return;
    deps.log.info('run taken up', { run_id: runId, attempt: lease.attempt, reason: free.reason });
    if (isWaiting) await announceRun(deps, { workspaceId, runId });
    if (head.cancel_requested_at !== undefined) throw cancelledError();
    if (order === undefined || journal === undefined) {
      throw new PlatformError('INTERNAL_ERROR', 'The platform stopped while this run was in progress.');
    }
    if (lease.takenInTurn > MAX_TAKEN_IN_TURN) throw unlucky();
    const { call } = order;
    const { context } = head;
    const prepared = await preparedAgain(deps, { call, record, context, lease, journal, isWaiting });
    if (isWaiting && !(await takePlacesAgain(deps, { prepared, record, lease }))) return;
    await journal.write({ type: 'attempt', attempt: lease.attempt });
    const admitted = await continued(deps, prepared, { record, lease, journal, isWaiting });
    hasBegun = true;
    await goOn(deps, prepared, admitted);
  } catch (error) {
    if (isRunContinues(error)) return;
    if (lease !== undefined && hasBegun) throw error;
    lease ??= await takeLease(deps, free, { turn: free.turn, isFree });
    if (lease === undefined) return;
    const isDamaged = hasCode(error, 'DAMAGED');
    if (!isPlatformError(error) && !isDamaged) {
      deps.log.error('run not continued', { run_id: runId, error: String(error) });
      // A fault of the host may pass: the next process tries again once this lease has ended.
      if (lease.takenInTurn <= MAX_TAKEN_IN_TURN) return;
    }
    const message = isDamaged ? (error as Error).message : 'The platform failed to continue the run.';
    if (journal !== undefined) await endProgram(deps, journal.past);
    if (isWaiting) await new WaitingRuns(deps, workspaceId).continue(runId);
    await endWithout(deps, record, lease, endedWith(shownError(error, message)));
  }
}

/** Ends the program of a run that does not continue, if it works by itself. Safe to repeat. */
async function endProgram({ sandbox }: Pick<Deps, 'sandbox'>, past: readonly Step[]): Promise<void> {
  const step = lastProgram(past);
  if (step?.ref !== undefined) await (await sandbox.attach?.(step.ref))?.close();
}

/** Returns a number that grows when the run finishes a turn, or its program a step. */
async function progressOf(
  deps: Deps,
  run: Pick<Lease, 'workspaceId' | 'runId'>,
  order: Order | undefined,
  journal: Journal | undefined,
): Promise<number> {
  if (order?.call.agent.definition.durable?.steps !== true) return journal?.turn ?? 0;
  return (await (await ProgramSteps.open(deps, run))?.progress()) ?? 0;
}

/**
 * Takes its turn, and a place among the concurrent calls, for a run that waited without them. Returns false if the run waits
 * on: for its turn, or because there is no room. Throws BUDGET_EXCEEDED, and TIMEOUT if its turn did not come in time.
 */
async function takePlacesAgain(
  deps: Deps,
  { prepared, record, lease }: { readonly prepared: PreparedCall; readonly record: NewRun; readonly lease: Lease },
): Promise<boolean> {
  const { agent, lineage, workspace, turn } = prepared;
  if (turn?.concurrency !== undefined) {
    // Loaded lazily: few agents have a limit.
    const { takeTurnAgain } = await import('../queues/take-turn.ts');
    if (!(await takeTurnAgain(deps, { prepared, lease, waiting: record }, turn.concurrency))) return false;
  }
  if (lineage.parentRunId !== undefined) return true;
  const deadline = record.deadline + lease.idleMs;
  await takeBudgetPlace(deps, workspace, { runId: record.id, agent, priceCents: 0, deadline });
  try {
    const { quota: kind } = engineTraits(agent);
    await admit(deps, {
      workspace,
      kind,
      runId: record.id,
      deadline,
      isPaid: false,
      isCounted: true,
      isContinued: true,
    });
    return true;
  } catch (error) {
    if (!hasCode(error, 'RATE_LIMITED')) throw error;
    await releaseRun(deps, workspace.id, record.id);
    // A run that got its place while it waited keeps it.
    if (!record.hasPlace) await new RunStore(deps, workspace.id).leaveQueue(record);
    const dueAt = Math.round(deps.clock.now() + NO_ROOM_MS * (1 + Math.random()));
    const given = { ...lease, attempt: lease.attempt - 1, takenInTurn: 0 };
    await giveBackLease(deps, given, { reason: 'decision', dueAt });
    return false;
  }
}

const unlucky = (): PlatformError =>
  new PlatformError(
    'INTERNAL_ERROR',
    `The run was interrupted ${MAX_TAKEN_IN_TURN} times without finishing a turn, and was given up.`,
    { hint: 'A tool may use more memory than the machine has. The trace of the run shows its last call.' },
  );

/** Prepares a run that another process began, as its call was prepared. Writes nothing. */
async function preparedAgain(
  deps: Deps,
  {
    call,
    record,
    context: contextBefore,
    lease,
    journal,
    isWaiting,
  }: {
    readonly call: OrderedCall;
    readonly record: NewRun;
    readonly context: Json | undefined;
    readonly lease: Lease;
    readonly journal: Journal;
    readonly isWaiting: boolean;
  },
): Promise<PreparedCall> {
  const workspace = await findWorkspace(deps, lease.workspaceId);
  if (workspace === undefined) throw new PlatformError('NOT_FOUND', 'The workspace of the run was deleted.');
  // A look at a program only reads its output. Budgets stop what begins or is taken up, not what is at work.
  const isTakenUp = call.lineage.parentRunId === undefined && lease.reason !== 'look' && !isWaiting;
  if (isTakenUp) await checkBudgets(deps, workspace, call.agent);
  // A program may have worked while no process did. One that does steps ends when it waits.
  const hasSteps = call.agent.definition.durable?.steps === true;
  const idleMs = engineTraits(call.agent).hasProgram && !hasSteps ? 0 : lease.idleMs;
  // The code of a deleted version is removed.
  if (isWaiting && hasSteps && (await findAnyVersion(deps, call.agent.id, ANYONE)) === undefined) {
    throw new PlatformError('NOT_FOUND', `${refOf(call.agent)} was deleted while the run waited.`);
  }
  const { serviceKey } = lastProgram(journal.past) ?? {};
  // A program that works by itself has the key of its run already.
  const issued = serviceKey !== undefined && {
    issued: { runId: record.id, serviceKey, context: contextBefore as unknown as RunContext },
  };
  return prepareCall(deps, { ...call, workspace, receivedAt: record.startedAt, idleMs, ...issued });
}

/** Records that a run is worked on again. */
async function continued(
  deps: Deps,
  prepared: PreparedCall,
  {
    record,
    lease,
    journal,
    isWaiting,
  }: {
    readonly record: NewRun;
    readonly lease: Lease;
    readonly journal: Journal;
    readonly isWaiting: boolean;
  },
): Promise<Admitted> {
  const { workspace, deadline } = prepared;
  const context = prepared.issued?.context as unknown as Json | undefined;
  const inPlace = placeOperations(workspace.id, record);
  if (isWaiting && !(await new WaitingRuns(deps, workspace.id).continue(record.id, inPlace))) {
    throw new Error(`the run ${record.id} does not wait any more, or has lost its place`);
  }
  await new RunStore(deps, workspace.id).continue(record.id, { deadline, context });
  const durable = new DurableRun(deps, prepared, lease, journal);
  return {
    record: { ...record, deadline },
    payment: paymentOf(deps, prepared),
    durable,
    releasePlaces: () => releasePlaces(deps, prepared),
    releaseLease: () => releaseLeaseOf(deps, workspace, prepared.runId),
    async commitSpent(micro) {
      if (workspace.budgets) await commitSpent(deps, { workspaceId: workspace.id, runId: prepared.runId }, micro);
    },
    forget: () => durable.end(),
  };
}

async function goOn(deps: Deps, prepared: PreparedCall, admitted: Admitted): Promise<void> {
  const { count, events } = await toldOf(deps, { workspaceId: prepared.workspace.id, runId: prepared.runId });
  try {
    await finishStarted(deps, prepared, admitted, {
      live: liveEventsOf(deps, prepared, count),
      past: events,
    });
  } catch (error) {
    // The error of a failed run is in its record.
    if (!isPlatformError(error)) throw error;
  }
}

/** Records the end of a run that cannot continue. */
async function endWithout(
  deps: Deps,
  record: NewRun,
  lease: Lease,
  end: Parameters<typeof emptyResult>[0],
): Promise<void> {
  const { workspaceId } = lease;
  const runs = new RunStore(deps, workspaceId);
  const known = await knownOf(deps, { workspaceId, runId: record.id });
  await runs.finish(record, { ...emptyResult(end, record.input), ...known });
  if (record.isAnnounced) {
    const { announceEnd } = await import('#core/runs/destinations/announce.ts');
    void deps.background(announceEnd(deps, { workspaceId, runId: record.id }));
  }
  const workspace = await findWorkspace(deps, workspaceId);
  if (workspace !== undefined) await releaseLeaseOf(deps, workspace, record.id);
  await refund(deps, workspaceId, record.id);
  await removeAll(deps, lease);
}

async function removeAll(deps: Deps, { workspaceId, runId }: Lease): Promise<void> {
  // Loaded lazily: few runs wait, and smaller functions start faster.
  const { cancelApprovals } = await import('#core/runs/approvals/store.ts');
  // Before the lease is dropped: if the process dies in between, the next one takes it up and comes here again.
  await cancelApprovals(deps, { workspaceId, runId });
  await Promise.all([dropLease(deps, runId), endOrder(deps, workspaceId, runId)]);
}

async function releasePlaces(
  deps: Deps,
  { workspace, runId }: { readonly workspace: Workspace; readonly runId: string },
): Promise<void> {
  await Promise.all([releaseLeaseOf(deps, workspace, runId), releaseRun(deps, workspace.id, runId)]);
}
