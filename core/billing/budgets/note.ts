import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import type { Deps } from '#core/ports/deps.ts';
import { BudgetStore } from './store.ts';

/**
 * Records in a workspace and its copies whether it has budgets, so that calls of workspaces without budgets need not
 * read
 * them. Call it after each change to their number; the last of several concurrent calls leaves the correct value.
 */
export async function noteBudgets(deps: Pick<Deps, 'main' | 'clock'>, workspaceId: string): Promise<void> {
  const hasBudgets = async () => (await new BudgetStore(deps, workspaceId).list()).length > 0;
  let noted: boolean;
  do {
    noted = await hasBudgets();
    await changeWorkspace(deps, workspaceId, { budgets: noted });
  } while (noted !== (await hasBudgets()));
}
