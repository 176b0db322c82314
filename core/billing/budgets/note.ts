import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import type { Deps } from '#core/ports/deps.ts';
import { BudgetStore } from './store.ts';

/**
 * Notes in the record of a workspace, and in its copies, whether it has budgets: calls of a workspace without any then read
 * none. Call it after each change of their number; the last of several calls leaves what is true.
 */
export async function noteBudgets(deps: Pick<Deps, 'main' | 'clock'>, workspaceId: string): Promise<void> {
  const hasBudgets = async () => (await new BudgetStore(deps, workspaceId).list()).length > 0;
  let noted: boolean;
  do {
    noted = await hasBudgets();
    await changeWorkspace(deps, workspaceId, { budgets: noted });
  } while (noted !== (await hasBudgets()));
}
