import type { AgentCaller, ForeignAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Grant, grantRequest, isFor, type Scope } from './grant.ts';
import { findGrant } from './store.ts';

/** What a run may get of some secrets. */
export interface GrantedSecrets {
  /** Granted to every foreign agent of the run's chain; all of them where there is none. */
  readonly granted: readonly string[];
  readonly lacking: readonly string[];
  /** The requests that would grant `names`, one for each agent that lacks some of them. */
  requestsFor(names: readonly string[]): string[];
}

/**
 * Which of `names` a run may get of `workspaceId`, which pays for it (`docs/interface/grants.md#chains`). One read for
 * each foreign agent, none without one or without names.
 *
 * @param foreign Those of the run's chain, the run's own agent included.
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
 * Whether an agent's key opens a part of the workspace that the agent runs for: with each request anew, so that a grant
 * that is taken back ends at once.
 */
export async function mayUse(deps: Pick<Deps, 'main'>, agent: AgentCaller, scope: Scope): Promise<boolean> {
  return (await lackingScope(deps, agent, scope)).length === 0;
}

/** Throws FORBIDDEN, with the requests that would grant the scope, unless {@link mayUse}. */
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
    { hint: `An owner of the workspace grants it: ${requests.join('; ')}` },
  );
}

/** Which grants the foreign agents of a run's chain have: another list as soon as anything about them has changed. */
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
  // A static key acts in its agent's own workspace, at the top of a chain.
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
