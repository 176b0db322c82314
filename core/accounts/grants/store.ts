import { PlatformError } from '#core/base/errors.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type Item, queryAll } from '#core/ports/table.ts';
import type { Grant } from './grant.ts';

/** Granted permissions, without author and time. */
export type GrantMembers = Pick<
  Grant,
  'agent' | 'agentWorkspaceId' | 'firstVersion' | 'version' | 'secrets' | 'scopes' | 'egress'
>;

type StoreDeps = Pick<Deps, 'main' | 'clock' | 'ids'>;

/**
 * The grants of one workspace. Main table: `WS#<workspace id> / GRANT#<id of the agent's workspace>#<name>`. The key
 * contains no slug, so a grant cannot pass to an agent of another workspace.
 */
export class GrantStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** @param agent `workspaceId` is the workspace of the agent. */
  async find(agent: { readonly workspaceId: string; readonly name: string }): Promise<Grant | undefined> {
    return findGrant(this.#deps, this.#workspaceId, agent);
  }

  async list(): Promise<Grant[]> {
    const items = queryAll(this.#deps.main, { pk: `WS#${this.#workspaceId}`, sk: { beginsWith: 'GRANT#' } });
    return (await Array.fromAsync(items)).map(fromItem).sort((a, b) => (a.agent < b.agent ? -1 : 1));
  }

  /**
   * Creates or replaces a grant; a no-op if it is unchanged. Throws CONFLICT unless the present grant has
   * `expectedRevision`, if given.
   */
  async put(
    members: GrantMembers,
    { userId, expectedRevision }: { readonly userId: string; readonly expectedRevision: string | undefined },
  ): Promise<{ grant: Grant; created: boolean }> {
    const { main, clock, ids } = this.#deps;
    const name = members.agent.split('/')[1]!;
    return retryOnConflict(clock, `the grant of ${members.agent}`, async () => {
      const before = await this.find({ workspaceId: members.agentWorkspaceId, name });
      checkRevision(members.agent, before, expectedRevision);
      if (before && isEqual(before, members)) return { grant: before, created: false };
      const grant: Grant = {
        ...members,
        grantedBy: userId,
        grantedAt: isoTime(clock.now()),
        revision: ids.uuid(),
      };
      const item = { ...grantKey(this.#workspaceId, members.agentWorkspaceId, name), ...attributesOf(grant) };
      const { ok } = await main.put(item, before ? equals('revision', before.revision) : absent());
      return ok ? { grant, created: before === undefined } : undefined;
    });
  }

  /** Removes a grant. Returns false if it does not exist. Throws CONFLICT like {@link put}. */
  async remove(
    agent: { readonly workspaceId: string; readonly name: string },
    expectedRevision: string | undefined,
  ): Promise<boolean> {
    const { main, clock } = this.#deps;
    return retryOnConflict(clock, `the grant of ${agent.name}`, async () => {
      const before = await this.find(agent);
      if (before === undefined) return false;
      checkRevision(before.agent, before, expectedRevision);
      const key = grantKey(this.#workspaceId, agent.workspaceId, agent.name);
      return (await main.delete(key, equals('revision', before.revision))).ok || undefined;
    });
  }
}

/** Reads a grant in one get. It may be for another version: see `isFor`. */
export async function findGrant(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
  agent: { readonly workspaceId: string; readonly name: string },
): Promise<Grant | undefined> {
  const item = await main.get(grantKey(workspaceId, agent.workspaceId, agent.name));
  return item && fromItem(item);
}

const grantKey = (workspaceId: string, agentWorkspaceId: string, name: string) => ({
  pk: `WS#${workspaceId}`,
  sk: `GRANT#${agentWorkspaceId}#${name}`,
});

function checkRevision(agent: string, grant: Grant | undefined, expected: string | undefined): void {
  if (expected === undefined || expected === grant?.revision) return;
  const is = grant === undefined ? 'no longer exists' : `has the revision ${grant.revision}`;
  throw new PlatformError(
    'CONFLICT',
    `The grant of ${agent} ${is}, but the request expects ${expected}: read the grant again and repeat the change.`,
  );
}

const isEqual = (grant: Grant, members: GrantMembers): boolean =>
  grant.firstVersion === members.firstVersion &&
  grant.version === members.version &&
  grant.secrets.join() === members.secrets.join() &&
  grant.scopes.join() === members.scopes.join() &&
  grant.egress.join() === members.egress.join();

const fromItem = (item: Item): Grant => ({
  agent: item.agent as string,
  agentWorkspaceId: item.agent_workspace_id as string,
  firstVersion: item.first_version as number,
  version: item.version as Grant['version'],
  secrets: item.secrets as string[],
  scopes: item.scopes as Grant['scopes'][number][],
  // Absent in grants of earlier versions.
  egress: (item.egress as string[] | undefined) ?? [],
  grantedBy: item.granted_by as string,
  grantedAt: item.granted_at as string,
  revision: item.revision as string,
});

const attributesOf = ({ agentWorkspaceId, firstVersion, grantedBy, grantedAt, ...grant }: Grant) => ({
  ...grant,
  secrets: [...grant.secrets],
  scopes: [...grant.scopes],
  egress: [...grant.egress],
  agent_workspace_id: agentWorkspaceId,
  first_version: firstVersion,
  granted_by: grantedBy,
  granted_at: grantedAt,
});
