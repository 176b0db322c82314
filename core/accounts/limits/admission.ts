import { type Plan, planOf } from '#core/base/plans.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { dayOf, epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { allOf, type Item, type Key, lessThan, queryAll } from '#core/ports/table.ts';
import {
  countingOf,
  isLease,
  type LeaseSlot,
  leasingOf,
  numberOf,
  placesIn,
  type ShardsOf,
  workspaceOf,
} from './concurrency-leases.ts';
import { endOfDay, limitError, type RateLimit, rateLimitOf } from './rate-limit.ts';

/**
 * Counters table: `CALLS#<digit> / <workspace id>#<shard>` counts calls of a workspace, by class and UTC day
 * (`llm_2026-11-21`), and holds a lease for each running call: `r<first 60 bits of the run id in base64url>`, with its
 * expiry in epoch seconds. `active` is the number of leases. When the slot of an expired lease is reassigned, the lease
 * is renamed to `x<the same>`, because only {@link leasesOf} finds the run of a call whose host has died.
 *
 * It is one item, so that one conditional write counts a call and takes its lease, or does neither. The lease contains
 * the run id, so a write that is sent twice finds its own lease.
 *
 * DynamoDB bills writes by the kilobyte, rounded up, and limits an item to 1,000 writes a second. An item with 50
 * leases is smaller than one kilobyte. The calls of a larger plan are divided into shards, each with a share of both
 * limits. Far from a limit any shard admits a call in one write; near it all of them are read to find free slots.
 */
function shardKey(workspaceId: string, shard: number): Key {
  // Shards of a busy workspace are in different partitions.
  const digit = ((Number.parseInt(workspaceId.at(-1)!, 16) || 0) + shard) % PARTITIONS.length;
  return { pk: `CALLS#${PARTITIONS[digit]}`, sk: `${workspaceId}#${shard}` };
}
const PARTITIONS = '0123456789abcdef';

const LEASES_PER_SHARD = 50;
/** A plan with fewer calls per day has no busy item, and a single shard reports exactly how many are left. */
const CALLS_PER_SHARD = 12_500;

const shardsOf = ({ concurrent_calls, daily_calls }: Plan): number =>
  Math.max(1, Math.min(Math.ceil(concurrent_calls / LEASES_PER_SHARD), Math.floor(daily_calls / CALLS_PER_SHARD)));

/** Returns the shards of a workspace under its plan. */
const allShardsOf = (plan: Plan, workspaceId: string): ShardsOf => ({
  workspaceId,
  shards: shardsOf(plan),
  keyOf: (shard) => shardKey(workspaceId, shard),
});

/** Returns a shard's share of a limit; the shares add up to the limit. */
const shareOf = (limit: number, shard: number, shards: number): number => Math.floor((limit + shard) / shards);

const leaseOf = (runId: string): string =>
  `r${Buffer.from(runId.replaceAll('-', '').slice(0, 16), 'hex').toString('base64url').slice(0, 10)}`;
const GIVEN_AWAY = /^x[\w-]{10}$/;
/** Returns the first 15 hexadecimal digits of a run id. */
const digitsOf = (lease: string): string =>
  Buffer.from(`${lease.slice(1)}A`, 'base64url')
    .toString('hex')
    .slice(0, 15);

/** Classes of calls, each with its own daily limit. */
type CallClass = 'llm' | 'sandbox' | 'paid' | 'continued' | 'eval';
const COUNTER = /^(?:llm|sandbox|paid|continued|eval)_(\d{4}-\d\d-\d\d)$/;

/** An attempt fails only if another call was admitted or ended at the same time. */
const MAX_ATTEMPTS = 20;
/** Well below DynamoDB's limit on condition size. */
const MAX_GIVEN_AWAY = 25;

type AdmissionDeps = Pick<Deps, 'config' | 'counters' | 'clock'>;

