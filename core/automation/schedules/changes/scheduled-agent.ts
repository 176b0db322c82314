import { maySee } from '#core/agents/access.ts';
import { devUserOf } from '#core/agents/dev/slots.ts';
import { checkMayBeNamed, whyNotNamed } from '#core/agents/gates/gate.ts';
import { AgentStore, findAnyVersion, findNewest, resolveCall } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { DEV, fullNameOf, refOf, splitReference, versionName, writtenVersion } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { mayUse, providersOf } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import type { Schedule } from '../schedule.ts';
import type { NewScheduleBody } from '../schema.ts';

type AgentDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** Agent version of a new schedule. */
export interface ScheduledAgent {
  readonly agent: AgentVersion;
  /** Whether the caller named this exact version, so that the schedule does not follow newer ones. */
  readonly isPinned: boolean;
  /** The channel that the caller named. */
  readonly channel?: string;
}

/**
 * Finds the agent version of a new schedule by `agent_id`, else by `agent` (`org/agent@v2`), else by `agent_name` and
 * `agent_version`. The id takes precedence: clients that send it may add a version that is only a default.
 *
 * Throws NOT_FOUND, INVALID_INPUT, and CONFLICT for a preview and if the gate of the agent holds its only versions.
 */
export async function resolveScheduledAgent(
  deps: AgentDeps,
  caller: Caller,
  body: NewScheduleBody,
): Promise<ScheduledAgent> {
  const found = body.agent_id ? await findById(deps, caller, body.agent_id) : await findByName(deps, caller, body);
  if (!engineTraits(found.agent).isRun) {
    throw new PlatformError('INVALID_INPUT', `${refOf(found.agent)} is a skill, which cannot be run by itself.`);
  }
  return found;
}

async function findById(deps: AgentDeps, caller: Caller, id: string): Promise<ScheduledAgent> {
  const agent = await findAnyVersion(deps, id);
  if (agent === undefined || !(await maySchedule(deps, caller, agent))) {
    throw new PlatformError('NOT_FOUND', `There is no agent version with the id "${id.slice(0, 64)}".`);
  }
  if (whyNotNamed(agent) === undefined) return { agent, isPinned: false };
  // What follows starts with what it would follow to.
  const current = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, 'latest');
  if (current === undefined || agent.preview !== undefined) checkMayBeNamed(agent, 'agent_id');
  return { agent: current ?? agent, isPinned: false };
}

async function findByName(deps: AgentDeps, caller: Caller, body: NewScheduleBody): Promise<ScheduledAgent> {
  const reference = body.agent ?? body.agent_name;
  const parts = splitReference(reference ?? '');
  if (parts === undefined) {
    throw new PlatformError(
      'INVALID_INPUT',
      reference
        ? `agent: "${reference.slice(0, 100)}" must be an agent such as acme/reporter, or acme/reporter@v2 for that version.`
        : 'agent: name the agent, as in "agent": "acme/reporter", or give its "agent_id".',
    );
  }
  const { org = caller.workspace.slug, name, version: named } = parts;
  const version = named ?? body.agent_version ?? 'latest';
  const resolved = await resolveCall(deps, { org, agent: name, version }, { devOf: devUserOf(caller) });
  const agent = resolved?.agent ?? (version === 'latest' ? await findNewest(deps, org, name) : undefined);
  if (agent === undefined || !(await maySchedule(deps, caller, agent))) {
    throw new PlatformError('NOT_FOUND', `There is no agent ${org}/${name} with a version ${version}.`.slice(0, 300));
  }
  const isExact = resolved !== undefined && agent.preview === undefined;
  if (!isExact) checkMayBeNamed(agent, 'agent');
  const channel = resolved?.channel?.name;
  if (channel !== undefined) checkFollowsOwn(agent, channel, caller.workspace.id);
  const isPinned = agent.devOf !== undefined || (channel === undefined && named !== undefined && named !== 'latest');
  return { agent, isPinned, ...(channel !== undefined && { channel }) };
}

/** Throws INVALID_INPUT for a channel of another workspace, which could change without the consent of this one. */
export function checkFollowsOwn(agent: AgentVersion, channel: string, workspaceId: string): void {
  if (agent.workspaceId === workspaceId) return;
  throw new PlatformError(
    'INVALID_INPUT',
    `agent: ${fullNameOf(agent)} belongs to another workspace, so its channel ${channel} cannot be followed.`,
    { hint: `Name a version, such as ${refOf(agent)}.` },
  );
}

/** All members of a workspace share its schedules, so agents visible to only one member are rejected. */
const maySchedule = async (deps: AgentDeps, caller: Caller, agent: AgentVersion): Promise<boolean> =>
  (agent.definition.is_public || agent.workspaceId === caller.workspace.id) && maySee(deps, caller, agent);

/**
 * Finds another version of the agent of a schedule; `dev` means the `dev` version of the user `devOf`. Throws
 * NOT_FOUND, and CONFLICT for a preview.
 */
export async function findOtherVersion(
  deps: AgentDeps,
  schedule: Schedule,
  version: string,
  devOf = schedule.devOf ?? undefined,
): Promise<AgentVersion> {
  const agents = new AgentStore(deps, schedule.agentWorkspaceId);
  const isDev = version === DEV && devOf !== undefined;
  const agent = isDev
    ? await agents.findDev(schedule.agentName, devOf)
    : (await agents.resolve(schedule.agentName, writtenVersion(version)))?.agent;
  if (!agent || (agent.workspaceId !== schedule.workspaceId && !agent.definition.is_public)) {
    const name = `${schedule.agentOrg}/${schedule.agentName}`;
    const what = isChannelName(version) ? 'channel' : 'version';
    throw new PlatformError('NOT_FOUND', `There is no agent ${name} with a ${what} ${version.slice(0, 32)}.`);
  }
  if (agent.preview !== undefined) checkMayBeNamed(agent, 'agent_version');
  if (isChannelName(version)) checkFollowsOwn(agent, version, schedule.workspaceId);
  return agent;
}

/** Returns the ID of the version that schedules of this agent follow: by default, of the current one. */
export async function currentVersionId(
  deps: AgentDeps,
  { workspaceId, name }: AgentVersion,
  channel: string | null | undefined,
): Promise<string | undefined> {
  return (await new AgentStore(deps, workspaceId).resolve(name, channel ?? 'latest'))?.agent.id;
}

/** Throws INVALID_INPUT for a provider that the agent does not support. Programs bring their own models. */
export function checkProvider(
  { config }: Pick<Deps, 'config'>,
  agent: AgentVersion,
  provider: LlmProvider | null,
): void {
  if (provider === null) return;
  const supported = providersOf(agent.definition, config);
  if (mayUse(agent.definition, supported, provider)) return;
  throw new PlatformError(
    'INVALID_INPUT',
    `llm_provider: ${refOf(agent)} cannot run with ${provider}; it may be ${supported.join(', ') || 'left out only'}.`,
  );
}

export const agentMembers = (
  agent: AgentVersion,
): Pick<Schedule, 'agentId' | 'agentWorkspaceId' | 'agentOrg' | 'agentName' | 'agentVersion' | 'devOf'> => ({
  agentId: agent.id,
  agentWorkspaceId: agent.workspaceId,
  agentOrg: agent.orgSlug,
  agentName: agent.name,
  agentVersion: versionName(agent.version),
  devOf: agent.devOf ?? null,
});
