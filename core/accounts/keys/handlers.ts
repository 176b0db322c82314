import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findPersonalWorkspace } from '../workspaces/store.ts';
import type { keyRoutes } from './routes.ts';
import { type ApiKey, listKeys, newApiKey, revokeKey } from './store.ts';

const shown = (key: ApiKey) => ({ id: key.id, name: key.name, prefix: key.prefix, created_at: key.createdAt });

export const keyHandlers = (deps: Pick<Deps, 'main' | 'clock' | 'ids'>): Handlers<typeof keyRoutes> => ({
  async listApiKeys({ caller }) {
    const keys = await listKeys(deps, caller.userId);
    return { status: 200, body: keys.map((key) => ({ ...shown(key), last_used_at: key.lastUsedAt })) };
  },

  async createApiKey({ caller, body }) {
    const personalWorkspace = await findPersonalWorkspace(deps, caller.userId);
    const { key, record, operations } = newApiKey(deps, { userId: caller.userId, personalWorkspace }, body.name);
    await deps.main.transact(operations);
    return { status: 201, body: { ...shown(record), key } };
  },

  async deleteApiKey({ caller, params }) {
    if (!(await revokeKey(deps, caller.userId, params.id))) {
      throw new PlatformError('NOT_FOUND', `You have no API key with the id "${params.id}".`);
    }
    return { status: 200, body: { deleted: true, id: params.id } };
  },
});
