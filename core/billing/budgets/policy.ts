import { dayOf } from '#core/ports/clock.ts';

/** Rules of budgets (`docs/interface/budgets.md`), without a table. Money is in cents of a limit, else in millionths of a US dollar. */
export const WINDOWS = ['daily', 'weekly', 'monthly'] as const;
export const ACTIONS = ['alert_only', 'block_new_runs', 'pause_service'] as const;
export const LIMIT_KINDS = ['soft_limit', 'hard_limit'] as const;
const THRESHOLD_PERCENTS = [50, 80, 100] as const;

export type WindowKind = (typeof WINDOWS)[number];
export type LimitKind = (typeof LIMIT_KINDS)[number];

/** A cap on what a workspace spends, in all or on one agent. At least one of the limits is there. */
export interface BudgetPolicy {
  readonly id: string;
  /** The agent version by which the agent was named; null for the whole workspace. */
  readonly scopeId: string | null;
  /** All versions of this agent, `org/agent`; null for the whole workspace. */
  readonly agent: string | null;
  readonly window: WindowKind;
  readonly softLimitCents: number | null;
  readonly hardLimitCents: number | null;
  readonly action: (typeof ACTIONS)[number];
  readonly webhookUrl: string | null;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  readonly updatedAt: number;
  /** What has been done in the window that began at `windowStart`, by name: a {@link Threshold} or {@link PAUSED}. */
  readonly done: { readonly windowStart: number; readonly names: readonly string[] };
}

/** A share of a limit that is told of once a window. */
export interface Threshold {
  /** `hard_limit#80`. */
  readonly name: string;
  readonly kind: LimitKind;
  readonly percent: (typeof THRESHOLD_PERCENTS)[number];
  readonly limitMicro: number;
  readonly amountMicro: number;
}

/** The services of a policy were paused. */
export const PAUSED = 'paused';

/** Millionths of a US dollar. */
export const MICRO_PER_CENT = 10_000;
const DAY_MS = 24 * 3_600_000;

export interface Window {
  /** Epoch milliseconds; the end belongs to the next window. */
  readonly start: number;
  readonly end: number;
}

/** The window around `now`, in UTC: a day, an ISO week from Monday, or a month. */
export function windowAt(kind: WindowKind, now: number): Window {
  const day = Math.floor(now / DAY_MS);
  if (kind === 'daily') return { start: day * DAY_MS, end: (day + 1) * DAY_MS };
  if (kind === 'weekly') {
    // 1970-01-01 was a Thursday.
    const monday = day - ((((day + 3) % 7) + 7) % 7);
    return { start: monday * DAY_MS, end: (monday + 7) * DAY_MS };
  }
  const [year, month] = dayOf(now).split('-').map(Number) as [number, number];
  return { start: Date.UTC(year, month - 1), end: Date.UTC(year, month) };
}

export function limitOf(policy: BudgetPolicy, kind: LimitKind): number | null {
  const cents = kind === 'soft_limit' ? policy.softLimitCents : policy.hardLimitCents;
  return cents === null ? null : cents * MICRO_PER_CENT;
}

/** The thresholds of both limits, lowest amount first. */
export function thresholdsOf(policy: BudgetPolicy): Threshold[] {
  const all = LIMIT_KINDS.flatMap((kind) => {
    const limitMicro = limitOf(policy, kind);
    if (limitMicro === null) return [];
    return THRESHOLD_PERCENTS.map((percent) => ({
      name: `${kind}#${percent}`,
      kind,
      percent,
      limitMicro,
      amountMicro: (limitMicro / 100) * percent,
    }));
  });
  return all.sort((a, b) => a.amountMicro - b.amountMicro);
}

/** Whether something has been done in the window that began at `windowStart`, or that window is over. */
export const isDone = ({ done }: BudgetPolicy, windowStart: number, name: string): boolean =>
  done.windowStart > windowStart || (done.windowStart === windowStart && done.names.includes(name));

/** The policy after something was done in a window. Of a window that is over, nothing is kept. */
export function withDone(policy: BudgetPolicy, windowStart: number, name: string): BudgetPolicy {
  if (isDone(policy, windowStart, name)) return policy;
  const before = policy.done.windowStart === windowStart ? policy.done.names : [];
  return { ...policy, done: { windowStart, names: [...before, name] } };
}

/** Thresholds that this spend of a window reaches, and that have not been told of. */
export const dueThresholds = (policy: BudgetPolicy, windowStart: number, spentMicro: number): Threshold[] =>
  thresholdsOf(policy).filter(
    ({ name, amountMicro }) => spentMicro >= amountMicro && !isDone(policy, windowStart, name),
  );

/** Whether this spend of a window meets the hard limit. */
export function meetsHardLimit(policy: BudgetPolicy, spentMicro: number): boolean {
  const limit = limitOf(policy, 'hard_limit');
  return limit !== null && spentMicro >= limit;
}

/**
 * The policy with other limits. Thresholds that were told of, and that the spend does not reach any more, will be told of
 * again; so will services be paused again.
 */
export function withLimits(
  policy: BudgetPolicy,
  limits: Pick<BudgetPolicy, 'softLimitCents' | 'hardLimitCents'>,
  windowStart: number,
  spentMicro: number,
): BudgetPolicy {
  const changed = { ...policy, ...limits };
  if (policy.done.windowStart !== windowStart) return changed;
  const reached = thresholdsOf(changed)
    .filter(({ amountMicro }) => spentMicro >= amountMicro)
    .map(({ name }) => name);
  const stillDone = [...reached, ...(meetsHardLimit(changed, spentMicro) ? [PAUSED] : [])];
  return { ...changed, done: { windowStart, names: policy.done.names.filter((name) => stillDone.includes(name)) } };
}

export interface Forecast {
  readonly microPerDay: number;
  /** At the end of the window. */
  readonly spentMicro: number;
  /** Epoch milliseconds: when the hard limit is met, or the soft one without a hard one; null if not in this window. */
  readonly breachAt: number | null;
}

/** A rate over less than an hour would be one call's. */
const MIN_ELAPSED_MS = 3_600_000;

/** What the spend of a window comes to, if it goes on at the rate that it had in this window. */
export function forecast(policy: BudgetPolicy, { start, end }: Window, spentMicro: number, now: number): Forecast {
  const microPerDay = (spentMicro / Math.max(now - start, MIN_ELAPSED_MS)) * DAY_MS;
  const limit = limitOf(policy, 'hard_limit') ?? limitOf(policy, 'soft_limit')!;
  const reachedAt = now + ((limit - spentMicro) / microPerDay) * DAY_MS;
  return {
    microPerDay,
    spentMicro: spentMicro + (microPerDay * (end - now)) / DAY_MS,
    breachAt: spentMicro < limit && reachedAt < end ? Math.ceil(reachedAt) : null,
  };
}

/** US dollars as a number. */
export const usdOf = (micro: number): number => Math.round(micro) / 1_000_000;

/** US dollars as text with two decimals, rounded down: an amount never looks like a limit that it has not met. */
export const usdText = (micro: number): string => (Math.floor(micro / MICRO_PER_CENT) / 100).toFixed(2);

/** What a policy is about, for messages. */
export const scopeText = ({ agent }: BudgetPolicy): string =>
  agent === null ? 'this workspace' : `${agent} in this workspace`;
