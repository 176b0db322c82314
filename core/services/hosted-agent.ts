import { grantedSecrets } from '#core/accounts/grants/rights.ts';
import { secretNamesOf } from '#core/accounts/secrets/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { maySee } from '#core/agents/access.ts';
import { checkMayBeNamed, whyNotNamed } from '#core/agents/gates/gate.ts';
import { AgentStore, findAnyVersion, findNewest, type Resolved, resolveAgent } from '#core/agents/store.ts';
import { isPaid } from '#core/agents/views.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { declaredNames, missingSecrets } from '#core/execution/calls/secrets.ts';
import { checkEgress } from '#core/execution/egress.ts';
import { foreignAgents } from '#core/execution/sub-calls/lineage.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { engineTraits, needsBundle } from '#core/manifest/engines.ts';
import { fullNameOf, refOf, splitReference, versionName, writtenVersion } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { NewServiceBody } from './schema.ts';
import type { Service } from './service.ts';

export type AgentDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/**
 * Finds the agent version of a new service by `agent_id`, else by `agent` (`org/agent@v2`), else by `agent_name`; an
 * additional `agent_version` selects another version of the same agent. Throws NOT_FOUND for an unknown agent, INVALID_INPUT
 * for an unknown version, and CONFLICT for a preview and if the gate of the agent holds its only versions.
 */
export async function resolveHostedAgent(deps: AgentDeps, caller: Caller, body: NewServiceBody): Promise<Resolved> {
  if (body.agent_id) {
    const named = await findAnyVersion(deps, body.agent_id);
    if (named === undefined || !(await mayHost(deps, caller, named))) {
      throw new PlatformError('NOT_FOUND', `There is no agent version with the id "${body.agent_id.slice(0, 64)}".`);
    }
    const { agent_version: version } = body;
    if (version) return findVersion(deps, caller, named, version);
    if (whyNotNamed(named) === undefined) return { agent: named };
    // What follows starts with what it would follow to.
    const current = await new AgentStore(deps, named.workspaceId).findVersion(named.name, 'latest');
    if (current === undefined || named.preview !== undefined) checkMayBeNamed(named, 'agent_id');
    return { agent: current ?? named };
  }
  const reference = body.agent ?? body.agent_name;
  const parts = splitReference(reference ?? '');
  if (parts === undefined) {
    throw new PlatformError(
      'INVALID_INPUT',
      reference
        ? `agent: "${reference.slice(0, 100)}" must be an agent such as acme/bot, or acme/bot@v2 for that version.`
        : 'agent_id: give the id of an agent version, or name the agent as in "agent": "acme/bot".',
    );
  }
  const { org = caller.workspace.slug, name } = parts;
  const newest = (await resolveAgent(deps, org, name, 'latest')) ?? (await findNewest(deps, org, name));
  if (newest === undefined || !(await mayHost(deps, caller, newest))) {
    throw new PlatformError('NOT_FOUND', `There is no agent ${org}/${name}.`.slice(0, 300));
  }
  return findVersion(deps, caller, newest, parts.version ?? body.agent_version ?? 'latest');
}

/** All members of a workspace share its services, so agents visible to only one member are rejected. */
const mayHost = async (deps: AgentDeps, caller: Caller, agent: AgentVersion): Promise<boolean> =>
  (agent.definition.is_public || agent.workspaceId === caller.workspace.id) && maySee(deps, caller, agent);

async function findVersion(deps: AgentDeps, caller: Caller, agent: AgentVersion, version: string): Promise<Resolved> {
  const store = new AgentStore(deps, agent.workspaceId);
  const resolved = await store.resolve(agent.name, writtenVersion(version));
  const found =
    resolved?.agent ??
    // If no version is runnable, use the latest: its error says what is missing.
    (version === 'latest' ? await store.findNewestLive(agent.name) : undefined);
  const channel = resolved?.channel;
  if (channel !== undefined && agent.workspaceId !== caller.workspace.id) {
    throw new PlatformError(
      'INVALID_INPUT',
      `agent_version: ${fullNameOf(agent)} belongs to another workspace, so its channel ${channel.name} cannot be followed.`,
      { hint: `Name a version, such as ${refOf(agent)}.` },
    );
  }
  if (found !== undefined && (await mayHost(deps, caller, found))) {
    if (resolved === undefined || found.preview !== undefined) checkMayBeNamed(found, 'agent_version');
    return { agent: found, channel };
  }
  const what = isChannelName(version) ? 'channel' : 'version';
  throw new PlatformError(
    'INVALID_INPUT',
    `agent_version: ${fullNameOf(agent)} has no ${what} ${version.slice(0, 32)}.`,
  );
}

