import type { Budget } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, lessThan } from '#core/ports/table.ts';
import { untilWritten } from '#core/ports/until-written.ts';

/** Counters table: `BUDGET#<budget id> / USED` is the number of calls counted against a {@link Budget}. */
const budgetKey = (id: string) => ({ pk: `BUDGET#${id}`, sk: 'USED' });
const BUDGET_KEPT_SECONDS = 24 * 3600;

/**
 * Counts one call against all of the budgets. Throws BUDGET_EXCEEDED if one is used up; then none is counted.
 *
 * @param deadline Of the call, in epoch milliseconds: the budgets are kept for a day longer.
 */
export async function countCall(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  budgets: readonly Budget[],
  deadline: number,
): Promise<void> {
  if (budgets.length === 0) return;
  const empty = budgets.find(({ cap }) => cap < 1);
  if (empty) throw exceeded(empty);
  const ttl = epochSeconds(deadline) + BUDGET_KEPT_SECONDS;
  // Sibling runs write budgets at the same time: DynamoDB refuses one of two transactions on the same item.
  await untilWritten(clock, 'a budget of a sub-call', async () => {
    const result = await counters.transact(
      budgets.map(({ id, cap }) => ({
        op: 'update' as const,
        key: budgetKey(id),
        changes: { add: { used: 1 }, set: { ttl } },
        condition: anyOf(absent('used'), lessThan('used', cap)),
      })),
    );
    if (result.ok) return true;
    if (result.failed.length > 0) throw exceeded(budgets[result.failed[0]!]!);
    return undefined;
  });
}

const exceeded = ({ ref, cap }: Budget): PlatformError =>
  new PlatformError(
    'BUDGET_EXCEEDED',
    `The call of ${ref} may make ${cap} calls of dependencies, those of its dependencies included, and has made them.`,
    { hint: "The limit is per_call_downstream_cap in its caller's manifest." },
  );
