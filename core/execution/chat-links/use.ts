import { endOfDay } from '#core/accounts/limits/rate-limit.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Plan } from '#core/base/plans.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { MICRO_PER_CENT } from '#core/billing/budgets/policy.ts';
import { computeMicro } from '#core/billing/budgets/spend.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import { dayOf, epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, anyOf, type Condition, exists, type Item, type Key, lessThan } from '#core/ports/table.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { budgetMicro, type ChatLink } from './link.ts';

/*
 * What visitors use of a workspace. Counters table: `CHATLINKS#<workspace id> / USE`, one item for all links of a
 * workspace, so that one conditional write checks all limits and takes all places:
 * - `active`, `a_<link>`: messages under way, of all links and of one;
 * - `d_<class>_<day>`: messages of a UTC day that count against one quota of the plan;
 * - `m_<link>_<day>`, `c_<link>_<day>`: messages of a link, and their cost in millionths of a US dollar. Those under way
 *   count with their expected cost;
 * - `p_<link>`: the most that a message of the link has cost so far;
 * - `r_<run id>`: a message under way, see {@link Place}.
 */

/** Visitors have at most this share of what the plan of the workspace allows: its own calls keep the rest. */
const SHARE = 0.5;
/** Share of the messages under way that one link may have. */
const SHARE_OF_LINK = 0.5;
/** What a message is expected to cost before the first one has ended, in millionths of a US dollar. */
const UNKNOWN_MICRO = 2 * MICRO_PER_CENT;
const KEPT_SECONDS = 3 * 24 * 3600;
/** Attempts fail only if places of lost runs were freed. */
const MAX_ATTEMPTS = 4;
const BUSY_SECONDS = 3;

export type UseDeps = Pick<Deps, 'counters' | 'runs' | 'blobs' | 'clock' | 'config'>;

/** A message under way: its link, expected cost, day, and the epoch second by which its run has certainly ended. */
type Place = readonly [linkId: string, micro: number, day: string, expires: number];

const keyOf = (workspaceId: string): Key => ({ pk: `CHATLINKS#${workspaceId}`, sk: 'USE' });
const placeOf = (runId: string): string => `r_${runId}`;
const isPlace = (name: string): boolean => /^r_[0-9a-f-]{36}$/.test(name);
const numberOf = (item: Item | undefined, name: string): number => (item?.[name] as number | undefined) ?? 0;
const below = (name: string, limit: number): Condition => anyOf(absent(name), lessThan(name, limit));

export interface NewUse {
  readonly runId: string;
  readonly plan: Plan;
  /** The quota that the call counts against. */
  readonly quota: 'llm' | 'sandbox' | 'paid';
  readonly priceMicro: number;
  /** Epoch milliseconds by which the run has certainly ended. */
  readonly until: number;
}

/** Links whose messages of a day are used up, with a text of their limits: further refusals write nothing. */
const usedUp = new WeakMap<object, Map<string, string>>();
const MAX_USED_UP = 10_000;

/**
 * Takes the places of a message, or throws RATE_LIMITED and changes nothing: if too many messages are under way, or the
 * messages or the budget of the link are used up for today.
 */
export async function takeUse(deps: UseDeps, link: ChatLink, use: NewUse): Promise<void> {
  const { counters, clock } = deps;
  const day = dayOf(clock.now());
  const { runId, plan, quota, priceMicro, until } = use;
  const limits = limitsOf(link, plan, quota);
  const memory = usedUp.get(counters) ?? new Map<string, string>();
  usedUp.set(counters, memory);
  const known = `${day} ${limits.messages} ${limits.budget} ${limits.quota}`;
  if (memory.get(link.id) === known) throw overForToday(clock.now());

  const names = {
    messages: `m_${link.id}_${day}`,
    cost: `c_${link.id}_${day}`,
    quota: `d_${quota}_${day}`,
    active: `a_${link.id}`,
  };
  for (let attempt = 1; ; attempt++) {
    const item = await counters.get(keyOf(link.workspaceId));
    const expected = Math.min(limits.budget, Math.max(priceMicro, numberOf(item, `p_${link.id}`) || UNKNOWN_MICRO));
    const place: Place = [link.id, expected, day, epochSeconds(until)];
    const taken = await counters.update(
      keyOf(link.workspaceId),
      {
        add: { active: 1, [names.active]: 1, [names.messages]: 1, [names.quota]: 1, [names.cost]: expected },
        set: { [placeOf(runId)]: [...place], ttl: epochSeconds(until) + KEPT_SECONDS },
        remove: item === undefined ? [] : staleIn(item, day),
      },
      allOf(
        absent(placeOf(runId)),
        below('active', limits.all),
        below(names.active, limits.own),
        below(names.messages, limits.messages),
        below(names.quota, limits.quota),
        below(names.cost, limits.budget - expected + 1),
      ),
    );
    if (taken.ok) return;
    const now = await counters.get(keyOf(link.workspaceId));
    // The write was sent twice.
    if (now?.[placeOf(runId)] !== undefined) return;
    if (attempt < MAX_ATTEMPTS && now !== undefined && (await settleLost(deps, link.workspaceId, now))) continue;
    const isOver =
      numberOf(now, names.messages) >= limits.messages ||
      numberOf(now, names.quota) >= limits.quota ||
      (numberOf(now, names.cost) + expected > limits.budget && numberOf(now, names.active) === 0);
    if (!isOver) throw busy();
    if (memory.size >= MAX_USED_UP) memory.clear();
    memory.set(link.id, known);
    throw overForToday(clock.now());
  }
}

