import type { Deps } from '../deps.ts';
import { newApiKey } from '../keys/store.ts';
import { absent } from '../ports/table.ts';
import { newUserOperations } from './store.ts';

/** Says who owns the platform, once it was set up. */
const OWNER = { pk: 'PLATFORM', sk: 'OWNER' };

/**
 * Makes the first workspace, its owner and an API key, and answers the key: it is stored hashed and cannot be shown
 * again. All in one transaction, so it is safe to run twice, at once and after a crash: every run but one answers
 * `undefined`.
 */
export async function bootstrap(deps: Deps): Promise<string | undefined> {
  if (await deps.main.get(OWNER)) return undefined;
  const owner = { userId: deps.ids.uuid(), personalWorkspaceId: deps.ids.uuid() };
  const { ownerEmail: email, workspaceSlug: slug } = deps.config;
  const { key, operations } = newApiKey(deps, owner, 'first key');
  const result = await deps.main.transact([
    {
      op: 'put',
      item: { ...OWNER, user_id: owner.userId, personal_workspace_id: owner.personalWorkspaceId },
      condition: absent(),
    },
    ...newUserOperations({
      userId: owner.userId,
      workspaceId: owner.personalWorkspaceId,
      email,
      displayName: email.split('@')[0]!,
      slug,
      name: slug,
      createdAt: new Date(deps.clock.now()).toISOString(),
    }),
    ...operations,
  ]);
  return result.ok ? key : undefined;
}

/** A further key for the platform's owner, for the operator who lost the first. Needs access to the tables themselves. */
export async function createOwnerKey(deps: Deps): Promise<string> {
  const owner = await deps.main.get(OWNER);
  if (owner === undefined) throw new Error('the platform was not set up yet: start it once');
  const { key, operations } = newApiKey(
    deps,
    { userId: owner.user_id as string, personalWorkspaceId: owner.personal_workspace_id as string },
    'made by the operator',
  );
  await deps.main.transact(operations);
  return key;
}
