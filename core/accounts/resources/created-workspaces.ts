import { planOf } from '#core/base/plans.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, equals, exists, type Item, type TransactOperation } from '#core/ports/table.ts';
import { findPersonalWorkspace, listMemberships, userKey } from '../workspaces/store.ts';
import { quotaError } from './quota.ts';

type CountDeps = Pick<Deps, 'main' | 'config'>;

/**
 * Returns the write that increments `workspaces_created` of the user's record. It fails if
 * the count has changed since. Throws STORAGE_QUOTA_EXCEEDED if the plan of the user's personal workspace allows no
 * more workspaces.
 */
export async function countNewWorkspace(deps: CountDeps, userId: string): Promise<TransactOperation> {
  const item = await deps.main.get(userKey(userId));
  const used = await countOf(deps, userId, item);
  const plan = planOf(deps, await findPersonalWorkspace(deps, userId));
  if (plan.workspaces !== null && used >= plan.workspaces) throw quotaError('workspaces', plan, { used, growth: 1 });
  return {
    op: 'update',
    key: userKey(userId),
    changes: { set: { workspaces_created: used + 1 } },
    condition: allOf(
      exists(),
      item?.workspaces_created === undefined ? absent('workspaces_created') : equals('workspaces_created', used),
    ),
  };
}

/** Returns how many workspaces a user has created, without the personal one. */
export async function createdWorkspaces(deps: CountDeps, userId: string): Promise<number> {
  return countOf(deps, userId, await deps.main.get(userKey(userId)));
}

/** Records of version 0.1.0 have no count: there, the owner of a team workspace is assumed to be its creator. */
async function countOf(deps: CountDeps, userId: string, item: Item | undefined): Promise<number> {
  if (item?.workspaces_created !== undefined) return item.workspaces_created as number;
  const memberships = await listMemberships(deps, userId);
  return memberships.filter(({ role, workspace }) => role === 'owner' && workspace.type === 'team').length;
}