export interface AdmissionRequest {
  readonly workspace: Workspace;
  /** Whether the agent has a sandbox. */
  readonly kind: 'llm' | 'sandbox';
  readonly isPaid: boolean;
  /** False for sub-calls, which are part of their parent call. */
  readonly isCounted: boolean;
  /** Whether the call was counted before and only takes a place again. @default false */
  readonly isContinued?: boolean;
  /** Whether the call is one of an evaluation: it takes a place, and no daily limit applies. @default false */
  readonly isEval?: boolean;
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly deadline: number;
}

/** An admitted call. Release it when it has ended or failed. If its host dies, its lease expires. */
export interface Admission {
  /** Limit of the counted class; absent for a call that does not count. */
  readonly rateLimit?: RateLimit;
  /** Ends the lease; idempotent. */
  release(): Promise<void>;
}

/**
 * Counts a call against its workspace's plan, in one write. Throws RATE_LIMITED, without counting the call, if the
 * daily calls are used up or too many are running. Concurrent calls never exceed the plan, and none is refused while a
 * slot is free. After a change of the plan, calls in shards that the new plan does not have are not counted.
 */
export async function admit(deps: AdmissionDeps, request: AdmissionRequest): Promise<Admission> {
  if (!request.isCounted) return { release: async () => {} };
  const { workspace, runId, isPaid, kind, isContinued, isEval } = request;
  const plan = planOf(deps, workspace);
  const now = deps.clock.now();
  const day = dayOf(now);
  const callClass = isContinued ? 'continued' : isEval ? 'eval' : isPaid ? 'paid' : kind;
  const limit = limitOf(plan, callClass);
  const counter = `${callClass}_${day}`;
  const lease = leaseOf(runId);
  const ofWorkspace = allShardsOf(plan, workspace.id);
  const { shards, keyOf: key } = ofWorkspace;

  const left = (used: number) => rateLimitOf(limit, used, endOfDay(now));
  const usedUp = () =>
    limitError(
      `The workspace "${workspace.slug}" has used up its ${limit} ${CLASS_NAMES[callClass]} per day (plan "${plan.name}").`,
      left(limit),
      now,
    );
  if (limit === 0) throw usedUp();

  const hasCallLeft = (item: Item, shard: number) => numberOf(item, counter) < shareOf(limit, shard, shards);
  const hasPlaceLeft = (item: Item, shard: number) =>
    numberOf(item, 'active') < shareOf(plan.concurrent_calls, shard, shards);
  const places = placesIn(deps.counters);
  const place = (shard: number): LeaseSlot => ({
    lease,
    expiry: epochSeconds(request.deadline + RUN_GRACE_MS),
    maxLeases: shareOf(plan.concurrent_calls, shard, shards),
    counter,
    maxCalls: shareOf(limit, shard, shards),
  });
  const admitTo = (shard: number) => places.take(key(shard), place(shard));
  const admission = (shard: number, item: Item, used: number): Admission => ({
    rateLimit: left(used),
    release: () => places.leave(key(shard), { lease, stale: staleCounters(item, day) }),
  });

  const home = places.homeOf(workspace.id, runId, shards);
  const first = await admitTo(home);
  if (first !== undefined) {
    // On other hosts an estimate, see callsAboutLeft.
    const all =
      shards > 1 && deps.counters.isOfOneProcess
        ? first.used + (await places.usedIn(ofWorkspace, counter, home))
        : first.used * shards;
    return admission(home, first.item, all);
  }
  let used = 0;
  // On one machine, other calls may have been counted since the shards were read.
  const usedNow = async () => (deps.counters.isOfOneProcess ? places.usedIn(ofWorkspace, counter) : used + 1);
  for (let attempt = 1; attempt < MAX_ATTEMPTS; attempt++) {
    const items = await readShards(deps, workspace.id, shards);
    used = sumOf(items, counter);
    const own = items.findIndex((item) => lease in item);
    if (own >= 0) return admission(own, items[own]!, used);
    if (used >= limit) throw usedUp();
    const order = [...items.keys()].map((shard) => (shard + home + attempt) % shards);
    const open = order.filter((shard) => hasPlaceLeft(items[shard]!, shard));
    if (open.length === 0) {
      if (await giveAwayExpired(deps, workspace.id, items)) continue;
      break;
    }
    const both = open.find((shard) => hasCallLeft(items[shard]!, shard));
    if (both !== undefined) {
      const next = await admitTo(both);
      if (next !== undefined) return admission(both, next.item, await usedNow());
      continue;
    }
    const counting = order.find((shard) => hasCallLeft(items[shard]!, shard));
    if (counting === undefined) continue;
    const taking = open[0]!;
    const { ok } = await deps.counters.transact([
      { op: 'update', key: key(counting), ...countingOf([place(counting)]) },
      { op: 'update', key: key(taking), ...leasingOf([place(taking)]) },
    ]);
    places.forget(key(counting));
    if (ok) return admission(taking, items[taking]!, await usedNow());
  }
  throw limitError(
    `The workspace "${workspace.slug}" has ${plan.concurrent_calls} calls in progress, the maximum of its plan "${plan.name}".`,
    left(used),
    now,
    1,
  );
}

