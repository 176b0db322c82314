import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent } from '#core/ports/table.ts';
import { type ApiKey, listKeys, newApiKey, revokeKey } from '../keys/store.ts';
import { userEmailItem } from './emails.ts';
import { findPersonalWorkspace, newUserOperations } from './store.ts';

/** Item that names the platform's owner; it exists once the platform is set up. */
const OWNER = { pk: 'PLATFORM', sk: 'OWNER' };

/**
 * Creates the first workspace, its owner and an API key in one transaction, and returns the key: it is stored hashed and
 * cannot be shown again. Returns `undefined` if the platform is already set up. Safe to repeat, also concurrently.
 */
export async function bootstrap(deps: Deps): Promise<string | undefined> {
  if (await deps.main.get(OWNER)) return undefined;
  const userId = deps.ids.uuid();
  const { ownerEmail: email, workspaceSlug: slug } = deps.config;
  const personalWorkspace: Workspace = {
    id: deps.ids.uuid(),
    slug,
    name: slug,
    type: 'personal',
    createdAt: isoTime(deps.clock.now()),
  };
  const { key, operations } = newApiKey(deps, { userId, personalWorkspace }, 'first key');
  const result = await deps.main.transact([
    { op: 'put', item: { ...OWNER, user_id: userId }, condition: absent() },
    ...newUserOperations(userId, { email, displayName: email.split('@')[0]! }, personalWorkspace),
    { op: 'put', item: userEmailItem({ id: userId, email }) },
    ...operations,
  ]);
  return result.ok ? key : undefined;
}

/**
 * Creates another key of the platform's owner, for an operator who lost the first one, and for setup work. Throws if
 * the platform is not set up yet.
 */
export async function createOwnerKey(deps: Deps, name: string): Promise<{ key: string; revoke: () => Promise<void> }> {
  const owner = await deps.main.get(OWNER);
  if (owner === undefined) throw new Error('The platform is not set up yet: start it once.');
  const userId = owner.user_id as string;
  const personalWorkspace = await findPersonalWorkspace(deps, userId);
  const { key, record, operations } = newApiKey(deps, { userId, personalWorkspace }, name);
  await deps.main.transact(operations);
  return {
    key,
    revoke: async () => {
      await revokeKey(deps, userId, record.id);
    },
  };
}

/** Finds the owner's oldest key without limits; `undefined` if all were revoked, or the platform is not set up. */
export async function findOwnerKey(deps: Pick<Deps, 'main'>): Promise<ApiKey | undefined> {
  const owner = await deps.main.get(OWNER);
  return owner && (await listKeys(deps, owner.user_id as string)).find(({ limits }) => limits === undefined);
}
