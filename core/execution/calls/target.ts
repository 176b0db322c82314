import { membershipOf } from '#core/accounts/workspaces/store.ts';
import { isMember, isOpenTo } from '#core/agents/access.ts';
import type { CalledChannel, Sticking } from '#core/agents/channels/channel.ts';
import { devUserOf } from '#core/agents/dev/slots.ts';
import { noLatest } from '#core/agents/gates/gate.ts';
import { mayBeCurrent } from '#core/agents/gates/standing.ts';
import { AgentStore, findNewest, type Resolved, resolveCall } from '#core/agents/store.ts';
import { agentWorkspaceOf, type Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { DEV, fullNameOf, versionName } from '#core/manifest/references.ts';
import { type AgentVersion, sunsetOf } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

type TargetDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** Called version, the channel that led to it if one did, and the workspace that owns the run. */
export interface Target extends Resolved {
  readonly workspace: Workspace;
}

/**
 * Finds the version that a path names; `dev` is the caller's own. A channel divides its calls by the key of the caller,
 * unless the call has a tenant or a session (`docs/interface/channels.md#canary`). Throws NOT_FOUND, and FORBIDDEN for a private agent
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
  sticking: Omit<Sticking, 'key'> = {},
): Promise<Target> {
  const resolved = await resolveCall(
    deps,
    { org, agent: name, version },
    { devOf: devUserOf(caller), sticking: { ...sticking, key: caller.keyId } },
  );
  const found = (await isHidden(deps, caller, resolved?.agent)) ? undefined : resolved?.agent;
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
    const what = isChannelName(version) ? 'channel' : 'version';
    const text = `There is no agent ${org}/${name} with a ${what} ${version}.`;
    throw new PlatformError('NOT_FOUND', text, version === DEV ? { hint } : {});
  }
  if (found === undefined && agent.runnable && !mayBeCurrent(agent)) throw noLatest(agent);
  return { agent, workspace, ...(resolved?.channel && { channel: resolved.channel }) };
}

/** Whether a version is a preview of a workspace that the caller is no member of: its name reads as absent. */
const isHidden = async (
  deps: Pick<Deps, 'main'>,
  caller: Caller,
  version: AgentVersion | undefined,
): Promise<boolean> =>
  version?.preview !== undefined &&
  (caller.agent === undefined
    ? !(await isMember(deps, caller, version.workspaceId))
    : !isOpenTo(version, agentWorkspaceOf(caller.agent)));

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
 * Returns the response headers for a deprecated version (`docs/interface/versions.md#deprecation`); none for others, and
 * none for the version of a channel, which answers as long as the channel names it. Throws NOT_FOUND once the deprecation
 * period is over.
 */
export async function checkDeprecation(
  deps: Deps,
  { agent, channel }: { readonly agent: AgentVersion; readonly channel?: CalledChannel | string | null | undefined },
  endpoint: string,
): Promise<Record<string, string>> {
  const sunset = sunsetOf(agent);
  if (sunset === undefined || channel != null) return {};
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
