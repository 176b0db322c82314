import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { serviceKeyRoutes } from './routes.ts';
import { createStaticKey, type KeyOwner, listStaticKeys, revokeStaticKey } from './store.ts';

type ServiceKeyDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** Finds the agent version `id` of the caller's workspace. Injected, because the wing of agents is above this one. */
type FindAgent = (
  deps: ServiceKeyDeps,
  caller: Caller,
  id: string,
) => Promise<{ readonly workspaceId: string; readonly name: string }>;

export const serviceKeyHandlers = (deps: ServiceKeyDeps, findAgent: FindAgent): Handlers<typeof serviceKeyRoutes> => {
  /** Accepts the id of any version, because all versions of an agent share its keys. */
  async function ownerOf(caller: Caller, id: string): Promise<KeyOwner> {
    const { workspaceId, name } = await findAgent(deps, caller, id);
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
