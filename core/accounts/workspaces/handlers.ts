import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Role, Workspace } from '#core/base/workspace.ts';
import { Zone } from '#core/base/zone.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { audited } from '../audit/log.ts';
import { countNewWorkspace } from '../resources/created-workspaces.ts';
import { changeWorkspace } from './change.ts';
import {
  acceptInvite,
  createInvite,
  type Invite,
  joinByInvite,
  listInvites,
  openInvite,
  revokeInvite,
} from './invites.ts';
import { changeRole, listMemberRecords, removeMember } from './members.ts';
import type { workspaceRoutes } from './routes.ts';
import { slugFrom } from './slug.ts';
import { countMembers, findUser, listMemberships, newWorkspaceOperations } from './store.ts';

type WorkspaceHandlers = Handlers<typeof workspaceRoutes>;
type InviteOperation = 'inviteMember' | 'createInvite' | 'revokeInvite' | 'getInvite' | 'acceptInvite' | 'joinByInvite';
type MemberOperation = 'listMembers' | 'updateMember' | 'removeMember';
type WorkspaceDeps = Pick<Deps, 'main' | 'clock' | 'ids' | 'config' | 'mail' | 'log' | 'gatewayUrl'>;

export const workspaceHandlers = (deps: WorkspaceDeps): WorkspaceHandlers => ({
  ...ownHandlers(deps),
  ...memberHandlers(deps),
  ...inviteHandlers(deps),
});

/** Handlers for the caller and its workspaces. */
function ownHandlers(deps: WorkspaceDeps): Omit<WorkspaceHandlers, MemberOperation | InviteOperation> {
  return {
    async listWorkspaces({ caller }) {
      const only = caller.limits?.workspaceId;
      const all = await listMemberships(deps, caller.userId);
      const memberships = all.filter(({ workspace }) => only === undefined || workspace.id === only);
      const workspaces = await Promise.all(
        memberships.map(async ({ workspace, role }) => ({
          ...workspace,
          role,
          member_count: await countMembers(deps, workspace.id),
        })),
      );
      return { status: 200, body: { workspaces } };
    },

    async createWorkspace({ caller, body: { name, slug: wanted } }) {
      const slug = slugFrom(wanted ?? name);
      if (slug === undefined || (wanted !== undefined && wanted !== slug)) {
        const reason =
          wanted === undefined
            ? `body.name: no slug can be derived from "${name}", or it is reserved: send one in "slug".`
            : `body.slug: "${wanted}" is not a valid slug, or it is reserved: send another.`;
        throw new PlatformError('INVALID_INPUT', reason);
      }
      const { clock, ids } = deps;
      const workspace: Workspace = { id: ids.uuid(), slug, name, type: 'team', createdAt: isoTime(clock.now()) };
      const creation = newWorkspaceOperations(caller.userId, workspace);
      await retryOnConflict(clock, `the workspaces of ${caller.userId}`, async () => {
        const result = await deps.main.transact([...creation, await countNewWorkspace(deps, caller.userId)]);
        if (result.ok) return true;
        if (!result.failed.includes(0)) return undefined;
        throw new PlatformError('CONFLICT', `The slug "${slug}" is taken: send another in "slug".`);
      });
      return { status: 201, body: { workspace: { ...workspace, role: 'owner', member_count: 1 } } };
    },

    async getOrg({ caller: { workspace } }) {
      return { status: 200, body: shownOrg(workspace) };
    },

    async updateOrg({ caller: { workspace }, body: { name, timezone, trace_content: traceContent, approvers } }) {
      const changes = {
        ...(name !== undefined && { name }),
        ...(timezone !== undefined && { timezone: Zone.of(timezone).name }),
        ...(traceContent !== undefined && { traceContent }),
        ...(approvers !== undefined && { approvers }),
      };
      return { status: 200, body: shownOrg((await changeWorkspace(deps, workspace.id, changes)) ?? workspace) };
    },

    async getMe({ caller }) {
      const user = await findUser(deps, caller.userId);
      if (user === undefined) throw new Error(`user ${caller.userId} has a key but no record`);
      return {
        status: 200,
        body: {
          user: {
            id: user.id,
            display_name: user.displayName,
            email: user.email,
            created_at: user.createdAt,
            updated_at: user.createdAt,
            last_login_at: null,
          },
        },
      };
    },
  };
}

