import { dayOf } from '#core/ports/clock.ts';

/**
 * Rules of budgets (`docs/interface/budgets.md`), without storage. Limits are in cents, other amounts in millionths of
 * a US dollar.
 */
export const WINDOWS = ['daily', 'weekly', 'monthly'] as const;
export const ACTIONS = ['alert_only', 'block_new_runs', 'pause_service'] as const;
export const LIMIT_KINDS = ['soft_limit', 'hard_limit'] as const;
const THRESHOLD_PERCENTS = [50, 80, 100] as const;

export type WindowKind = (typeof WINDOWS)[number];
export type LimitKind = (typeof LIMIT_KINDS)[number];

/** A cap on a workspace's spend, in total or on one agent. Has at least one limit. */
export interface BudgetPolicy {
  readonly id: string;
  /** The agent version that named the agent when the budget was created; null for the entire workspace. */
  readonly scopeId: string | null;
  /** Agent whose versions the budget covers, `org/agent`; null for the entire workspace. */
  readonly agent: string | null;
  readonly window: WindowKind;
  readonly softLimitCents: number | null;
  readonly hardLimitCents: number | null;
  readonly action: (typeof ACTIONS)[number];
  readonly webhookUrl: string | null;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Actions taken in the window that began at `windowStart`, by name: a {@link Threshold} or {@link PAUSED}. */
  readonly done: { readonly windowStart: number; readonly names: readonly string[] };
}

/** A percentage of a limit that sends one alert per window. */
export interface Threshold {
  /** `hard_limit#80`. */
  readonly name: string;
  readonly kind: LimitKind;
  readonly percent: (typeof THRESHOLD_PERCENTS)[number];
  readonly limitMicro: number;
  readonly amountMicro: number;
}

/** Action name: the services of the policy were paused. */
export const PAUSED = 'paused';

/** Millionths of a US dollar per cent. */
export const MICRO_PER_CENT = 10_000;
const DAY_MS = 24 * 3_600_000;

export interface Window {
  /** Epoch milliseconds; the end is exclusive. */
  readonly start: number;
  readonly end: number;
}

/** Returns the window that contains `now`, in UTC: a day, an ISO week from Monday, or a month. */
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

/** Returns the thresholds of both limits, lowest amount first. */
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

/** Whether an action was taken in the window that began at `windowStart`. Also true for past windows. */
export const isDone = ({ done }: BudgetPolicy, windowStart: number, name: string): boolean =>
  done.windowStart > windowStart || (done.windowStart === windowStart && done.names.includes(name));

/** Returns the policy after an action in a window. Actions of past windows are dropped. */
export function withDone(policy: BudgetPolicy, windowStart: number, name: string): BudgetPolicy {
  if (isDone(policy, windowStart, name)) return policy;
  const before = policy.done.windowStart === windowStart ? policy.done.names : [];
  return { ...policy, done: { windowStart, names: [...before, name] } };
}

/** Returns the thresholds that this spend of a window reaches and that have sent no alert yet. */
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
 * Returns the policy with other limits. Thresholds that the spend no longer reaches can send alerts again, and the
 * services
 * can be paused again.
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
  /** Expected spend at the end of the window. */
  readonly spentMicro: number;
  /**
   * When the hard limit (or the soft limit if there is no hard one) will be reached, in epoch milliseconds; null if not
   * in this window.
   */
  readonly breachAt: number | null;
}

/** Over less than an hour, a single call would determine the rate. */
const MIN_ELAPSED_MS = 3_600_000;

/** Projects the spend at the end of the window from the rate in the window so far. */
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

/** Converts to US dollars as a number. */
export const usdOf = (micro: number): number => Math.round(micro) / 1_000_000;

/** Formats US dollars with two decimals, rounded down: an amount never looks like a limit that it has not reached. */
export const usdText = (micro: number): string => (Math.floor(micro / MICRO_PER_CENT) / 100).toFixed(2);

/** Scope of a policy, for messages. */
export const scopeText = ({ agent }: BudgetPolicy): string =>
  agent === null ? 'this workspace' : `${agent} in this workspace`;
