import { newApiKey } from '#core/accounts/keys/store.ts';
import { addMember as makeMember } from '#core/accounts/workspaces/members.ts';
import { findWorkspace, newUserOperations } from '#core/accounts/workspaces/store.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/** User with an API key and the personal workspace `slug`. */
export interface TestUser {
  readonly userId: string;
  readonly workspaceId: string;
  readonly slug: string;
  readonly key: string;
  readonly keyId: string;
}

/** Creates a user as the first start creates the owner. */
export async function addUser(deps: Pick<Deps, 'main' | 'clock' | 'ids'>, slug: string): Promise<TestUser> {
  const userId = deps.ids.uuid();
  const workspaceId = deps.ids.uuid();
  const personalWorkspace: Workspace = {
    id: workspaceId,
    slug,
    name: slug,
    type: 'personal',
    createdAt: isoTime(deps.clock.now()),
  };
  const { key, record, operations } = newApiKey(deps, { userId, personalWorkspace }, `key of ${slug}`);
  const result = await deps.main.transact([
    ...newUserOperations(userId, { email: `${slug}@example.com`, displayName: slug }, personalWorkspace),
    ...operations,
  ]);
  if (!result.ok) throw new Error(`the slug ${slug} is taken`);
  return { userId, workspaceId, slug, key, keyId: record.id };
}

/** Makes a user a member of a workspace, without an invitation. */
export async function addMember(
  deps: Pick<Deps, 'main' | 'clock'>,
  { userId }: TestUser,
  workspaceId: string,
  role: 'owner' | 'member' = 'member',
): Promise<void> {
  const workspace = await findWorkspace(deps, workspaceId);
  await makeMember(deps, { workspace: workspace!, userId, role });
}