/** Releases the lease of a call that another process admitted. Safe to repeat. */
export async function releaseLeaseOf(deps: AdmissionDeps, workspace: Workspace, runId: string): Promise<void> {
  const lease = leaseOf(runId);
  const givenAway = lease.replace(/^r/, 'x');
  const day = dayOf(deps.clock.now());
  const shards = await readShards(deps, workspace.id, shardsOf(planOf(deps, workspace)));
  const held = shards.flatMap((item) =>
    [lease, givenAway].filter((name) => name in item).map((name) => ({ item, name })),
  );
  await Promise.all(
    held.map(({ item, name }) =>
      placesIn(deps.counters).leave({ pk: item.pk, sk: item.sk }, { lease: name, stale: staleCounters(item, day) }),
    ),
  );
}

/** Returns the remaining calls of a workspace today, without counting one. */
export async function callsLeft(
  deps: AdmissionDeps,
  workspace: Workspace,
  kind: AdmissionRequest['kind'] = 'llm',
): Promise<RateLimit> {
  const now = deps.clock.now();
  const plan = planOf(deps, workspace);
  const items = await readShards(deps, workspace.id, shardsOf(plan));
  return rateLimitOf(limitOf(plan, kind), sumOf(items, `${kind}_${dayOf(now)}`), endOfDay(now));
}

/**
 * Returns the remaining prompt calls. Exact on one machine. On other hosts it is an estimate in one read: the shards
 * have similar counts.
 */
export async function callsAboutLeft(deps: AdmissionDeps, workspace: Workspace): Promise<RateLimit> {
  const { counters } = deps;
  const now = deps.clock.now();
  const plan = planOf(deps, workspace);
  const ofWorkspace = allShardsOf(plan, workspace.id);
  const first = ofWorkspace.keyOf(0);
  const counter = `llm_${dayOf(now)}`;
  const used = counters.isOfOneProcess
    ? await placesIn(counters).usedIn(ofWorkspace, counter)
    : numberOf((await counters.get(first)) ?? first, counter) * ofWorkspace.shards;
  return rateLimitOf(plan.daily_calls, used, endOfDay(now));
}

/** Returns today's usage of the limits in this file, by members of the plan. */
export async function callsInUse(
  deps: AdmissionDeps,
  workspace: Workspace,
): Promise<Pick<Plan, 'daily_calls' | 'daily_sandbox_calls' | 'daily_paid_calls' | 'concurrent_calls'>> {
  const items = await readShards(deps, workspace.id, shardsOf(planOf(deps, workspace)));
  const now = deps.clock.now();
  const today = (callClass: CallClass) => sumOf(items, `${callClass}_${dayOf(now)}`);
  const expired = items.flatMap((item) => expiredIn(item, epochSeconds(now)));
  return {
    daily_calls: today('llm'),
    daily_sandbox_calls: today('sandbox'),
    daily_paid_calls: today('paid'),
    concurrent_calls: sumOf(items, 'active') - expired.length,
  };
}

