import { membershipOf } from '#core/accounts/workspaces/store.ts';
import { maySee } from '#core/agents/access.ts';
import { devUserOf } from '#core/agents/dev/slots.ts';
import { DEV, fullNameOf, versionName } from '#core/agents/references.ts';
import { AgentStore, findNewest, resolveAgent } from '#core/agents/store.ts';
import { type AgentVersion, sunsetOf } from '#core/agents/version.ts';
import type { AgentCaller, Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/** Finds the version that a path names; `dev` is the caller's. Throws NOT_FOUND, FORBIDDEN. */
export async function resolveForCall(
  deps: Deps,
  { org, agent: name, version }: { org: string; agent: string; version: string },
  caller: Caller,
): Promise<AgentVersion> {
  const current = await resolveAgent(deps, org, name, version, devUserOf(caller));
  if (current !== undefined && (await mayBeTold(deps, caller, current))) return current;
  const newest = await findNewest(deps, org, name);
  // Strangers learn that a private agent exists, and none of its versions.
  const hidden = current ?? newest;
  if (hidden !== undefined && !(await mayBeTold(deps, caller, hidden))) throw isPrivate(hidden);
  // If no version can run, the newest is called: the error says what it lacks.
  const agent = version === 'latest' ? newest : undefined;
  if (agent === undefined) {
    const hint = "Each user has a version dev of one's own, from `platform dev`; agents have none.";
    const text = `There is no agent ${org}/${name} with a version ${version}.`;
    throw new PlatformError('NOT_FOUND', text, version === DEV ? { hint } : {});
  }
  return agent;
}

/** Whether a caller may know what versions there are: of public agents, and those of the caller's workspaces. */
const mayBeTold = async (deps: Deps, caller: Caller, agent: AgentVersion): Promise<boolean> =>
  caller.agent === undefined
    ? maySee(deps, caller, agent)
    : agent.definition.is_public || agent.workspaceId === workspaceOf(caller.agent, caller);

/** Where an agent may see what is private: its own workspace, not the one that pays for its run. */
const workspaceOf = (agent: AgentCaller, { workspace }: Caller): string =>
  agent.kind === 'run' ? agent.context.agentWorkspaceId : workspace.id;

const isPrivate = (agent: AgentVersion): PlatformError =>
  new PlatformError('FORBIDDEN', `You may not call ${fullNameOf(agent)}: it is private to its workspace.`);

/**
 * The workspace that owns a call's run: the one that the caller named; otherwise the agent's, if the caller is a member;
 * otherwise the caller's. Throws FORBIDDEN if the agent is private to a workspace of which the caller is not a member.
 *
 * @param named Whether the caller named `caller.workspace`.
 */
export async function actingWorkspace(
  deps: Deps,
  caller: Caller,
  agent: AgentVersion,
  named: boolean,
): Promise<Workspace> {
  // `checkSubCall` decides what an agent may call. Its calls belong to the workspace that it runs for.
  if (caller.agent !== undefined) return caller.workspace;
  const isOwn = caller.workspace.id === agent.workspaceId;
  const membership = isOwn ? caller : await membershipOf(deps, caller, agent.workspaceId);
  const isMember = membership !== undefined;
  if (!isMember && !agent.definition.is_public) {
    throw isPrivate(agent);
  }
  return isMember && !named ? membership.workspace : caller.workspace;
}

/**
 * The response headers for a deprecated version (`docs/interface/versions.md#deprecation`); none for others. Throws
 * NOT_FOUND once the deprecation period is over.
 */
export async function checkDeprecation(
  deps: Deps,
  agent: AgentVersion,
  endpoint: string,
): Promise<Record<string, string>> {
  const sunset = sunsetOf(agent);
  if (sunset === undefined) return {};
  const current = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, 'latest');
  const address = `/${fullNameOf(agent)}/${current ? versionName(current.version) : 'latest'}/${encodeURIComponent(endpoint)}`;
  if (sunset < deps.clock.now()) {
    const name = `${fullNameOf(agent)} ${versionName(agent.version)}`;
    throw new PlatformError('NOT_FOUND', `${name} was retired on ${isoTime(sunset)}; call ${address}.`);
  }
  return {
    deprecation: 'true',
    sunset: new Date(sunset).toUTCString(),
    link: `<${address}>; rel="successor-version"`,
  };
}
