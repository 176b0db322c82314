import { PlatformError } from '#core/base/errors.ts';
import type { Role, Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { findUser, listMembers, memberItem, memberKey, userKey, workspaceKey } from './store.ts';

/**
 * A member of a workspace. The record of the workspace counts its owners, and each change of that count is written in one
 * transaction with the membership: if the last two owners leave at the same time, one of them stays.
 */
export interface Member {
  readonly userId: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly role: Role;
  readonly acceptedAt: string;
}

type MemberDeps = Pick<Deps, 'main' | 'clock'>;

/** Members, oldest membership first. */
export async function listMemberRecords({ main }: MemberDeps, workspaceId: string): Promise<Member[]> {
  const members: Member[] = [];
  for await (const item of queryAll(main, { index: 'gsi1', pk: `WS#${workspaceId}#MEMBERS` })) {
    const user = await main.get(userKey(item.gsi1sk!));
    members.push({
      userId: item.gsi1sk!,
      email: (user?.email as string | undefined) ?? null,
      name: (user?.display_name as string | undefined) ?? null,
      role: item.role as Role,
      acceptedAt: item.accepted_at as string,
    });
  }
  return members.sort((a, b) => a.acceptedAt.localeCompare(b.acceptedAt) || a.userId.localeCompare(b.userId));
}

/**
 * Makes a user a member, in one transaction with `alongside`. Returns false if a condition of `alongside` fails. Throws
 * CONFLICT if the user is already a member.
 */
export async function addMember(
  deps: MemberDeps,
  { workspace, userId, role }: { readonly workspace: Workspace; readonly userId: string; readonly role: Role },
  alongside: readonly TransactOperation[] = [],
): Promise<boolean> {
  const item = memberItem(workspace, userId, role, isoTime(deps.clock.now()));
  return retryOnConflict(deps.clock, `the members of ${workspace.id}`, async () => {
    const owners = role === 'owner' ? [await ownersChange(deps, workspace.id, 1)] : [];
    const result = await deps.main.transact([{ op: 'put', item, condition: absent() }, ...alongside, ...owners]);
    if (result.ok) return true;
    if (result.failed.includes(0)) {
      throw new PlatformError('CONFLICT', `You are already a member of the workspace "${workspace.slug}".`);
    }
    return result.failed.some((position) => position <= alongside.length) ? false : undefined;
  });
}

/**
 * Changes the role of a member. Throws NOT_FOUND if the user is not a member, and CONFLICT if the workspace would have
 * no owner.
 */
export async function changeRole(
  deps: MemberDeps,
  { workspace, userId, role }: { readonly workspace: Workspace; readonly userId: string; readonly role: Role },
): Promise<void> {
  await changeMember(deps, workspace, userId, role);
}

/**
 * Removes a member. Once this returns, the user's keys have no access to the workspace. Throws like {@link changeRole}.
 */
export async function removeMember(
  deps: MemberDeps,
  { workspace, userId }: { readonly workspace: Workspace; readonly userId: string },
): Promise<void> {
  await changeMember(deps, workspace, userId, undefined);
}

async function changeMember(
  deps: MemberDeps,
  workspace: Workspace,
  userId: string,
  role: Role | undefined,
): Promise<void> {
  const key = memberKey(userId, workspace.id);
  await retryOnConflict(deps.clock, `the members of ${workspace.id}`, async () => {
    const before = (await deps.main.get(key))?.role as Role | undefined;
    if (before === undefined) {
      throw new PlatformError('NOT_FOUND', `The workspace "${workspace.slug}" has no member "${userId.slice(0, 64)}".`);
    }
    if (before === role) return true;
    if (before === 'owner' && (await findUser(deps, userId))?.personalWorkspaceId === workspace.id) {
      throw new PlatformError(
        'CONFLICT',
        `"${workspace.slug}" is the personal workspace of this user, who must remain its owner.`,
      );
    }
    const condition = equals('role', before);
    const write: TransactOperation = role
      ? { op: 'update', key, changes: { set: { role } }, condition }
      : { op: 'delete', key, condition };
    const growth = before === 'owner' ? -1 : role === 'owner' ? 1 : 0;
    const owners = growth === 0 ? [] : [await ownersChange(deps, workspace.id, growth)];
    return (await deps.main.transact([write, ...owners])).ok || undefined;
  });
}

/**
 * Returns the write of the new number of owners, conditional on the current number. Throws CONFLICT if the workspace
 * would have no owner.
 */
async function ownersChange(deps: MemberDeps, workspaceId: string, growth: -1 | 1): Promise<TransactOperation> {
  const key = workspaceKey(workspaceId);
  const counted = (await deps.main.get(key))?.owners as number | undefined;
  const owners = (counted ?? (await countOwners(deps, workspaceId))) + growth;
  if (owners < 1) {
    throw new PlatformError(
      'CONFLICT',
      'A workspace must have at least one owner: make another member an owner first.',
    );
  }
  // Records of version 0.1.0 do not count owners.
  const condition = counted === undefined ? absent('owners') : equals('owners', counted);
  return { op: 'update', key, changes: { set: { owners } }, condition };
}

async function countOwners(deps: MemberDeps, workspaceId: string): Promise<number> {
  const members = await listMembers(deps, workspaceId);
  const items = await Promise.all(members.map((userId) => deps.main.get(memberKey(userId, workspaceId))));
  return items.filter((item) => item?.role === 'owner').length;
}
