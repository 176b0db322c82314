import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import { laterLease } from '#core/runs/leases.ts';
import {
  addEntry,
  askForCheck,
  type Entry,
  entryKeyOf,
  leavePlace,
  removeEntry,
  takePlace,
} from '#core/runs/queues/queue.ts';
import { settle } from '#core/runs/queues/replace.ts';
import { nextStart, takeStart } from '#core/runs/queues/starts.ts';
import type { HeldBy } from '#core/runs/run.ts';
import { type Admitted, admitCall } from '../calls/admit.ts';
import { type Call, isDurable, type PreparedCall } from '../calls/prepare.ts';
import type { BeginJournal } from '../durable/durable-run.ts';
import { storeWaiting } from '../durable/queue-call.ts';
import { aboveRate, type QueueOfCall, type RateOfCall, rejected, type TurnOfCall, waitedTooLong } from './turn.ts';
import { forLaterCalls, forPlace, forStart, type Waiting, waitsUntil } from './wait-as-run.ts';
import { waitForPlace } from './wait-for-place.ts';

type Outcome = { readonly admitted: Admitted } | { readonly heldBy: HeldBy };

interface Arriving {
  readonly call: Call;
  readonly prepared: PreparedCall;
  /** For a durable run that begins with the journal of another one. */
  readonly beginJournal?: BeginJournal | undefined;
}

/**
 * Admits a call whose agent has rules for its turn (`docs/interface/queues.md`): at once if they allow it; otherwise its run
 * waits as `queued`, or its caller waits. Returns the rule that holds a queued run. Throws what `admitCall` and `queueCall`
 * throw, RATE_LIMITED that names the rule, and RUN_CANCELLED if a newer call replaced this one.
 */
export async function admitInTurn(
  deps: Deps,
  arriving: Arriving,
  { concurrency, rate, debounce }: TurnOfCall,
): Promise<Outcome> {
  const { call } = arriving;
  const isRun = waitsAsRun(call);
  if (debounce !== undefined && isRun) return queueRun(deps, arriving, await forLaterCalls(deps, call, debounce));
  if (concurrency === undefined) return admitAtRate(deps, arriving, rate);
  if (!(await takePlace(deps, concurrency, { runId: call.runId, limit: concurrency.rule.limit }))) {
    if (concurrency.rule.on_limit === 'reject') {
      await askForCheck(deps, concurrency);
      throw rejected(call, concurrency);
    }
    if (isRun) return queueRun(deps, arriving, forPlace(deps, call, concurrency));
    return { admitted: await hold(deps, arriving, concurrency, rate) };
  }
  try {
    return await admitAtRate(deps, arriving, rate);
  } catch (error) {
    await leavePlace(deps, concurrency, call.runId);
    throw error;
  }
}

/** Admits a call that has its place, if it needs one. */
async function admitAtRate(deps: Deps, arriving: Arriving, rate: RateOfCall | undefined): Promise<Outcome> {
  const { call, prepared, beginJournal } = arriving;
  if (rate === undefined) return { admitted: await admitCall(deps, prepared, { beginJournal }) };
  const now = deps.clock.now();
  const start = await takeStart(deps, rate, waitsAsRun(call) ? waitsUntil(call, now) : now);
  if (start === undefined) throw aboveRate(call, rate, (await nextStart(deps, rate)) - now);
  if (start.at <= now) return { admitted: await admitCall(deps, prepared, { beginJournal }) };
  const hasPlace = prepared.turn?.concurrency !== undefined;
  return queueRun(deps, arriving, forStart(deps, call, { rate, hasPlace }, start));
}

/** Lets the run of a call wait for its turn. */
async function queueRun(
  deps: Deps,
  { call, prepared, beginJournal }: Arriving,
  { heldBy, hasPlace, alongside, settle }: Waiting,
): Promise<Outcome> {
  const { runId, workspace } = call;
  const lease = laterLease(deps, { workspaceId: workspace.id, runId }, heldBy.due ?? heldBy.until);
  // By the time it begins, its caller has its answer.
  const waiting = { ...call, isUnattended: true };
  await storeWaiting(deps, waiting, prepared, { record: { heldBy, hasPlace }, lease, alongside, beginJournal });
  await settle();
  deps.log.info('run waits for its turn', { run_id: runId, rule: heldBy.rule });
  return { heldBy };
}

/** Lets the caller of a call wait for a place. It counts as one of the plan's calls meanwhile, so callers cannot pile up. */
async function hold(
  deps: Deps,
  { prepared, beginJournal }: Arriving,
  queue: QueueOfCall,
  rate: RateOfCall | undefined,
): Promise<Admitted> {
  const { runId } = prepared;
  const { limit, on_limit } = queue.rule;
  const sk = entryKeyOf(0, deps.clock.now(), runId);
  const replaces = on_limit === 'replace';
  const entry: Entry = { runId, sk, limit, until: heldUntil(prepared), isRun: false, replaces };
  try {
    return await admitCall(deps, prepared, {
      beginJournal,
      turn: async () => {
        await addEntry(deps, queue, entry);
        await settle(deps, queue);
        await waitForPlace(deps, queue, entry, () => waitedTooLong(prepared, queue));
        const isNow = rate === undefined || (await takeStart(deps, rate, deps.clock.now())) !== undefined;
        if (!isNow) throw aboveRate(prepared, rate, (await nextStart(deps, rate)) - deps.clock.now());
      },
    });
  } catch (error) {
    await removeEntry(deps, queue, entry.sk);
    await leavePlace(deps, queue, runId);
    throw error;
  }
}

/** Returns until when the caller of a call waits for a place: for half of the time that the call has. */
function heldUntil(call: PreparedCall): number {
  const { receivedAt, deadline } = call;
  const longest = isDurable(call) ? receivedAt + HELD_CALL_MS : deadline;
  return receivedAt + (Math.min(deadline, longest) - receivedAt) / 2;
}

/** Whether a call waits as a queued run if it may not begin. The caller of any other one waits for its end. */
const waitsAsRun = ({ isUnattended, scheduleId, lineage }: Call): boolean =>
  (isUnattended === true || scheduleId !== undefined) && lineage.parentRunId === undefined;
