import { findOwn } from '../agents/access.ts';
import type { Deps } from '../deps.ts';
import { PlatformError } from '../errors.ts';
import type { Caller } from '../http/auth.ts';
import type { Handlers } from '../http/route.ts';
import type { serviceKeyRoutes } from './routes.ts';
import { createStaticKey, type KeyOwner, listStaticKeys, revokeStaticKey } from './static-keys.ts';

export const serviceKeyHandlers = (
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
): Handlers<typeof serviceKeyRoutes> => {
  /** Any version names the agent, whose keys are those of all versions. */
  async function ownerOf(caller: Caller, id: string): Promise<KeyOwner> {
    const { workspaceId, name } = await findOwn(deps, caller, id);
    return { workspaceId, agentName: name };
  }

  return {
    async listServiceKeys({ caller, params }) {
      const keys = await listStaticKeys(deps, await ownerOf(caller, params.id));
      return {
        status: 200,
        body: {
          keys: keys.map(({ id, prefix, createdAt, lastUsedAt }) => ({
            id,
            prefix,
            created_at: createdAt,
            last_used_at: lastUsedAt,
          })),
        },
      };
    },

    async createServiceKey({ caller, params }) {
      return { status: 201, body: await createStaticKey(deps, await ownerOf(caller, params.id)) };
    },

    async deleteServiceKey({ caller, params }) {
      const owner = await ownerOf(caller, params.id);
      if (!(await revokeStaticKey(deps, owner, params.key_id))) {
        throw new PlatformError(
          'NOT_FOUND',
          `The agent "${owner.agentName}" has no service key with the id "${params.key_id.slice(0, 64)}".`,
        );
      }
      return { status: 200, body: { deleted: true } };
    },
  };
};
