import type { Deps } from '#core/deps.ts';
import { newApiKey } from '#core/keys/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import { newUserOperations } from '#core/workspaces/store.ts';

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
  const { key, record, operations } = newApiKey(deps, { userId, personalWorkspaceId: workspaceId }, `key of ${slug}`);
  const result = await deps.main.transact([
    ...newUserOperations({
      userId,
      workspaceId,
      email: `${slug}@example.com`,
      displayName: slug,
      slug,
      name: slug,
      createdAt: isoTime(deps.clock.now()),
    }),
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
  await deps.main.put({
    pk: `USER#${user.userId}`,
    sk: `MEMBER#${workspaceId}`,
    role,
    accepted_at: isoTime(deps.clock.now()),
    gsi1pk: `WS#${workspaceId}#MEMBERS`,
    gsi1sk: user.userId,
  });
}
