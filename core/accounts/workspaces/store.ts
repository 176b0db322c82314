import type { Caller } from '#core/base/caller.ts';
import type { Json } from '#core/base/json.ts';
import type { PlanName } from '#core/base/plans.ts';
import type {
  AnnouncedRuns,
  Approvers,
  Role,
  TraceContentSetting,
  Workspace,
  WorkspaceMove,
} from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, exists, type Item, queryAll, type Table, type TransactOperation } from '#core/ports/table.ts';

/**
 * Main table:
 *
 * - `WS#<id> / META`: a workspace and the number of its owners;
 * - `SLUG#<slug> / META`: the id of the workspace with this slug;
 * - `USER#<id> / META`: a user;
 * - `USER#<id> / MEMBER#<workspace id>`: a membership (gsi1: the members of a workspace). It holds a copy of the
 * workspace,
 *   so that authentication takes one read, not two.
 */
export interface User {
  readonly id: string;
  readonly email: string;
  readonly displayName: string;
  readonly personalWorkspaceId: string;
  readonly createdAt: string;
}

type MainDeps = Pick<Deps, 'main'>;

export const workspaceKey = (id: string) => ({ pk: `WS#${id}`, sk: 'META' });
const slugKey = (slug: string) => ({ pk: `SLUG#${slug}`, sk: 'META' });
export const userKey = (id: string) => ({ pk: `USER#${id}`, sk: 'META' });
export const memberKey = (userId: string, workspaceId: string) => ({
  pk: `USER#${userId}`,
  sk: `MEMBER#${workspaceId}`,
});

export function workspaceFrom(item: { readonly [member: string]: Json | undefined }): Workspace {
  return {
    id: item.id as string,
    slug: item.slug as string,
    name: item.name as string,
    type: item.type as Workspace['type'],
    createdAt: item.created_at as string,
    ...(item.plan !== undefined && { plan: item.plan as PlanName }),
    ...(item.timezone !== undefined && { timezone: item.timezone as string }),
    ...(item.budgets === true && { budgets: true }),
    ...(item.telemetry === true && { telemetry: true }),
    ...(typeof item.destinations === 'string' && { destinations: item.destinations as AnnouncedRuns }),
    ...(item.trace_content !== undefined && { traceContent: item.trace_content as TraceContentSetting }),
    ...(item.approvers !== undefined && { approvers: item.approvers as Approvers }),
    ...(item.move !== undefined && { move: item.move as unknown as WorkspaceMove }),
  };
}

export interface Membership {
  readonly workspace: Workspace;
  readonly role: Role;
}

/** Returns `undefined` if the user is not a member, or if the workspace does not exist. */
export async function findMembership(
  { main }: MainDeps,
  userId: string,
  workspaceId: string,
): Promise<Membership | undefined> {
  if (workspaceId === '' || workspaceId.length > 64) return undefined;
  const member = await main.get(memberKey(userId, workspaceId));
  return member && membershipFrom(member);
}

/** Like {@link findMembership}; a key that is limited to one workspace has no other memberships. */
export async function membershipOf(
  deps: MainDeps,
  { userId, limits }: Pick<Caller, 'userId' | 'limits'>,
  workspaceId: string,
): Promise<Membership | undefined> {
  if (limits?.workspaceId !== undefined && limits.workspaceId !== workspaceId) return undefined;
  const membership = await findMembership(deps, userId, workspaceId);
  if (membership?.workspace.move?.state === 'moved') return undefined;
  return membership;
}

const membershipFrom = (member: Item): Membership => ({
  workspace: workspaceFrom(member.workspace as Record<string, Json>),
  role: member.role as Role,
});

export async function listMemberships({ main }: MainDeps, userId: string): Promise<Membership[]> {
  const members = queryAll(main, { pk: `USER#${userId}`, sk: { beginsWith: 'MEMBER#' } });
  return (await Array.fromAsync(members)).map(membershipFrom);
}

export async function countMembers({ main }: MainDeps, workspaceId: string): Promise<number> {
  return (await listMembers({ main }, workspaceId)).length;
}

/** Lists the user ids of the members of a workspace. */
export async function listMembers({ main }: MainDeps, workspaceId: string): Promise<string[]> {
  const members = queryAll(main, { index: 'gsi1', pk: `WS#${workspaceId}#MEMBERS`, limit: 1000 });
  return (await Array.fromAsync(members)).map((member) => member.gsi1sk!);
}

/**
 * Changes a workspace and the copies of it in memberships, but not those in keys: use `changeWorkspace`. Returns
 * `undefined` if the workspace does not exist.
 */
