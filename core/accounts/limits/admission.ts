import { type Plan, planOf } from '#core/base/plans.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { dayOf, epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, anyOf, type Condition, exists, type Item, lessThan } from '#core/ports/table.ts';
import { endOfDay, limitError, type RateLimit, rateLimitOf } from './rate-limit.ts';

/**
 * Counters table: `WS#<workspace id>#LIMITS / CALLS` counts a workspace's calls, by class and UTC day (`llm_2026-11-21`),
 * and holds a lease for each running call: `run_<first 12 digits of the run id>`, with its expiry in epoch seconds.
 * `active` is the number of leases.
 *
 * It is one item, so that one conditional write counts a call and takes its lease, or does neither. The lease names its
 * run, so a write that is sent twice finds its own lease. Two hundred leases take 5 KB.
 */
const callsKey = (workspaceId: string) => ({ pk: `WS#${workspaceId}#LIMITS`, sk: 'CALLS' });
const leaseOf = (runId: string): string => `run_${runId.replaceAll('-', '').slice(0, 12)}`;

/** Classes of calls, each with its own daily limit. */
type CallClass = 'llm' | 'sandbox' | 'paid';
const COUNTER = /^(?:llm|sandbox|paid)_(\d{4}-\d\d-\d\d)$/;

/** Each attempt fails only because another call was admitted or ended at the same time. */
const MAX_ATTEMPTS = 20;
/** Well below DynamoDB's limit on condition size. */
const MAX_DROPPED = 25;

type AdmissionDeps = Pick<Deps, 'config' | 'counters' | 'clock'>;

export interface AdmissionRequest {
  readonly workspace: Workspace;
  /** Whether the agent has a sandbox. */
  readonly kind: 'llm' | 'sandbox';
  readonly isPaid: boolean;
  /** False for sub-calls, which are part of the call above them. */
  readonly isCounted: boolean;
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly deadline: number;
}

/** An admitted call. Release it when it has ended, even if it failed. If its host dies, its lease expires. */
export interface Admission {
  /** The limit of the class that was counted; absent for a call that does not count. */
  readonly rateLimit?: RateLimit;
  /** Safe to repeat. */
  release(): Promise<void>;
}

/**
 * Counts a call against its workspace's plan, in one write. Throws RATE_LIMITED, without counting the call, if the day's
 * calls are used up or too many are running. Concurrent calls never exceed the plan, and none is refused while there is
 * room for it.
 */
export async function admit(deps: AdmissionDeps, request: AdmissionRequest): Promise<Admission> {
  if (!request.isCounted) return { release: async () => {} };
  const { counters, clock } = deps;
  const { workspace, runId, isPaid, kind } = request;
  const plan = planOf(deps, workspace);
  const now = clock.now();
  const day = dayOf(now);
  const callClass = isPaid ? 'paid' : kind;
  const limit = limitOf(plan, callClass);
  const counter = `${callClass}_${day}`;
  const lease = leaseOf(runId);
  const key = callsKey(workspace.id);

  const left = (used: number) => rateLimitOf(limit, used, endOfDay(now));
  const usedUp = () =>
    limitError(
      `The workspace "${workspace.slug}" has used up its ${limit} ${CLASS_NAMES[callClass]} a day (plan "${plan.name}").`,
      left(limit),
      now,
    );
  if (limit === 0) throw usedUp();
  let used = 0;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const updated = await counters.update(
      key,
      { add: { [counter]: 1, active: 1 }, set: { [lease]: epochSeconds(request.deadline + RUN_GRACE_MS) } },
      allOf(absent(lease), below(counter, limit), below('active', plan.concurrent_calls)),
    );
    const item = updated.ok ? updated.item : await counters.get(key);
    if (item === undefined) continue;
    used = numberOf(item, counter);
    if (updated.ok || lease in item) {
      return {
        rateLimit: left(used),
        release: () => release(deps, workspace.id, lease, staleCounters(item, day)),
      };
    }
    if (used >= limit) throw usedUp();
    if (numberOf(item, 'active') >= plan.concurrent_calls && !(await dropExpired(deps, workspace.id, item))) break;
  }
  throw limitError(
    `The workspace "${workspace.slug}" has ${plan.concurrent_calls} calls under way, the maximum of its plan "${plan.name}".`,
    left(used),
    now,
    1,
  );
}

