import { admit } from '#core/accounts/limits/admission.ts';
import type { RateLimit } from '#core/accounts/limits/rate-limit.ts';
import { checkStays, checkStillStays, type Use } from '#core/accounts/workspaces/moving.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import { takeBudgetPlace } from '#core/billing/budgets/admission.ts';
import { type Payment, payFor, priceFor } from '#core/billing/credits/payment.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkSpace } from '#core/ports/space.ts';
import { isSampled } from '#core/runs/online/sampling.ts';
import { firstTry } from '#core/runs/retries.ts';
import { type NewRun, newRunOf } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { BeginJournal, DurableRun } from '../durable/durable-run.ts';
import { isDurable, type PreparedCall, retryPolicyFor } from './prepare.ts';

/** Loaded lazily: few calls belong to a session, and smaller functions start faster. */
const sessionTurns = lazy(() => import('../sessions/begin-turn.ts'));

/** Resources that an admitted call holds until its run has ended; `finish.ts` releases them. */
export interface Admitted {
  /** The run, recorded as running. */
  readonly record: NewRun;
  /** Remaining calls of the plan; absent for calls that do not count. */
  readonly rateLimit?: RateLimit;
  readonly payment: Payment;
  /** For durable runs. */
  readonly durable?: DurableRun;
  /** Releases the places of a run that has not begun, or that waits. Safe to repeat. */
  releasePlaces(): Promise<void>;
  /** Releases the lease of a run that has ended on one of the plan's concurrent calls. Safe to repeat. */
  releaseLease(): Promise<void>;
  /** Counts in budgets what a run that ends has cost, in millionths of a US dollar, until its usage is summed. */
  commitSpent(micro: number): Promise<void>;
  /** Removes what only a continuation or a further try of the run needs, once it has ended. Safe to repeat. */
  forget(): Promise<void>;
}

/**
 * Takes the places of a call (see {@link takePlaces}) and records its run as running. If a later step fails, the earlier
 * ones are undone, except the count, and the lease if the record may have been written.
 *
 * @param turn Waits for the turn of the call, once it has its places.
 * @param beginJournal For a durable run that begins with the journal of another one.
 */
export async function admitCall(
  deps: Deps,
  call: PreparedCall,
  {
    turn,
    beginJournal,
  }: { readonly turn?: () => Promise<void>; readonly beginJournal?: BeginJournal | undefined } = {},
): Promise<Admitted> {
  const places = await takePlaces(deps, call);
  const { payment, releasePlaces } = places;
  const keep = async () => {
    if (turn !== undefined) {
      await turn();
      // A freeze waits for runs, and not for calls that wait for their turn.
      await checkStillStays(deps, call.workspace.id, useOf(call));
    }
    const kept = await keepCall(deps, call, beginJournal);
    // The sweep releases an expired lease whose run it does not find. A process that was suspended until then must not
    // write the record afterwards: nothing would ever lead the sweep to it.
    if (deps.clock.now() <= call.deadline) return kept;
    await kept.forget();
    throw new PlatformError('TIMEOUT', 'The time limit was over before the run began.');
  };
  const kept = await keep().catch(async (error) => {
    await Promise.all([payment.end(false), releasePlaces()]);
    throw error;
  });
  try {
    return { ...places, ...kept, record: await startRun(deps, call, places.record) };
  } catch (error) {
    // The record may have been written despite the error. The lease then leads the sweep to it. A durable run must not be
    // taken up either: its caller gets the error, and its price back.
    const isRefused = call.session !== undefined && isPlatformError(error);
    await Promise.all([payment.end(false), kept.forget(), isRefused && releasePlaces()]);
    throw error;
  }
}

/** Records a run, in the next turn of its session if it has one. */
async function startRun(deps: Deps, call: PreparedCall, record: NewRun): Promise<NewRun> {
  const runs = new RunStore(deps, call.workspace.id);
  const options = { hasLease: call.lineage.parentRunId === undefined };
  if (call.session === undefined) {
    await runs.start(record, options);
    return record;
  }
  const { inNextTurn } = await sessionTurns();
  return inNextTurn(deps, call, record, (run) => runs.start(run, options));
}

/** Sub-calls of runs that have begun go on while a workspace waits for these to end. */
const useOf = ({ lineage }: PreparedCall): Use => (lineage.parentRunId === undefined ? 'change' : 'run');

