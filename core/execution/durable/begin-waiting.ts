import { releaseLeaseOf } from '#core/accounts/limits/admission.ts';
import { isUsedUp, type LimitError } from '#core/accounts/limits/rate-limit.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { ANYONE, findAnyVersion } from '#core/agents/store.ts';
import { hasCode, isPlatformError, isRefusedByRule, PlatformError, shownError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { refund } from '#core/billing/credits/ledger.ts';
import { refOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Item } from '#core/ports/table.ts';
import { newRunFrom } from '#core/runs/items.ts';
import { giveBackLease, keepLease, type Lease, takeWaiting } from '#core/runs/leases.ts';
import { toldOf } from '#core/runs/lost-run.ts';
import { attemptOf } from '#core/runs/retries.ts';
import { endedWith, type NewRun } from '#core/runs/run.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import { RunStore } from '#core/runs/store.ts';
import type { TraceEvent } from '#core/runs/trace/trace.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import { type Admitted, takePlaces } from '../calls/admit.ts';
import { finishStarted, liveEventsOf } from '../calls/call.ts';
import { type Call, isDurable, type PreparedCall, prepareCall } from '../calls/prepare.ts';
import { DurableRun, keptUntil } from './durable-run.ts';
import { Journal } from './journal.ts';
import { endOrder, findOrder, type Order, orderedUntil, TRIED_FOR_MS } from './order.ts';

/** Time until the next try, plus up to as much again at random: runs of the same time do not all come at once. */
const PAUSE_MS = 5_000;
/** Number of processes that may die while they begin the run. */
const MAX_TAKEN = 5;

/** A run that waited and has begun in this process. */
interface Begun {
  readonly prepared: PreparedCall;
  readonly admitted: Admitted;
  /** For a further try: what the earlier ones did. */
  readonly before?: { readonly trace: readonly TraceEvent[]; readonly eventCount: number };
}

/**
 * Begins a run whose time has come, or its next try: prepares and admits its call as if it came now. If the workspace has
 * no room, the run waits on; any other refusal ends it. Returns the rest of the run, until its end; `undefined` if it has
 * not begun.
 *
 * The record turns from `queued` to `running` once, in one write with the end of the lease. So no run begins twice, and
 * none is lost before it has begun.
 */
export async function beginWaiting(
  deps: Deps,
  free: Lease,
  head: Item,
  { isFree = false }: { readonly isFree?: boolean } = {},
): Promise<{ readonly end: () => Promise<void> } | undefined> {
  if (deps.handOver?.stopping?.aborted) return undefined;
  const lease = await takeWaiting(deps, free, { isFree });
  if (lease === undefined) return undefined;
  const { stop } = keepLease(deps, lease);
  try {
    const begun = await begin(deps, lease, newRunFrom(head));
    return begun && { end: () => finish(deps, begun) };
  } catch (error) {
    await refuse(deps, lease, error);
    return undefined;
  } finally {
    stop();
  }
}

async function begin(deps: Deps, lease: Lease, waiting: NewRun): Promise<Begun | undefined> {
  const { workspaceId, runId } = lease;
  if (lease.takenInTurn > MAX_TAKEN) {
    throw new PlatformError('INTERNAL_ERROR', `The platform stopped ${MAX_TAKEN} times while it began the run.`);
  }
  const [order, workspace] = await Promise.all([findOrder(deps, workspaceId, runId), findWorkspace(deps, workspaceId)]);
  if (workspace === undefined) throw new PlatformError('NOT_FOUND', 'The workspace of the run was deleted.');
  if (order === undefined) throw new PlatformError('INTERNAL_ERROR', 'The call of the run is no longer stored.');
  const now = deps.clock.now();
  if (waiting.heldBy !== undefined) {
    const { checkTurnInTime } = await import('../queues/take-turn.ts');
    checkTurnInTime(deps, waiting);
  }
  const agent = await calledVersion(deps, order, workspace);
  const lastTry = waiting.retries?.failed.at(-1);
  // A durable run continues where its last try failed: only the time in which it worked counts.
  const continues = lastTry !== undefined && waiting.isDurable === true;
  const idleMs = continues ? lease.idleMs + now - (Date.parse(lastTry.started_at) + lastTry.duration_ms) : 0;
  const receivedAt = continues ? waiting.startedAt : now;
  const prepared = await prepareCall(deps, { ...order.call, agent, workspace, receivedAt, idleMs });
  const { turn } = prepared;
  if (turn !== undefined) {
    // Loaded lazily: few agents have such rules.
    const { takeTurn } = await import('../queues/take-turn.ts');
    if (!(await takeTurn(deps, { prepared, lease, waiting }, turn))) return undefined;
  }
  const places = await takePlaces(deps, prepared).catch(async (error) => {
    // A run that got its place while it waited keeps it.
    const queueId = turn?.concurrency?.queueId;
    if (!waiting.hasPlace) await new RunStore(deps, workspaceId).leaveQueue({ ...waiting, queueId });
    throw error;
  });
  const { payment, releasePlaces } = places;
  const begun = { ...places.record, session: waiting.session };
  const record: NewRun =
    lastTry === undefined
      ? begun
      : { ...begun, startedAt: waiting.startedAt, retries: { ...waiting.retries!, triedAt: now } };
  const held = continues ? { ...lease, attempt: lease.attempt + 1, idleMs, reason: 'retry' as const } : lease;
  const before = lastTry && (await earlierTries(deps, lease));
  // If it throws, the record may have been written. The lease on a place then leads the sweep to it.
  if (!(await new WaitingRuns(deps, workspaceId).begin(record, held))) {
    // If another process has it, the places are that one's, too.
    const status = (await new RunStore(deps, workspaceId).find(runId))?.status;
    if (status !== 'running' && status !== 'queued') {
      await Promise.all([payment.end(false), releasePlaces(), new RunStore(deps, workspaceId).leaveQueue(record)]);
    }
    return undefined;
  }
  if (lastTry === undefined) {
    deps.log.info('run begun at its time', { run_id: runId, late_ms: now - (order.call.runAt ?? now) });
  } else deps.log.info('run tried again', { run_id: runId, attempt: attemptOf(record.retries!) });
  const durable = isDurable(prepared) ? await continuing(deps, prepared, held, order, continues) : undefined;
  const forget = () => (durable === undefined ? endOrder(deps, workspaceId, runId) : durable.end());
  return { prepared, admitted: { ...places, record, durable, forget }, before };
}

/** Reads what the earlier tries of a run did. */
async function earlierTries(deps: Deps, { workspaceId, runId }: Lease): Promise<Begun['before']> {
  const [body, told] = await Promise.all([
    new RunStore(deps, workspaceId).body(runId),
    toldOf(deps, { workspaceId, runId }),
  ]);
  return { trace: body?.trace ?? [], eventCount: told.count };
}

/** Finds the version that was called, as it is now. Throws NOT_FOUND, FORBIDDEN. */
async function calledVersion(deps: Deps, { call }: Order, workspace: Workspace): Promise<Call['agent']> {
  const { agent: asked } = call;
  const agent = await findAnyVersion(deps, asked.id, ANYONE);
  if (agent === undefined) throw new PlatformError('NOT_FOUND', `${refOf(asked)} was deleted before the run began.`);
  const isOpen = agent.workspaceId === workspace.id || agent.definition.is_public || !asked.definition.is_public;
  if (!isOpen) throw new PlatformError('FORBIDDEN', `${refOf(agent)} became private before the run began.`);
  return agent;
}

async function continuing(
  deps: Deps,
  prepared: PreparedCall,
  lease: Lease,
  { seal }: Order,
  continues: boolean,
): Promise<DurableRun> {
  const { workspace, runId } = prepared;
  const place = { workspaceId: workspace.id, runId, seal, keptUntil: keptUntil(orderedUntil(prepared)) };
  // What a branch begins with was written before it waited.
  const hasJournal = continues || prepared.branch !== undefined;
  const journal = hasJournal ? await Journal.read(deps, place) : Journal.begin(deps, place);
  if (continues) await journal.write({ type: 'attempt', attempt: lease.attempt });
  return new DurableRun(deps, prepared, lease, journal);
}

async function finish(deps: Deps, { prepared, admitted, before }: Begun): Promise<void> {
  try {
    await finishStarted(deps, prepared, admitted, {
      live: liveEventsOf(deps, prepared, before?.eventCount),
      past: before?.trace,
    });
  } catch (error) {
    // The error of a failed run is in its record.
    if (!isPlatformError(error) && !isRunContinues(error)) throw error;
  }
}

/** Lets a run wait on, or ends it with the error that keeps it from beginning. */
async function refuse(deps: Deps, lease: Lease, error: unknown): Promise<void> {
  const { workspaceId, runId } = lease;
  const isDamaged = hasCode(error, 'DAMAGED');
  if (!isPlatformError(error) && !isDamaged) {
    // What failed may work once the lease has ended, up to five times.
    deps.log.error('run not begun', { run_id: runId, error: String(error) });
    return;
  }
  const nextAt = nextTry(deps, lease, error);
  if (nextAt !== undefined) {
    await giveBackLease(deps, { ...lease, takenInTurn: 0 }, { reason: 'later', dueAt: nextAt });
    return;
  }
  const message = isDamaged ? (error as Error).message : 'The platform failed to begin the run.';
  if (!(await new WaitingRuns(deps, workspaceId).end(runId, endedWith(shownError(error, message))))) return;
  const workspace = await findWorkspace(deps, workspaceId);
  // An earlier process may have taken places before it died.
  await Promise.all([workspace && releaseLeaseOf(deps, workspace, runId), refund(deps, workspaceId, runId)]);
  const { announceEnd } = await import('#core/runs/destinations/announce.ts');
  void deps.background(announceEnd(deps, { workspaceId, runId }));
}

/** Returns when a run is tried again that found no room; `undefined` if it is not. */
function nextTry({ clock }: Pick<Deps, 'clock'>, { triedSince }: Lease, error: unknown): number | undefined {
  if (!isPlatformError(error) || error.code !== 'RATE_LIMITED' || isRefusedByRule(error)) return undefined;
  const now = clock.now();
  const soon = now + PAUSE_MS * (1 + Math.random());
  const nextAt = isUsedUp(error) ? Math.max(soon, (error as LimitError).rateLimit.resetAt) : soon;
  return nextAt <= (triedSince ?? now) + TRIED_FOR_MS ? Math.round(nextAt) : undefined;
}