/** The plan's calls that a workspace has left today. Counts nothing. */
export async function callsLeft(
  deps: AdmissionDeps,
  workspace: Workspace,
  kind: AdmissionRequest['kind'] = 'llm',
): Promise<RateLimit> {
  const now = deps.clock.now();
  const item = await deps.counters.get(callsKey(workspace.id));
  return rateLimitOf(
    limitOf(planOf(deps, workspace), kind),
    item === undefined ? 0 : numberOf(item, `${kind}_${dayOf(now)}`),
    endOfDay(now),
  );
}

/** What a workspace uses today of the limits that this file counts, by members of the plan. */
export async function callsInUse(
  { counters, clock }: Pick<AdmissionDeps, 'counters' | 'clock'>,
  workspaceId: string,
): Promise<Pick<Plan, 'daily_calls' | 'daily_sandbox_calls' | 'daily_paid_calls' | 'concurrent_calls'>> {
  const item = (await counters.get(callsKey(workspaceId))) ?? callsKey(workspaceId);
  const now = clock.now();
  const today = (callClass: CallClass) => numberOf(item, `${callClass}_${dayOf(now)}`);
  const expired = Object.keys(item).filter((name) => name.startsWith('run_') && numberOf(item, name) < now / 1000);
  return {
    daily_calls: today('llm'),
    daily_sandbox_calls: today('sandbox'),
    daily_paid_calls: today('paid'),
    concurrent_calls: numberOf(item, 'active') - expired.length,
  };
}

/** Releases the lease of a call whose host is known to have died, before it expires. */
export const forgetCall = (deps: AdmissionDeps, workspaceId: string, runId: string): Promise<void> =>
  release(deps, workspaceId, leaseOf(runId), []);

async function release(
  { counters }: AdmissionDeps,
  workspaceId: string,
  lease: string,
  stale: readonly string[],
): Promise<void> {
  await counters.update(
    callsKey(workspaceId),
    { add: { active: -1 }, remove: [lease, ...stale] },
    // It may have been released before.
    exists(lease),
  );
}

/** Removes expired leases, whose hosts have died. Returns false if there are none. */
async function dropExpired({ counters, clock }: AdmissionDeps, workspaceId: string, item: Item): Promise<boolean> {
  const now = epochSeconds(clock.now());
  const expired = Object.keys(item)
    .filter((name) => name.startsWith('run_') && numberOf(item, name) < now)
    .slice(0, MAX_DROPPED);
  if (expired.length === 0) return false;
  await counters.update(
    callsKey(workspaceId),
    { add: { active: -expired.length }, remove: expired },
    // Another process may remove the same leases first: the next attempt sees the result.
    allOf(...expired.map((name) => lessThan(name, now))),
  );
  return true;
}

/** Counters of past days. A counter of the next day may exist: another host's clock may be ahead. */
const staleCounters = (item: Item, day: string): string[] =>
  Object.keys(item).filter((name) => {
    const counted = COUNTER.exec(name)?.[1];
    return counted !== undefined && counted < day;
  });

const below = (counter: string, limit: number): Condition => anyOf(absent(counter), lessThan(counter, limit));
const numberOf = (item: Item, name: string): number => (item[name] as number | undefined) ?? 0;

const CLASS_NAMES: Record<CallClass, string> = {
  llm: 'calls of prompt agents',
  sandbox: 'calls of agents with a sandbox',
  paid: 'calls of paid agents',
};

const limitOf = (plan: Plan, callClass: CallClass): number =>
  ({ llm: plan.daily_calls, sandbox: plan.daily_sandbox_calls, paid: plan.daily_paid_calls })[callClass];