export async function updateWorkspace(
  deps: MainDeps,
  id: string,
  {
    traceContent,
    ...changes
  }: Partial<Pick<Workspace, 'plan' | 'name' | 'timezone' | 'budgets' | 'telemetry' | 'traceContent' | 'approvers'>> & {
    readonly destinations?: AnnouncedRuns | false;
  },
): Promise<Workspace | undefined> {
  const updated = await deps.main.update(
    workspaceKey(id),
    { set: { ...changes, ...(traceContent && { trace_content: traceContent }) } },
    exists(),
  );
  if (!updated.ok) return undefined;
  const workspace = workspaceFrom(updated.item);
  for (const userId of await listMembers(deps, id)) {
    await deps.main.update(memberKey(userId, id), { set: { workspace: workspaceMembers(workspace) } }, exists());
  }
  return workspace;
}

/** Workspace ids by slug. A slug is never reused, so entries stay valid. */
const knownSlugs = new WeakMap<Table, Map<string, string>>();
const MAX_KNOWN_SLUGS = 10_000;

export async function findWorkspace({ main }: MainDeps, id: string): Promise<Workspace | undefined> {
  const item = await main.get(workspaceKey(id));
  return item && workspaceFrom(item);
}

/** Finds the id of the workspace (organization) with this slug. */
export async function findWorkspaceIdBySlug({ main }: MainDeps, slug: string): Promise<string | undefined> {
  const known = knownSlugs.get(main) ?? new Map<string, string>();
  knownSlugs.set(main, known);
  const cached = known.get(slug);
  if (cached !== undefined) return cached;
  const item = await main.get(slugKey(slug));
  const id = item?.workspace_id as string | undefined;
  if (id !== undefined) {
    if (known.size >= MAX_KNOWN_SLUGS) known.clear();
    known.set(slug, id);
  }
  return id;
}

export async function findUser({ main }: MainDeps, id: string): Promise<User | undefined> {
  const item = await main.get(userKey(id));
  return (
    item && {
      id,
      email: item.email as string,
      displayName: item.display_name as string,
      personalWorkspaceId: item.personal_workspace_id as string,
      createdAt: item.created_at as string,
    }
  );
}

export async function findPersonalWorkspace(deps: MainDeps, userId: string): Promise<Workspace> {
  const user = await findUser(deps, userId);
  const workspace = user && (await findWorkspace(deps, user.personalWorkspaceId));
  if (workspace === undefined) throw new Error(`user ${userId} has a key but no record, or no workspace`);
  return workspace;
}

/** Returns the attributes of a workspace in its item and in copies of it. */
export const workspaceMembers = ({
  id,
  slug,
  name,
  type,
  createdAt,
  plan,
  timezone,
  budgets,
  destinations,
  telemetry,
  traceContent,
  approvers,
  move,
}: Workspace) => ({
  id,
  slug,
  name,
  type,
  created_at: createdAt,
  ...(plan !== undefined && { plan }),
  ...(timezone !== undefined && { timezone }),
  ...(budgets && { budgets }),
  ...(destinations && { destinations }),
  ...(telemetry && { telemetry }),
  ...(traceContent !== undefined && { trace_content: traceContent }),
  ...(approvers !== undefined && { approvers }),
  ...(move !== undefined && { move: { ...move } }),
});

/** Returns the item of a membership, accepted at `acceptedAt`. */
export const memberItem = (workspace: Workspace, userId: string, role: Role, acceptedAt: string): Item => ({
  ...memberKey(userId, workspace.id),
  workspace: workspaceMembers(workspace),
  role,
  accepted_at: acceptedAt,
  gsi1pk: `WS#${workspace.id}#MEMBERS`,
  gsi1sk: userId,
});

/**
 * Returns the writes that create a workspace with its first owner. If the slug is taken, the first write fails, and
 * with it all of them.
 */
export function newWorkspaceOperations(userId: string, workspace: Workspace): TransactOperation[] {
  const { id, slug, createdAt } = workspace;
  return [
    { op: 'put', item: { ...slugKey(slug), workspace_id: id }, condition: absent() },
    { op: 'put', item: { ...workspaceKey(id), ...workspaceMembers(workspace), owners: 1 } },
    { op: 'put', item: memberItem(workspace, userId, 'owner', createdAt) },
  ];
}

/** Returns the writes that create a user with a personal workspace. They fail like {@link newWorkspaceOperations}. */
export function newUserOperations(
  userId: string,
  { email, displayName }: { email: string; displayName: string },
  workspace: Workspace,
): TransactOperation[] {
  const item: Item = {
    ...userKey(userId),
    email,
    display_name: displayName,
    personal_workspace_id: workspace.id,
    created_at: workspace.createdAt,
  };
  return [...newWorkspaceOperations(userId, workspace), { op: 'put', item }];
}