/** Stores the call of a run that another process may continue or try again. */
async function keepCall(
  deps: Deps,
  call: PreparedCall,
  beginJournal: BeginJournal | undefined,
): Promise<Pick<Admitted, 'durable' | 'forget'>> {
  const isKept = isDurable(call) || retryPolicyFor(call) !== undefined;
  if (!isKept) return { forget: async () => {} };
  // Loaded lazily: few agents are durable or tried again, and smaller functions start faster.
  if (!isDurable(call)) {
    const { endOrder, orderedUntil, putOrder } = await import('../durable/order.ts');
    await putOrder(deps, call, orderedUntil(call));
    return { forget: () => endOrder(deps, call.workspace.id, call.runId) };
  }
  const { DurableRun } = await import('../durable/durable-run.ts');
  const durable = await DurableRun.begin(deps, call, beginJournal);
  return { durable, forget: () => durable.end() };
}

/**
 * Counts the call against the plan, takes a lease, and charges the price in credits. If a later step fails, the earlier
 * ones are undone, except the count. A call may take its places again if its process died. Throws BUDGET_EXCEEDED,
 * RATE_LIMITED, INSUFFICIENT_CREDITS.
 */
export async function takePlaces(deps: Deps, call: PreparedCall): Promise<Omit<Admitted, 'durable' | 'forget'>> {
  // Checked here because not every call comes from a request.
  await checkSpace(deps);
  const { agent, workspace, runId, deadline } = call;
  const isTop = call.lineage.parentRunId === undefined;
  checkStays(workspace, useOf(call));
  // Sub-calls of an admitted run are not checked, so that the run can complete.
  const priceCents = priceFor(agent, workspace);
  const budget = isTop ? await takeBudgetPlace(deps, workspace, { runId, agent, priceCents, deadline }) : undefined;
  const record = recordOf(call);
  const releaseOnFailure = async (error: unknown): Promise<never> => {
    await budget?.release();
    throw error;
  };
  const admission = await admit(deps, {
    workspace,
    kind: engineTraits(agent).quota,
    isPaid: priceCents > 0,
    isCounted: isTop,
    isEval: call.triggerSource === 'eval',
    runId,
    deadline,
  }).catch(releaseOnFailure);
  const payment = await payFor(deps, { agent, workspace, runId, deadline }).catch(async (error) => {
    await admission.release();
    return releaseOnFailure(error);
  });
  return {
    record,
    rateLimit: admission.rateLimit,
    payment,
    async releasePlaces() {
      await Promise.all([admission.release(), budget?.release()]);
    },
    releaseLease: () => admission.release(),
    async commitSpent(micro) {
      await budget?.end(micro);
    },
  };
}

/** Builds the record of a run that begins. */
export function recordOf(call: PreparedCall): NewRun {
  const policy = retryPolicyFor(call);
  return newRunOf(call.agent, {
    id: call.runId,
    endpoint: call.endpoint,
    ...(call.channel && { channel: call.channel }),
    triggerSource: call.triggerSource,
    startedAt: call.receivedAt,
    deadline: call.deadline,
    parentRunId: call.lineage.parentRunId,
    rootRunId: call.lineage.rootRunId,
    replayOf: call.replayOf,
    branch: call.branch,
    tenantId: call.tenantId,
    keyHash: call.keyHash,
    scheduleId: call.scheduleId,
    scheduled: call.scheduled,
    webhookUrl: call.webhookUrl,
    ...(isDurable(call) && { isDurable: true }),
    ...(isAnnounced(call) && { isAnnounced: true }),
    trace: call.tracing?.stored,
    ...(call.workspace.telemetry && { isExported: true }),
    ...(isScoredOnline(call) && { isSampled: true }),
    context: call.issued?.context as unknown as Json | undefined,
    ...(policy && { retries: firstTry(policy, call.receivedAt) }),
    queueId: call.turn?.concurrency?.queueId,
    input: call.mask.json(call.input.document as Json),
  });
}

/**
 * Whether the run is scored once it has completed. Runs of evaluations are scored by these, and versions under development are not in
 * production. An author learns nothing of what other workspaces do.
 */
function isScoredOnline({ agent, workspace, runId, triggerSource }: PreparedCall): boolean {
  const online = agent.definition.evals?.online;
  if (online === undefined || triggerSource === 'eval') return false;
  return agent.workspaceId === workspace.id && agent.devOf === undefined && isSampled(runId, online.sample);
}

/** Whether the end of the run is posted anywhere, as far as is known when it begins. */
const isAnnounced = ({ workspace: { destinations }, lineage, webhookUrl, triggerSource }: PreparedCall): boolean =>
  webhookUrl !== undefined ||
  // Its client may ask for it at any time until then.
  triggerSource === 'a2a' ||
  destinations === 'all' ||
  (destinations === 'top_level' && lineage.parentRunId === undefined);
