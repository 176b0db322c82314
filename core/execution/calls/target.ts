import { membershipOf } from '#core/accounts/workspaces/store.ts';
import { isOpenTo } from '#core/agents/access.ts';
import { devUserOf } from '#core/agents/dev/slots.ts';
import { AgentStore, findNewest, resolveAgent } from '#core/agents/store.ts';
import { agentWorkspaceOf, type Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { DEV, fullNameOf, versionName } from '#core/manifest/references.ts';
import { type AgentVersion, sunsetOf } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

type TargetDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** Called version, and the workspace that owns the run. */
interface Target {
  readonly agent: AgentVersion;
  readonly workspace: Workspace;
}

/**
 * Finds the version that a path names; `dev` is the caller's own. Throws NOT_FOUND, and FORBIDDEN for a private agent
 * of
 * another workspace, with the same message for existing and absent versions
 * (`docs/interface/authentication.md#access-to-agents`).
 *
 * @param isNamed Whether the caller named `caller.workspace`.
 */
export async function findTarget(
  deps: TargetDeps,
  { org, agent: name, version }: { org: string; agent: string; version: string },
  caller: Caller,
  isNamed: boolean,
): Promise<Target> {
  const found = await resolveAgent(deps, org, name, version, devUserOf(caller));
  const known = found ?? (await findNewest(deps, org, name));
  let workspace: Workspace | undefined;
  try {
    workspace = known && (await actingWorkspace(deps, caller, known, isNamed));
  } catch (error) {
    // Makes as many reads as for an absent version, so that timing reveals nothing.
    if (found !== undefined) await findNewest(deps, org, name);
    throw error;
  }
  // If no version can run, the newest is used: the error will say what it lacks.
  const agent = found ?? (version === 'latest' ? known : undefined);
  if (agent === undefined || workspace === undefined) {
    const hint = 'Each user has their own dev version, created by `platform dev`; agents have none.';
    const text = `There is no agent ${org}/${name} with a version ${version}.`;
    throw new PlatformError('NOT_FOUND', text, version === DEV ? { hint } : {});
  }
  return { agent, workspace };
}

/**
 * Returns the workspace that owns a call's run: the one that the caller named; otherwise the agent's, if the caller is
 * a
 * member; otherwise the caller's. Throws FORBIDDEN if the agent is private and the caller is not a member of its
 * workspace
 * or, for a calling agent, belongs to another workspace.
 *
 * @param isNamed Whether the caller named `caller.workspace`.
 */
export async function actingWorkspace(
  deps: Pick<Deps, 'main'>,
  caller: Caller,
  agent: AgentVersion,
  isNamed: boolean,
): Promise<Workspace> {
  if (caller.agent !== undefined) {
    if (!isOpenTo(agent, agentWorkspaceOf(caller.agent))) throw isPrivate(agent);
    // Calls of an agent belong to the workspace for which it runs.
    return caller.workspace;
  }
  const isOwn = caller.workspace.id === agent.workspaceId;
  const membership = isOwn ? caller : await membershipOf(deps, caller, agent.workspaceId);
  if (membership === undefined && !agent.definition.is_public) throw isPrivate(agent);
  return membership !== undefined && !isNamed ? membership.workspace : caller.workspace;
}

const isPrivate = (agent: AgentVersion): PlatformError =>
  new PlatformError('FORBIDDEN', `You may not call ${fullNameOf(agent)}: it is private to its workspace.`);

/**
 * Returns the response headers for a deprecated version (`docs/interface/versions.md#deprecation`); none for others.
 * Throws
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