/** Lease of a call that was not released, see {@link leasesOf}. */
export interface UnreleasedLease {
  readonly workspaceId: string;
  /** First 15 hexadecimal digits of the id of its run. */
  readonly runDigits: string;
  /** Ends the lease. Call it once the run has ended; idempotent. */
  release(): Promise<void>;
}

/**
 * Yields expired call leases of all workspaces, whose hosts have died; with `all`, every lease. Each run of a
 * counted call that is not recorded as ended has one.
 */
export async function* leasesOf(
  deps: Pick<AdmissionDeps, 'counters' | 'clock'>,
  { all }: { readonly all: boolean },
): AsyncGenerator<UnreleasedLease> {
  const now = all ? Number.POSITIVE_INFINITY : epochSeconds(deps.clock.now());
  for (const digit of PARTITIONS) {
    for await (const item of queryAll(deps.counters, { pk: `CALLS#${digit}`, limit: 1000 })) {
      const givenAway = Object.keys(item).filter((name) => GIVEN_AWAY.test(name));
      for (const lease of [...givenAway, ...expiredIn(item, now)]) {
        yield {
          workspaceId: workspaceOf(item),
          runDigits: digitsOf(lease),
          release: () => placesIn(deps.counters).leave({ pk: item.pk, sk: item.sk }, { lease, stale: [] }),
        };
      }
    }
  }
}

/** Reads the items of all shards. A shard without calls so far has no item and reads as an empty one. */
async function readShards({ counters }: AdmissionDeps, workspaceId: string, shards: number): Promise<Item[]> {
  const keys = Array.from({ length: shards }, (_, shard) => shardKey(workspaceId, shard));
  return Promise.all(keys.map(async (key) => (await counters.get(key)) ?? key));
}

/** Frees slots of expired leases, whose hosts have died. Returns false if there are none. */
async function giveAwayExpired(
  { counters, clock }: AdmissionDeps,
  workspaceId: string,
  items: readonly Item[],
): Promise<boolean> {
  const now = epochSeconds(clock.now());
  const found = items.map((item) => expiredIn(item, now).slice(0, MAX_GIVEN_AWAY));
  const given = found.map(async (expired, shard) => {
    if (expired.length === 0) return;
    await counters.update(
      shardKey(workspaceId, shard),
      {
        add: { active: -expired.length },
        set: Object.fromEntries(expired.map((lease) => [lease.replace(/^r/, 'x'), now])),
        remove: expired,
      },
      // Another process may free the same slots first: the next attempt sees the result.
      allOf(...expired.map((name) => lessThan(name, now))),
    );
  });
  await Promise.all(given);
  return found.some((expired) => expired.length > 0);
}

const expiredIn = (item: Item, now: number): string[] =>
  Object.keys(item).filter((name) => isLease(name) && numberOf(item, name) < now);

/** Returns counters of past days. A counter of the next day may exist, because another host's clock may be ahead. */
const staleCounters = (item: Item, day: string): string[] =>
  Object.keys(item).filter((name) => {
    // Most names are those of leases.
    const counted = name.at(-3) === '-' ? COUNTER.exec(name)?.[1] : undefined;
    return counted !== undefined && counted < day;
  });

const sumOf = (items: readonly Item[], name: string): number =>
  items.reduce((sum, item) => sum + numberOf(item, name), 0);

const CLASS_NAMES: Record<CallClass, string> = {
  llm: 'calls of prompt agents',
  sandbox: 'calls of agents with a sandbox',
  paid: 'calls of paid agents',
  continued: 'continued calls',
  eval: 'calls of evaluations',
};

const limitOf = (plan: Plan, callClass: CallClass): number =>
  ({
    llm: plan.daily_calls,
    sandbox: plan.daily_sandbox_calls,
    paid: plan.daily_paid_calls,
    continued: Number.MAX_SAFE_INTEGER,
    eval: Number.MAX_SAFE_INTEGER,
  })[callClass];
