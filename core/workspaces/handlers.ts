import type { Deps } from '../deps.ts';
import type { Handlers } from '../http/route.ts';
import type { workspaceRoutes } from './routes.ts';
import { countMembers, findUser, listMemberships } from './store.ts';

export const workspaceHandlers = (deps: Pick<Deps, 'main'>): Handlers<typeof workspaceRoutes> => ({
  async listWorkspaces({ caller }) {
    const memberships = await listMemberships(deps, caller.userId);
    const workspaces = await Promise.all(
      memberships.map(async ({ workspace, role }) => ({
        ...workspace,
        role,
        member_count: await countMembers(deps, workspace.id),
      })),
    );
    return { status: 200, body: { workspaces } };
  },

  async getOrg({ caller: { workspace } }) {
    return { status: 200, body: { ...workspace, created_at: workspace.createdAt } };
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
});