/** Returns why a version cannot be hosted as a service of a workspace, as a sentence; `undefined` if it can. */
export function hostingProblem(agent: AgentVersion, workspaceId: string): string | undefined {
  const { definition, bundle, install, runnable } = agent;
  const name = refOf(agent);
  const { canBeService } = engineTraits(agent);
  if (!canBeService) {
    return `${name} has no process to keep running: a service needs an agent of type tool or agent with runtime.command or loop, and this one is of type ${definition.type}.`;
  }
  if (agent.workspaceId !== workspaceId && isPaid(agent)) {
    return `${name} is paid by the call, so other workspaces cannot keep it running as a service.`;
  }
  if (bundle === undefined && needsBundle(definition)) {
    return `${name} has no published code bundle: upload one with POST /agents/${agent.id}/upload.`;
  }
  if (install?.status === 'failed') return `The dependencies of ${name} could not be installed: ${install.error}`;
  if (!runnable)
    return `The dependencies of ${name} are still being installed. Try again when the installation is finished.`;
  return undefined;
}

/** Throws INVALID_INPUT for a version that cannot be hosted. */
export function checkHostable(agent: AgentVersion, workspaceId: string): void {
  const problem = hostingProblem(agent, workspaceId);
  if (problem !== undefined) throw new PlatformError('INVALID_INPUT', `agent_id: ${problem}`);
}

/** Returns the members that a service copies from its version. */
export const agentMembers = (
  agent: AgentVersion,
  extraSecrets: readonly string[],
): Pick<
  Service,
  | 'agentId'
  | 'agentWorkspaceId'
  | 'agentOrg'
  | 'agentName'
  | 'agentVersion'
  | 'agentFirstVersion'
  | 'requiredSecrets'
  | 'optionalSecrets'
  | 'extraSecrets'
> => {
  const { required_secrets: required } = agent.definition;
  return {
    agentId: agent.id,
    agentWorkspaceId: agent.workspaceId,
    agentOrg: agent.orgSlug,
    agentName: agent.name,
    agentVersion: versionName(agent.version),
    agentFirstVersion: agent.firstVersion,
    requiredSecrets: required,
    optionalSecrets: declaredNames(agent).filter((name) => !required.includes(name)),
    // Clients send back the merged list.
    extraSecrets: extraSecrets.filter((name) => !required.includes(name)),
  };
};

/** Throws MISSING_SECRETS if a required secret does not exist, or was not granted to a foreign agent. */
export async function checkServiceSecrets(
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  agent: AgentVersion,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return;
  const { lacking, requestsFor } = await grantsFor(deps, workspaceId, agent, names);
  const present = await secretNamesOf(deps, workspaceId);
  const missing = names.filter((name) => !present.has(name) || lacking.includes(name));
  if (missing.length === 0) return;
  const isAbsent = missing.some((name) => !lacking.includes(name));
  throw missingSecrets(missing, { requests: requestsFor(missing), isAbsent });
}

/** Throws FORBIDDEN for an agent with targets that the workspace does not allow. */
export async function checkServiceEgress(
  deps: Pick<Deps, 'main' | 'config'>,
  workspaceId: string,
  agent: AgentVersion,
): Promise<void> {
  if (agent.definition.egress === undefined) return;
  const workspace = { id: workspaceId, slug: (await findWorkspace(deps, workspaceId))?.slug ?? workspaceId };
  await checkEgress(deps, agent, { workspace, foreign: foreignAgents(agent, workspace, { foreign: [] }) });
}

/** Returns which secrets of the workspace the agent may use: all of them if it belongs to the workspace. */
export const grantsFor = (
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  agent: AgentVersion,
  names: readonly string[],
): ReturnType<typeof grantedSecrets> =>
  grantedSecrets(deps, workspaceId, foreignAgents(agent, { id: workspaceId }, { foreign: [] }), names);