/** Returns the places of a message whose run did not begin. Safe to repeat. */
export const dropUse = (deps: UseDeps, workspaceId: string, runId: string): Promise<void> =>
  release(deps, workspaceId, runId, undefined);

/**
 * Releases the places of a message whose run has ended, and counts what it cost. Returns false, and releases nothing,
 * for a run that has not ended or is about to be recorded. Safe to repeat.
 */
export async function endUse(deps: UseDeps, workspaceId: string, runId: string): Promise<boolean> {
  const run = await new RunStore(deps, workspaceId).find(runId);
  if (run === undefined || !hasEnded(run.status)) return false;
  await release(deps, workspaceId, runId, costOf(deps, run));
  return true;
}

/** Returns what the visitors of links have used today. */
export async function usedToday(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  workspaceId: string,
): Promise<(linkId: string) => { readonly messages: number; readonly micro: number }> {
  const item = await counters.get(keyOf(workspaceId));
  const day = dayOf(clock.now());
  return (linkId) => ({
    messages: numberOf(item, `m_${linkId}_${day}`),
    micro: numberOf(item, `c_${linkId}_${day}`),
  });
}

export function limitsOf(link: ChatLink, plan: Plan, quota: NewUse['quota']) {
  const perDay = { llm: plan.daily_calls, sandbox: plan.daily_sandbox_calls, paid: plan.daily_paid_calls }[quota];
  const all = Math.max(1, Math.floor(plan.concurrent_calls * SHARE));
  return {
    all,
    own: Math.max(1, Math.ceil(all * SHARE_OF_LINK)),
    messages: link.messagesPerDay,
    quota: Math.floor(perDay * SHARE),
    budget: budgetMicro(link),
  };
}

/** `micro`: the cost; `undefined` for a message that did not run, which does not count. */
async function release(
  { counters }: Pick<Deps, 'counters'>,
  workspaceId: string,
  runId: string,
  micro: number | undefined,
): Promise<void> {
  const key = keyOf(workspaceId);
  const place = (await counters.get(key))?.[placeOf(runId)] as unknown as Place | undefined;
  if (place === undefined) return;
  const [linkId, expected, day] = place;
  const released = await counters.update(
    key,
    {
      add: {
        active: -1,
        [`a_${linkId}`]: -1,
        [`c_${linkId}_${day}`]: (micro ?? 0) - expected,
        // Its quota stays used: the call may have been counted.
        ...(micro === undefined && { [`m_${linkId}_${day}`]: -1 }),
      },
      remove: [placeOf(runId)],
    },
    exists(placeOf(runId)),
  );
  const peak = `p_${linkId}`;
  if (released.ok && micro !== undefined && numberOf(released.item, peak) < micro) {
    await counters.update(key, { set: { [peak]: micro } }, below(peak, micro));
  }
}

/** Frees the places of runs whose process died. Returns false if there are none. */
async function settleLost(deps: UseDeps, workspaceId: string, item: Item): Promise<boolean> {
  const now = epochSeconds(deps.clock.now());
  const late = Object.entries(item)
    .filter(([name, place]) => isPlace(name) && (place as unknown as Place)[3] < now)
    .map(([name]) => name.slice('r_'.length));
  const freed = await Promise.all(
    late.map(async (runId) => {
      if (await endUse(deps, workspaceId, runId)) return true;
      // It was never recorded, and cannot be any more.
      const isRecorded = (await new RunStore(deps, workspaceId).find(runId)) !== undefined;
      if (!isRecorded) await dropUse(deps, workspaceId, runId);
      return !isRecorded;
    }),
  );
  return freed.includes(true);
}

/** What a run cost, in millionths of a US dollar. */
function costOf(deps: Pick<Deps, 'config'>, run: Run): number {
  const compute = traitsOf(run.engine).hasSandbox ? computeMicro(deps, run.executionMs ?? 0) : 0;
  return Math.round((run.costUsd ?? 0) * 1_000_000 + compute + run.creditsCents * MICRO_PER_CENT);
}

/** Returns counters of past days, and places of links that nobody uses. A clock of another process may be ahead. */
const staleIn = (item: Item, day: string): string[] =>
  Object.keys(item).filter((name) => {
    const counted = /^[dmc]_.+_(\d{4}-\d\d-\d\d)$/.exec(name)?.[1];
    // Yesterday's messages may still be under way.
    return counted !== undefined && counted < dayOf(Date.parse(day) - 24 * 3_600_000);
  });

/** An error whose text was written for visitors. */
export type VisitorError = PlatformError & { readonly isForVisitors: true };
export const forVisitors = (error: PlatformError): VisitorError =>
  Object.assign(error, { isForVisitors: true } as const);
export const isForVisitors = (error: PlatformError): boolean => (error as Partial<VisitorError>).isForVisitors === true;

const busy = (): PlatformError =>
  forVisitors(
    new PlatformError('RATE_LIMITED', 'This chat is busy: try again in a moment.', {
      suggested_wait_time: BUSY_SECONDS,
    }),
  );

export const overForToday = (now: number): PlatformError =>
  forVisitors(
    new PlatformError('RATE_LIMITED', 'This chat has reached its limit for today: try again tomorrow.', {
      suggested_wait_time: Math.max(1, Math.ceil((endOfDay(now) - now) / 1000)),
    }),
  );
