import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findWorkspaceIdBySlug } from '../workspaces/store.ts';
import { type Grant, union } from './grant.ts';
import type { grantRoutes } from './routes.ts';
import { GrantStore } from './store.ts';

type GrantDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** An agent version that may receive a grant. */
interface GrantableVersion {
  readonly workspaceId: string;
  readonly orgSlug: string;
  readonly name: string;
  readonly firstVersion: number;
  /** False while its code can still change. */
  readonly runnable: boolean;
  readonly definition: { readonly type: string };
}

/**
 * Finds a version that the caller may see; `latest` is the newest if no version is runnable. Throws NOT_FOUND.
 * Injected, because the wing of agents is above this one.
 */
type FindAgent = (
  deps: GrantDeps,
  caller: Caller,
  address: { readonly org: string; readonly agent: string; readonly version: string },
) => Promise<GrantableVersion>;

export const grantHandlers = (deps: GrantDeps, findAgent: FindAgent): Handlers<typeof grantRoutes> => {
  const storeOf = ({ workspace }: Caller) => new GrantStore(deps, workspace.id);

  /** Returns the key of a grant, even if its agent no longer exists. */
  async function agentOf(caller: Caller, { org, agent }: { org: string; agent: string }) {
    const workspaceId = await findWorkspaceIdBySlug(deps, org);
    if (workspaceId === undefined) throw notFound(caller, org, agent);
    return { workspaceId, name: agent };
  }

  return {
    async listGrants({ caller }) {
      return { status: 200, body: { grants: (await storeOf(caller).list()).map(viewOf) } };
    },

    async getGrant({ caller, params }) {
      const grant = await storeOf(caller).find(await agentOf(caller, params));
      if (grant === undefined) throw notFound(caller, params.org, params.agent);
      return { status: 200, body: { grant: viewOf(grant) }, headers: etagOf(grant) };
    },

    async putGrant({ caller, params, headers, body: { version: named, ...rights } }) {
      const version = await findAgent(deps, caller, { ...params, version: named === 'all' ? 'latest' : named });
      checkGrantable(caller, version, named, rights);
      const { grant, created } = await storeOf(caller).put(
        {
          agent: `${version.orgSlug}/${version.name}`,
          agentWorkspaceId: version.workspaceId,
          firstVersion: version.firstVersion,
          version: named === 'all' ? named : Number(named.slice(1)),
          secrets: union(rights.secrets),
          scopes: union(rights.scopes),
          egress: union(rights.egress),
        },
        { userId: caller.userId, expectedRevision: headers['if-match'] },
      );
      return { status: 200, body: { grant: viewOf(grant), created }, headers: etagOf(grant) };
    },

    async deleteGrant({ caller, params, headers }) {
      const agent = await agentOf(caller, params);
      if (!(await storeOf(caller).remove(agent, headers['if-match']))) {
        throw notFound(caller, params.org, params.agent);
      }
      return { status: 200, body: { deleted: true } };
    },
  };
};

/** Throws INVALID_INPUT. */
function checkGrantable(
  { workspace }: Caller,
  version: GrantableVersion,
  named: string,
  { secrets, scopes }: Pick<Grant, 'secrets' | 'scopes'>,
): void {
  const agent = `${version.orgSlug}/${version.name}`;
  const refuse = (message: string) => new PlatformError('INVALID_INPUT', message);
  if (version.workspaceId === workspace.id && secrets.length + scopes.length > 0) {
    throw refuse(
      `${agent} belongs to this workspace and needs no grant of secrets and scopes: leave them out, and grant "egress" only.`,
    );
  }
  if (version.definition.type === 'skill') {
    throw refuse(`${agent} is a skill, which has the permissions of the agent that uses it: grant them to that agent.`);
  }
  if (named !== 'all' && !version.runnable) {
    throw refuse(`body.version: ${agent} ${named} has no complete code yet: create the grant once it can run.`);
  }
}

const viewOf = ({ agent, version, secrets, scopes, egress, grantedBy, grantedAt, revision }: Grant) => ({
  agent,
  version: version === 'all' ? version : `v${version}`,
  secrets: [...secrets],
  scopes: [...scopes],
  egress: [...egress],
  granted_by: grantedBy,
  granted_at: grantedAt,
  revision,
});

const etagOf = ({ revision }: Grant) => ({ etag: `"${revision}"` });

const notFound = ({ workspace }: Caller, org: string, agent: string): PlatformError =>
  new PlatformError(
    'NOT_FOUND',
    `The workspace "${workspace.slug}" has no grant for the agent ${org}/${agent}.`.slice(0, 300),
  );
