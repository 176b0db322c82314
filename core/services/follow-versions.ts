import { type Followed, followedOf, isSameFollowed } from '#core/agents/channels/followed.ts';
import { listServed } from '#core/agents/service-endpoints.ts';
import { AgentStore } from '#core/agents/store.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import {
  type AgentDeps,
  agentMembers,
  checkServiceEgress,
  checkServiceSecrets,
  hostingProblem,
} from './hosted-agent.ts';
import type { NewServiceEvent, Service } from './service.ts';
import { requiredNames } from './service.ts';
import { changed } from './state.ts';
import { type ServiceChange, ServiceStore } from './store.ts';

type FollowDeps = AgentDeps & Pick<Deps, 'config' | 'log' | 'wakeServices'>;

/** Returns whether a service follows new versions of its agent: only in its own workspace. */
export const followsVersions = ({ autoUpdate, agentWorkspaceId, workspaceId }: Service): boolean =>
  autoUpdate && agentWorkspaceId === workspaceId;

/** Returns the ID of the version that services of this agent follow: by default, of the current one. */
export async function currentVersionId(
  deps: AgentDeps,
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
  channel: string | null | undefined,
): Promise<string | undefined> {
  return (await new AgentStore(deps, workspaceId).resolve(name, channel ?? 'latest'))?.agent.id;
}

/** Returns the change that moves a service to another version; `undefined` if it already runs that version. */
export function versionChange(service: Service, agent: AgentVersion, now: number): ServiceChange | undefined {
  if (service.agentId === agent.id || service.desired === 'deleted') return undefined;
  const message = `Agent updated from ${service.agentVersion} to ${versionName(agent.version)}.`;
  const moved = { ...service, ...agentMembers(agent, service.extraSecrets), lastDeployedAt: now, updatedAt: now };
  return { service: changed(moved), events: [{ type: 'version_updated', message }] };
}

/**
 * Moves the services that follow an agent in its own workspace to its current version, or that of their channel.
 * Services that cannot host it, or lack its secrets, are skipped, with the reason in the timeline. Repeats if another
 * version became current in the meantime. Never throws: the request has already succeeded.
 *
 * @returns the number of moved services
 */
export async function moveServicesToCurrentVersion(
  deps: FollowDeps,
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
): Promise<number> {
  const moved = new Set<string>();
  try {
    const served = await listServed(deps, { workspaceId, agentWorkspaceId: workspaceId, agentName: name });
    const agent = { workspaceId, name };
    let followed = served.length > 0 ? await followedOf(deps, agent) : undefined;
    while (followed) {
      const targets = followed;
      await Promise.all(
        served.map(async ({ serviceId }) => {
          if (await moveTo(deps, workspaceId, serviceId, targets)) moved.add(serviceId);
        }),
      );
      followed = await followedOf(deps, agent);
      if (isSameFollowed(targets, followed)) break;
    }
    if (moved.size > 0) await deps.wakeServices?.([...moved]);
  } catch (error) {
    deps.log.error('services did not follow a new version', { agent: name, error: String(error) });
  }
  return moved.size;
}

async function moveTo(deps: FollowDeps, workspaceId: string, id: string, followed: Followed): Promise<boolean> {
  const store = new ServiceStore(deps, workspaceId);
  const service = await store.find(id);
  const agent = followed.get(service?.channel ?? 'latest');
  if (service === undefined || agent === undefined) return false;
  if (!followsVersions(service) || service.agentId === agent.id) return false;
  const problem = await problemOf(deps, service, agent);
  if (problem !== undefined) {
    const skipped: NewServiceEvent = { type: 'version_skipped', message: problem.slice(0, 500) };
    await store.change(id, (current) => ({ service: current, events: [skipped] }));
    return false;
  }
  const after = await store.change(id, (current) =>
    followsVersions(current) && current.channel === service.channel
      ? versionChange(current, agent, deps.clock.now())
      : undefined,
  );
  return after !== undefined;
}

/** Returns the reason why a service cannot move to a version. */
async function problemOf(deps: FollowDeps, service: Service, agent: AgentVersion): Promise<string | undefined> {
  const { workspaceId } = service;
  const problem = hostingProblem(agent, workspaceId);
  if (problem !== undefined) return problem;
  try {
    await checkServiceSecrets(deps, workspaceId, agent, requiredNames(agentMembers(agent, service.extraSecrets)));
    await checkServiceEgress(deps, workspaceId, agent);
    return undefined;
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    return error.message;
  }
}
