import { type Client, createClient } from '#core/api/client.ts';
import type { Target } from '#test/helpers/platform.ts';
import { startScriptedLlm } from '#test/helpers/scripted-llm/server.ts';
import type { TestUser } from '#test/helpers/users.ts';

/** Prefix of errors about operations that a remote platform does not offer. */
export const NOT_HERE = 'not on a platform elsewhere: ';

const notHere = (what: string): never => {
  throw new Error(NOT_HERE + what);
};

/** On AWS usage is summed about two seconds after the end of a run. */
const USAGE_LAG_MS = 4000;

/**
 * Connects to a running platform by its address and a key of the owner of its workspace `acme`. Users are created
 * through invitations. `modelPort` is the port on this machine where the platform finds all model providers; without
 * it, tests that script a model are skipped.
 */
export async function remoteTarget(address: string, key: string, modelPort?: number): Promise<Target> {
  const url = address.replace(/\/+$/, '');
  const as = (userKey: string): Client => createClient({ baseUrl: url, key: userKey });
  const llm = modelPort === undefined ? undefined : await startScriptedLlm({ port: modelPort });
  const owner = as(key);
  /** Keys of workspace owners by workspace id. */
  const keyOf = new Map([[(await owner.getOrg({})).id, key]]);
  const { workspace: lobby } = await owner.createWorkspace({ body: { name: 'lobby', slug: 'lobby' } });

  const invite = async (ownerKey: string, workspaceId: string, slug: string): Promise<string> => {
    const { invite } = await as(ownerKey).inviteMember({
      params: { workspace_id: workspaceId },
      body: { email: `${slug}@example.com` },
    });
    return new URL(invite.invite_url).pathname.split('/').at(-1)!;
  };

  async function addUser(slug: string): Promise<TestUser> {
    const token = await invite(key, lobby.id, slug);
    const joined = await owner.joinByInvite({ params: { token }, body: { name: slug } });
    const { id: workspaceId, slug: given } = joined.personal_workspace;
    if (given !== slug)
      throw new Error(`the slug ${slug} is taken: this suite needs a platform that holds nothing yet`);
    const first = as(joined.api_key);
    const userId = joined.user.id;
    await first.removeMember({ params: { workspace_id: lobby.id, user_id: userId } });
    const created = await first.createApiKey({ body: { name: `key of ${slug}` } });
    const user = as(created.key);
    for (const { id } of await user.listApiKeys({})) {
      if (id !== created.id) await user.deleteApiKey({ params: { id } });
    }
    keyOf.set(workspaceId, created.key);
    return { userId, workspaceId, slug, key: created.key, keyId: created.id };
  }

  return {
    url,
    key,
    slug: 'acme',
    usageLagMs: USAGE_LAG_MS,
    addUser,
    async addMember(user, workspaceId) {
      const ownerKey = keyOf.get(workspaceId) ?? notHere('knows the owner of every workspace');
      const token = await invite(ownerKey, workspaceId, user.slug);
      await as(user.key).acceptInvite({ params: { token } });
    },
    get operatorKey() {
      return notHere('has the key of the operator');
    },
    setPlan: () => notHere('sets plans'),
    grantCredits: () => notHere('grants credits'),
    fire: () => notHere('lets schedules fire'),
    get llm() {
      return llm ?? notHere('scripts a model');
    },
    get stripe() {
      return notHere('scripts payments');
    },
    interpreters: {},
    async close() {
      await llm?.close();
    },
  };
}
