import { findMembership } from '#core/accounts/workspaces/store.ts';
import { versionName } from '#core/agents/references.ts';
import { AgentStore, findNewest, resolveAgent } from '#core/agents/store.ts';
import { type AgentVersion, sunsetOf } from '#core/agents/version.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/** The version that a path names. Throws NOT_FOUND. */
export async function resolveForCall(
  deps: Deps,
  { org, agent: name, version }: { org: string; agent: string; version: string },
): Promise<AgentVersion> {
  const current = await resolveAgent(deps, org, name, version);
  // While no version can run, the call of the newest says what it lacks.
  const agent = current ?? (version === 'latest' ? await findNewest(deps, org, name) : undefined);
  if (agent === undefined) {
    throw new PlatformError('NOT_FOUND', `There is no agent ${org}/${name} with a version ${version}.`);
  }
  return agent;
}

/**
 * The workspace that a call acts in: the one that the caller named; else the agent's, for its members; else the
 * caller's personal one. Throws FORBIDDEN when the agent is private to a workspace that the caller is no member of.
 */
export async function actingWorkspace(
  deps: Deps,
  caller: Caller,
  agent: AgentVersion,
  named: boolean,
): Promise<Workspace> {
  // What an agent may call is in its manifest (`checkSubCall`); whatever it calls belongs to the workspace it runs for.
  if (caller.agent !== undefined) return caller.workspace;
  const isOwn = caller.workspace.id === agent.workspaceId;
  const membership = isOwn ? caller : await findMembership(deps, caller.userId, agent.workspaceId);
  const isMember = membership !== undefined;
  if (!isMember && !agent.definition.is_public) {
    throw new PlatformError(
      'FORBIDDEN',
      `You may not call ${agent.orgSlug}/${agent.name}: it is private to its workspace.`,
    );
  }
  return isMember && !named ? membership.workspace : caller.workspace;
}

/** `spec.md` *Versioning* 2 and 3. Throws NOT_FOUND for a version whose deprecation period is over. */
export async function checkDeprecation(
  deps: Deps,
  agent: AgentVersion,
  endpoint: string,
): Promise<Record<string, string>> {
  const sunset = sunsetOf(agent);
  if (sunset === undefined) return {};
  const current = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, 'latest');
  const address = `/${agent.orgSlug}/${agent.name}/${current ? versionName(current.version) : 'latest'}/${encodeURIComponent(endpoint)}`;
  if (sunset < deps.clock.now()) {
    const name = `${agent.orgSlug}/${agent.name} ${versionName(agent.version)}`;
    throw new PlatformError('NOT_FOUND', `${name} was retired on ${isoTime(sunset)}; call ${address}.`);
  }
  return {
    deprecation: 'true',
    sunset: new Date(sunset).toUTCString(),
    link: `<${address}>; rel="successor-version"`,
  };
}
