import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkStays } from '../workspaces/moving.ts';
import { findPersonalWorkspace, membershipOf } from '../workspaces/store.ts';
import { limitsForNewKey } from './limits.ts';
import { keysOf } from './own-keys.ts';
import type { keyRoutes } from './routes.ts';
import { type ApiKey, newApiKey, revokeKey } from './store.ts';

const shown = ({ id, name, prefix, limits, createdAt }: ApiKey) => ({
  id,
  name,
  prefix,
  scope: limits?.scope ?? 'manage',
  workspace_id: limits?.workspaceId ?? null,
  expires_at: limits?.expiresAt ?? null,
  created_at: createdAt,
});

export const keyHandlers = (deps: Pick<Deps, 'main' | 'clock' | 'ids'>): Handlers<typeof keyRoutes> => ({
  async listApiKeys({ caller }) {
    const keys = await keysOf(deps, caller);
    return { status: 200, body: keys.map((key) => ({ ...shown(key), last_used_at: key.lastUsedAt })) };
  },

  async createApiKey({ caller, body }) {
    const { name, scope, workspace_id: workspaceId, expires_at } = body;
    const expiresAt = expires_at === undefined ? undefined : isoTime(Date.parse(expires_at));
    const limits = limitsForNewKey(caller, { scope, workspaceId, expiresAt }, deps.clock.now());
    if (workspaceId !== undefined) {
      const membership = await membershipOf(deps, caller, workspaceId);
      if (membership === undefined) {
        throw new PlatformError('FORBIDDEN', `You are not a member of a workspace with the id "${workspaceId}".`);
      }
      checkStays(membership.workspace, 'change');
    }
    const personalWorkspace = await findPersonalWorkspace(deps, caller.userId);
    const { key, record, operations } = newApiKey(deps, { userId: caller.userId, personalWorkspace }, name, limits);
    await deps.main.transact(operations);
    return { status: 201, body: { ...shown(record), key } };
  },

  async deleteApiKey({ caller, params }) {
    const isOwn = (await keysOf(deps, caller)).some(({ id }) => id === params.id);
    if (!isOwn || !(await revokeKey(deps, caller.userId, params.id))) {
      throw new PlatformError('NOT_FOUND', `You have no API key with the id "${params.id}".`);
    }
    return { status: 200, body: { deleted: true, id: params.id } };
  },
});
