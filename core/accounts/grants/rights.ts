import type { AgentCaller, ForeignAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Grant, grantRequest, isFor, type Scope } from './grant.ts';
import { findGrant } from './store.ts';

/** Which secrets a run may read. */
export interface GrantedSecrets {
  /**
   * Secrets that every foreign agent in the run's chain was granted; all of them if the chain has no foreign agents.
   */
  readonly granted: readonly string[];
  readonly lacking: readonly string[];
  /** Returns requests that would grant `names`, one for each agent that lacks some of them. */
  requestsFor(names: readonly string[]): string[];
}

/**
 * Returns which of `names` a run may read from `workspaceId`, which pays for it (`docs/interface/grants.md#chains`).
 * Costs one read per foreign agent, none without foreign agents or names.
 *
 * @param foreign Foreign agents of the run's chain, the run's own agent included.
 */
export async function grantedSecrets(
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  foreign: readonly ForeignAgent[],
  names: readonly string[],
): Promise<GrantedSecrets> {
  const found = names.length === 0 ? [] : await readGrants(deps, workspaceId, foreign);
  const mayHave = (name: string) => found.every(({ agent, grant }) => holds(grant, agent)?.secrets.includes(name));
  return {
    granted: names.filter(mayHave),
    lacking: names.filter((name) => !mayHave(name)),
    requestsFor: (wanted) =>
      found.flatMap(({ agent, grant }) => {
        const secrets = wanted.filter((name) => !holds(grant, agent)?.secrets.includes(name));
        return secrets.length === 0 ? [] : [grantRequest(workspaceId, agent, { grant, secrets })];
      }),
  };
}

/**
 * Returns whether an agent's key gives access to a part of the workspace that the agent runs for. It is evaluated per
 * request, so that a revoked grant ends immediately.
 */
export async function mayUse(deps: Pick<Deps, 'main'>, agent: AgentCaller, scope: Scope): Promise<boolean> {
  return (await lackingScope(deps, agent, scope)).length === 0;
}

/** Throws FORBIDDEN, with the requests that would grant the scope, unless {@link mayUse} allows it. */
export async function checkScope(deps: Pick<Deps, 'main'>, agent: AgentCaller, scope: Scope): Promise<void> {
  const lacking = await lackingScope(deps, agent, scope);
  if (lacking.length === 0) return;
  const names = lacking.map(({ agent: { org, name, version } }) => `${org}/${name}@v${version}`).join(', ');
  const requests = lacking.map(({ agent: each, grant }) =>
    grantRequest(agent.workspace.id, each, { grant, scopes: [scope] }),
  );
  throw new PlatformError(
    'FORBIDDEN',
    `The workspace "${agent.workspace.slug}" has not granted its ${scope} to ${names}.`,
    { hint: `An owner of the workspace can grant it: ${requests.join('; ')}` },
  );
}

/** Targets that agents were not granted. */
export interface LackingEgress {
  /** Those of the targets that at least one of the agents lacks. */
  readonly targets: readonly string[];
  /** Requests that would grant them, one for each agent that lacks some. */
  readonly requests: readonly string[];
}

/**
 * Returns which of `targets` a run may not connect to: every one of `agents` needs the grant, which are the agents of
 * other workspaces in the run's chain and its own agent. Costs one read per agent, none without targets.
 */
export async function lackingEgress(
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  agents: readonly ForeignAgent[],
  targets: readonly string[],
): Promise<LackingEgress> {
  const found = targets.length === 0 ? [] : await readGrants(deps, workspaceId, agents);
  const lacks = ({ agent, grant }: Found) => targets.filter((target) => !holds(grant, agent)?.egress.includes(target));
  const lacking = found.map((each) => ({ ...each, egress: lacks(each) })).filter(({ egress }) => egress.length > 0);
  return {
    targets: targets.filter((target) => lacking.some(({ egress }) => egress.includes(target))),
    requests: lacking.map(({ agent, grant, egress }) => grantRequest(workspaceId, agent, { grant, egress })),
  };
}

/** Returns the revisions of the grants of a run's foreign agents. The list differs after any change of them. */
export async function grantRevisions(
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  foreign: readonly ForeignAgent[],
): Promise<readonly (readonly (string | number | null)[])[]> {
  const found = await readGrants(deps, workspaceId, foreign);
  return found.map(({ agent, grant }) => [
    agent.workspaceId,
    agent.name,
    agent.version,
    holds(grant, agent)?.revision ?? null,
  ]);
}

interface Found {
  readonly agent: ForeignAgent;
  readonly grant: Grant | undefined;
}

async function lackingScope(deps: Pick<Deps, 'main'>, caller: AgentCaller, scope: Scope): Promise<Found[]> {
  // A static key acts in its agent's own workspace, at the beginning of a chain.
  if (caller.kind === 'static') return [];
  const { foreign } = caller.kind === 'service' ? caller : caller.context;
  const found = await readGrants(deps, caller.workspace.id, foreign);
  return found.filter(({ agent, grant }) => !holds(grant, agent)?.scopes.includes(scope));
}

const readGrants = (
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  foreign: readonly ForeignAgent[],
): Promise<Found[]> =>
  Promise.all(foreign.map(async (agent) => ({ agent, grant: await findGrant(deps, workspaceId, agent) })));

const holds = (grant: Grant | undefined, agent: ForeignAgent): Grant | undefined =>
  grant && isFor(grant, agent) ? grant : undefined;
