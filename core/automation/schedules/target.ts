import { maySee } from '#core/agents/access.ts';
import { parseVersion, refOf, splitReference, versionName } from '#core/agents/references.ts';
import { AgentStore, findAnyVersion, findNewest, resolveAgent } from '#core/agents/store.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { providersOf } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import type { NewScheduleBody } from './schema.ts';
import type { Schedule } from './store.ts';

type TargetDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** The agent version that a new schedule is to run, and whether the caller named that very version to stay with it. */
export interface ScheduleTarget {
  readonly agent: AgentVersion;
  readonly isExplicit: boolean;
}

/**
 * Reads `agent_id`, else `agent` (`org/agent@v2`), else `agent_name` and `agent_version` (`contract.md` 7.3): clients that
 * send an id send a version beside it, which may be a mere default, so the id decides. Throws NOT_FOUND, INVALID_INPUT.
 */
export async function resolveTarget(deps: TargetDeps, caller: Caller, body: NewScheduleBody): Promise<ScheduleTarget> {
  const target = body.agent_id ? await byId(deps, caller, body.agent_id) : await byName(deps, caller, body);
  if (target.agent.definition.execution_engine === null) {
    throw new PlatformError('INVALID_INPUT', `${refOf(target.agent)} is a skill, which cannot be run by itself.`);
  }
  return target;
}

async function byId(deps: TargetDeps, caller: Caller, id: string): Promise<ScheduleTarget> {
  const agent = await findAnyVersion(deps, id);
  if (agent === undefined || !(await maySchedule(deps, caller, agent))) {
    throw new PlatformError('NOT_FOUND', `There is no agent version with the id "${id.slice(0, 64)}".`);
  }
  return { agent, isExplicit: false };
}

async function byName(deps: TargetDeps, caller: Caller, body: NewScheduleBody): Promise<ScheduleTarget> {
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
  const agent =
    (await resolveAgent(deps, org, name, version)) ??
    (version === 'latest' ? await findNewest(deps, org, name) : undefined);
  if (agent === undefined || !(await maySchedule(deps, caller, agent))) {
    throw new PlatformError('NOT_FOUND', `There is no agent ${org}/${name} with a version ${version}.`.slice(0, 300));
  }
  return { agent, isExplicit: named !== undefined && named !== 'latest' };
}

/** Runs have no user to ask: a private agent of another workspace would be run for all members of this one. */
const maySchedule = async (deps: TargetDeps, caller: Caller, agent: AgentVersion): Promise<boolean> =>
  (agent.definition.is_public || agent.workspaceId === caller.workspace.id) && maySee(deps, caller, agent);

/** Another version of the agent of a schedule. Throws NOT_FOUND. */
export async function otherVersion(deps: TargetDeps, schedule: Schedule, version: string): Promise<AgentVersion> {
  const number = parseVersion(/^\d/.test(version) ? `v${version}` : version);
  const agents = new AgentStore(deps, schedule.agent_workspace_id);
  const agent = number === undefined ? undefined : await agents.findVersion(schedule.agent_name, number);
  if (agent === undefined || (agent.workspaceId !== schedule.workspace_id && !agent.definition.is_public)) {
    const name = `${schedule.agent_org}/${schedule.agent_name}`;
    throw new PlatformError('NOT_FOUND', `There is no agent ${name} with a version ${version.slice(0, 20)}.`);
  }
  return agent;
}

/** Throws INVALID_INPUT for a provider that the agent does not support. Programs bring their own models. */
export function checkProvider(
  { config }: Pick<Deps, 'config'>,
  agent: AgentVersion,
  provider: LlmProvider | null,
): void {
  if (provider === null) return;
  const supported = providersOf(agent.definition, config);
  if (supported.includes(provider)) return;
  throw new PlatformError(
    'INVALID_INPUT',
    `llm_provider: ${refOf(agent)} cannot run with ${provider}; it may be ${supported.join(', ') || 'left out only'}.`,
  );
}

export const agentMembers = (
  agent: AgentVersion,
): Pick<Schedule, 'agent_id' | 'agent_workspace_id' | 'agent_org' | 'agent_name' | 'agent_version'> => ({
  agent_id: agent.id,
  agent_workspace_id: agent.workspaceId,
  agent_org: agent.orgSlug,
  agent_name: agent.name,
  agent_version: versionName(agent.version),
});
