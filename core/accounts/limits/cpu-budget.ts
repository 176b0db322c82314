import { PlatformError } from '#core/base/errors.ts';
import { type Plan, planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { callsAboutLeft } from './admission.ts';
import type { LimitError, RateLimit } from './rate-limit.ts';

/** Burst: an idle workspace accumulates the budget of ten seconds. */
const BURST_SECONDS = 10;
/** Minimum charge of a rejected call, because rejecting it also takes time. */
const REFUSED_CALL_MS = 10;
/** Schemas that a workspace may compile on this thread in a burst, and the seconds until it may compile another. */
const COMPILATIONS = 10;
const SECONDS_PER_COMPILATION = 6;
/** Cache time of the remaining-call count of an exhausted workspace, which makes no calls meanwhile. */
const KNOWN_LEFT_MS = 1000;
const MAX_WORKSPACES = 10_000;

type TimeDeps = Pick<Deps, 'config' | 'clock'>;

/** Owner of a budget: a workspace, or a part of it with a separate budget. */
export type TimeOwner = Pick<Workspace, 'id' | 'slug' | 'plan'>;

interface Account {
  /** Remaining milliseconds; negative after a check that overdrew the budget. */
  left: number;
  compilations: number;
  /** Epoch milliseconds. */
  at: number;
  /** Cached remaining calls, for the answers to rejected ones. */
  calls?: { readonly left: RateLimit; readonly at: number };
}

/** A process has one clock; tests have several. */
const accounts = new WeakMap<Clock, Map<string, Account>>();

/**
 * Enforces the workspace's time budget in this process for checks of manifests, schemas, archives and rejected calls
 * (`docs/interface/limits.md#checks`). Throws RATE_LIMITED if it is exhausted.
 */
export function requireCheckTime(deps: TimeDeps, workspace: TimeOwner): void {
  const account = accountOf(deps, workspace);
  if (account.left <= 0) throw withoutTime(deps, workspace, account);
}

function withoutTime(deps: TimeDeps, workspace: TimeOwner, { left }: Account): PlatformError {
  const plan = planOf(deps, workspace);
  const wait = Math.max(1, Math.ceil(-left / (plan.validation_ms_per_minute / 60)));
  return new PlatformError(
    'RATE_LIMITED',
    `The workspace "${workspace.slug}" has used up its time for checks of schemas, manifests, bundles and refused calls: ${plan.validation_ms_per_minute} ms per minute (plan "${plan.name}").`,
    {
      suggested_wait_time: wait,
      hint: 'Simplify schemas and patterns, and correct refused calls before you repeat them: each takes some of this time.',
    },
  );
}

/** Charges the time of a check. */
export function countCheckTime(deps: TimeDeps, workspace: TimeOwner, ms: number): void {
  accountOf(deps, workspace).left -= ms;
}

/**
 * Runs `step`, a part of a call before its admission, and charges the workspace if it throws. Throws RATE_LIMITED, and
 * errors of the step.
 */
export async function chargeIfRejected<T>(deps: TimeDeps, workspace: TimeOwner, step: () => Promise<T>): Promise<T> {
  requireCheckTime(deps, workspace);
  try {
    return await step();
  } catch (error) {
    countCheckTime(deps, workspace, REFUSED_CALL_MS);
    throw error;
  }
}

/**
 * Rejects a call of a workspace with an exhausted budget, before any other work. Throws RATE_LIMITED with the remaining
 * calls of the plan, for the headers of the answer.
 */
export async function rejectIfExhausted(deps: TimeDeps & Pick<Deps, 'counters'>, workspace: Workspace): Promise<void> {
  const account = accountOf(deps, workspace);
  if (account.left > 0) return;
  const now = deps.clock.now();
  if (account.calls === undefined || now - account.calls.at >= KNOWN_LEFT_MS) {
    account.calls = { left: await callsAboutLeft(deps, workspace), at: now };
  }
  throw Object.assign(withoutTime(deps, workspace, account), {
    rateLimit: account.calls.left,
  } satisfies Partial<LimitError>);
}

/** Returns whether the workspace may compile a small schema on this thread, and counts it. */
export function mayCompileHere(deps: TimeDeps, workspace: TimeOwner): boolean {
  const account = accountOf(deps, workspace);
  if (account.compilations < 1) return false;
  account.compilations -= 1;
  return true;
}

const perSecond = (plan: Plan): number => plan.validation_ms_per_minute / 60;

function accountOf(deps: TimeDeps, workspace: TimeOwner): Account {
  const now = deps.clock.now();
  const rate = perSecond(planOf(deps, workspace));
  const all = accounts.get(deps.clock) ?? new Map<string, Account>();
  accounts.set(deps.clock, all);
  const full = { left: rate * BURST_SECONDS, compilations: COMPILATIONS };
  const known = all.get(workspace.id);
  if (known === undefined) {
    if (all.size >= MAX_WORKSPACES) all.delete(all.keys().next().value!);
    const account = { ...full, at: now };
    all.set(workspace.id, account);
    return account;
  }
  const seconds = Math.max(0, now - known.at) / 1000;
  known.left = Math.min(full.left, known.left + seconds * rate);
  known.compilations = Math.min(full.compilations, known.compilations + seconds / SECONDS_PER_COMPILATION);
  known.at = now;
  return known;
}