function memberHandlers(deps: WorkspaceDeps): Pick<WorkspaceHandlers, MemberOperation> {
  return {
    async listMembers({ caller }) {
      const { workspace, role } = caller;
      const [members, invites] = await Promise.all([
        listMemberRecords(deps, workspace.id),
        role === 'owner' ? listInvites(deps, workspace.id) : [],
      ]);
      const shown = members.map(({ userId, email, name, role, acceptedAt }) => ({
        id: userId,
        clerk_user_id: userId,
        email,
        name,
        role,
        accepted_at: acceptedAt,
      }));
      return { status: 200, body: { members: shown, invites: invites.map(shownInvite) } };
    },

    async updateMember({ caller: { workspace }, params: { user_id: userId }, body: { role } }) {
      await changeRole(deps, { workspace, userId, role });
      return { status: 200, body: { updated: true, id: userId, role } };
    },

    async removeMember({ caller: { workspace, role, userId: own }, params: { user_id: userId } }) {
      if (role !== 'owner' && userId !== own) {
        throw new PlatformError('FORBIDDEN', `Only an owner of the workspace "${workspace.slug}" may remove others.`);
      }
      await removeMember(deps, { workspace, userId });
      return { status: 200, body: { deleted: true, id: userId } };
    },
  };
}

function inviteHandlers(deps: WorkspaceDeps): Pick<WorkspaceHandlers, InviteOperation> {
  async function invite({ caller, body }: { caller: Caller; body: { email: string; role: Role } }) {
    const { workspace } = caller;
    const members = await listMemberRecords(deps, workspace.id);
    if (members.some(({ email }) => email?.toLowerCase() === body.email.toLowerCase())) {
      throw new PlatformError('INVALID_INPUT', `body.email: ${body.email} is already a member of "${workspace.slug}".`);
    }
    const { invite, token } = await createInvite(deps, workspace.id, body);
    const { baseUrl = deps.gatewayUrl, dashboardUrl = baseUrl } = deps.config;
    // The dashboard has a page of the same path; without one, the link leads to the API.
    const url = `${dashboardUrl}/invites/${token}`;
    const email_sent = await sendInvite(deps, workspace, invite, url);
    return { status: 200, body: { invite: { ...shownInvite(invite), email_sent, invite_url: url } } } as const;
  }

  return {
    inviteMember: invite,
    createInvite: invite,

    async revokeInvite({ caller: { workspace }, params: { invite_id: id } }) {
      if (!(await revokeInvite(deps, workspace.id, id))) {
        throw new PlatformError(
          'NOT_FOUND',
          `The workspace "${workspace.slug}" has no invitation "${id.slice(0, 64)}".`,
        );
      }
      return { status: 200, body: { deleted: true, id } };
    },

    async getInvite({ params: { token } }) {
      const invite = await openInvite(deps, token);
      const path = `/invites/${token}`;
      const how_to_accept = `POST ${path}/accept with the API key of your user; without one, POST ${path}/join makes you a user.`;
      return { status: 200, body: { invite: { ...shownInvite(invite), workspace: invite.workspace }, how_to_accept } };
    },

    async acceptInvite({ caller, ...incoming }) {
      const { token } = incoming.params;
      const { workspace } = await openInvite(deps, token);
      const subject = { workspaceId: workspace.id, operation: 'acceptInvite', by: caller };
      return audited(deps, subject, incoming, async () => {
        const { workspace, role } = await acceptInvite(deps, token, caller.userId);
        return { status: 200 as const, body: { workspace: { ...workspace, role } } };
      });
    },

    async joinByInvite(incoming) {
      const { token } = incoming.params;
      const { workspace } = await openInvite(deps, token);
      const userId = deps.ids.uuid();
      const subject = { workspaceId: workspace.id, operation: 'joinByInvite', by: { userId } };
      return audited(deps, subject, incoming, async () => {
        const joined = await joinByInvite(deps, token, { userId, name: incoming.body.name });
        const { invite, user, personalWorkspace, key } = joined;
        const workspace = { ...invite.workspace, role: invite.role };
        const body = { workspace, user, personal_workspace: personalWorkspace, api_key: key };
        return { status: 201 as const, body };
      });
    },
  };
}

/** Sends an invitation by e-mail. Returns false if e-mail is not set up, or fails: the inviter must share the link. */
async function sendInvite(deps: WorkspaceDeps, workspace: Workspace, { email }: Invite, url: string): Promise<boolean> {
  // The e-mail shows only the slug: the name may be any text that the platform would send to strangers, but a slug can
  // contain no link and no line end.
  const text = `You are invited to the workspace "${workspace.slug}":\n\n${url}\n\nThe link works once, within seven days.\n`;
  try {
    return await deps.mail.send({ to: email, subject: `Invitation to the workspace ${workspace.slug}`, text });
  } catch (error) {
    deps.log.warn('invitation not sent', { workspace_id: workspace.id, error: String(error) });
    return false;
  }
}

const shownOrg = ({ timezone = 'UTC', traceContent = 'off', approvers = 'members', ...workspace }: Workspace) => ({
  ...workspace,
  timezone,
  trace_content: traceContent,
  approvers,
  created_at: workspace.createdAt,
});

const shownInvite = ({ id, email, role, createdAt, expiresAt }: Invite) => ({
  id,
  email,
  role,
  created_at: createdAt,
  expires_at: expiresAt,
});
