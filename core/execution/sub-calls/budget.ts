import type { Budget } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { MICRO_PER_CENT, usdText } from '#core/billing/budgets/policy.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, allOf, anyOf, type Condition, lessThan } from '#core/ports/table.ts';

/**
 * Counters table: `BUDGET#<budget id> / USED` has the calls counted against a {@link Budget}, and their cost in
 * `spent_microusd`: the price of a paid call when it is made, the rest when it ends.
 */
const budgetKey = (id: string) => ({ pk: `BUDGET#${id}`, sk: 'USED' });
const BUDGET_KEPT_SECONDS = 24 * 3600;

type CounterDeps = Pick<Deps, 'counters' | 'clock'>;

/** Returns the budgets for a run's own calls, adding its agent's spend cap if it has one. */
export function withSpendCap(budgets: readonly Budget[], agent: AgentVersion, runId: string): readonly Budget[] {
  const cents = agent.definition.manifest?.downstream_spend_cap;
  if (cents === undefined) return budgets;
  // The top agent has no budget of calls.
  const own = budgets.at(-1) ?? { id: runId, ref: refOf(agent), cap: Number.MAX_SAFE_INTEGER };
  return [...budgets.slice(0, -1), { ...own, spendCap: cents * MICRO_PER_CENT }];
}

/** Throws BUDGET_EXCEEDED if the call's budget is smaller than the agent's `recommended_min_caller_budget`. */
export function checkCallerBudget(agent: AgentVersion, budget: number, callerRef: string): void {
  const wanted = agent.definition.manifest?.recommended_min_caller_budget ?? 0;
  if (budget >= wanted) return;
  throw new PlatformError(
    'BUDGET_EXCEEDED',
    `${refOf(agent)} is called with a budget of at least ${wanted} calls (recommended_min_caller_budget), and this call of ${callerRef} gives it ${budget}.`,
    { hint: `Publish ${callerRef.split('@')[0]} with a manifest.per_call_downstream_cap of at least ${wanted}.` },
  );
}

/**
 * Counts one call against all of the budgets. Throws BUDGET_EXCEEDED, counting none, if one is used up or cannot pay
 * for the
 * call.
 *
 * @param call `deadline` in epoch milliseconds: the budgets are stored for a day longer; `priceCents` in credits.
 */
export async function countCall(
  { counters, clock }: CounterDeps,
  budgets: readonly Budget[],
  call: { readonly deadline: number; readonly priceCents: number },
): Promise<void> {
  if (budgets.length === 0) return;
  const price = call.priceCents * MICRO_PER_CENT;
  const empty = budgets.find(({ cap }) => cap < 1);
  if (empty) throw exceeded(empty);
  const ttl = epochSeconds(call.deadline) + BUDGET_KEPT_SECONDS;
  const refuse = async (budget: Budget): Promise<never> => {
    const spent = ((await counters.get(budgetKey(budget.id)))?.spent_microusd as number | undefined) ?? 0;
    throw spent < spendLimit(budget, price) ? exceeded(budget) : tooDear(budget, spent, price);
  };
  const unpaid = budgets.find((budget) => spendLimit(budget, price) <= 0);
  if (unpaid) await refuse(unpaid);
  // Sibling runs write budgets concurrently: DynamoDB rejects one of two transactions on the same item.
  await retryOnConflict(clock, 'a budget of a sub-call', async () => {
    const result = await counters.transact(
      budgets.map((budget) => ({
        op: 'update' as const,
        key: budgetKey(budget.id),
        changes: { add: { used: 1, ...(budget.spendCap !== undefined && { spent_microusd: price }) }, set: { ttl } },
        condition: hasRoom(budget, price),
      })),
    );
    if (result.ok) return true;
    if (result.failed.length > 0) await refuse(budgets[result.failed[0]!]!);
    return undefined;
  });
}

/**
 * Adds the cost of a call, in millionths of a US dollar, to the budgets that limit it; negative if its price was
 * refunded.
 */
export async function countSpend(
  { counters, clock }: CounterDeps,
  budgets: readonly Budget[],
  microUsd: number,
): Promise<void> {
  const limited = budgets.filter(({ spendCap }) => spendCap !== undefined);
  if (limited.length === 0 || microUsd === 0) return;
  await retryOnConflict(clock, 'the spend of a sub-call', async () => {
    const { ok } = await counters.transact(
      limited.map(({ id }) => ({
        op: 'update' as const,
        key: budgetKey(id),
        changes: { add: { spent_microusd: Math.round(microUsd) } },
      })),
    );
    return ok || undefined;
  });
}

const hasRoom = (budget: Budget, price: number): Condition => {
  const calls = anyOf(absent('used'), lessThan('used', budget.cap));
  if (budget.spendCap === undefined) return calls;
  return allOf(calls, anyOf(absent('spent_microusd'), lessThan('spent_microusd', spendLimit(budget, price))));
};

/**
 * A call is allowed while the spend is below this limit: its price must fit into the rest, and the rest must be
 * positive.
 */
const spendLimit = ({ spendCap = Number.POSITIVE_INFINITY }: Budget, price: number): number =>
  Math.min(spendCap, spendCap - price + 1);

const exceeded = ({ ref, cap }: Budget): PlatformError =>
  new PlatformError(
    'BUDGET_EXCEEDED',
    `The call of ${ref} may make ${cap} calls of dependencies, those of its dependencies included, and has made them.`,
    { hint: "The limit is per_call_downstream_cap in its caller's manifest." },
  );

const tooDear = ({ ref, spendCap }: Budget, spent: number, price: number): PlatformError =>
  new PlatformError(
    'BUDGET_EXCEEDED',
    `The calls below ${ref} may cost $${usdText(spendCap!)} together and have cost $${usdText(spent)}${price > 0 ? `; the next one costs $${usdText(price)}` : ''}.`,
    { hint: `The limit is downstream_spend_cap, in cents, in the manifest of ${ref.split('@')[0]}.` },
  );
