import { fullNameOf } from '#core/agents/references.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Table } from '#core/ports/table.ts';
import { type BudgetPolicy, limitOf, meetsHardLimit, scopeText, usdText } from './policy.ts';
import { type Progress, progressOf } from './progress.ts';
import { RecentReads } from './recent-reads.ts';
import { BudgetStore } from './store.ts';

/** Calls of this long may begin after a limit is met, beside those under way. */
const MAX_AGE_MS = 1000;

const policyReads = new RecentReads<readonly BudgetPolicy[]>();

/** Makes this process read changed policies at once; others do within a second. */
export const forgetPolicies = (main: Table, workspaceId: string): void => policyReads.forget(main, workspaceId);

/**
 * Throws BUDGET_EXCEEDED if a budget of the workspace blocks new runs of this agent. Of a workspace without budgets, reads
 * nothing.
 */
export async function checkBudgets(
  deps: Pick<Deps, 'main' | 'runs' | 'clock' | 'config'>,
  workspace: Workspace,
  agent: Pick<AgentVersion, 'orgSlug' | 'name'>,
): Promise<void> {
  if (!workspace.budgets) return;
  const { main: table, clock } = deps;
  const policies = await policyReads.get({ table, clock }, workspace.id, MAX_AGE_MS, () =>
    new BudgetStore(deps, workspace.id).list(),
  );
  const blocking = policies.filter(
    (policy) => policy.action === 'block_new_runs' && (policy.agent === null || policy.agent === fullNameOf(agent)),
  );
  const progress = await progressOf(deps, workspace.id, blocking, MAX_AGE_MS);
  const met = blocking.findIndex((policy, i) => meetsHardLimit(policy, progress[i]!.spentMicro));
  if (met >= 0) throw exceeded(blocking[met]!, progress[met]!);
}

function exceeded(policy: BudgetPolicy, { spentMicro, window }: Progress): PlatformError {
  const limit = usdText(limitOf(policy, 'hard_limit')!);
  return new PlatformError(
    'BUDGET_EXCEEDED',
    `The ${policy.window} budget ${policy.id} of ${scopeText(policy)} blocks new runs: $${usdText(spentMicro)} of its hard limit of $${limit} are spent. Its window ends at ${isoTime(window.end)}.`,
    { hint: 'An owner of the workspace can raise hard_limit_usd, or set another action_on_hard_limit.' },
  );
}
