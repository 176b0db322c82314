import type { Deps } from '#core/deps.ts';
import { newApiKey } from '#core/keys/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import { findMembership, memberItem, newUserOperations, type Workspace } from '#core/workspaces/store.ts';

/** A user with an API key and the workspace `slug`, which is his own. */
export interface TestUser {
  readonly userId: string;
  readonly workspaceId: string;
  readonly slug: string;
  readonly key: string;
  readonly keyId: string;
}

/** Makes a user as the first start makes the owner: there is no route for it yet. */
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

/** Makes a user a member of a workspace: invitations come later. */
export async function addMember(
  deps: Pick<Deps, 'main' | 'clock'>,
  user: TestUser,
  workspaceId: string,
  role: 'owner' | 'member' = 'member',
): Promise<void> {
  const [owner] = (await deps.main.query({ index: 'gsi1', pk: `WS#${workspaceId}#MEMBERS`, limit: 1 })).items;
  const workspace = (await findMembership(deps, owner!.gsi1sk!, workspaceId))!.workspace;
  await deps.main.put(memberItem(workspace, user.userId, role, isoTime(deps.clock.now())));
}
