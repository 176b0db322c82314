import { versionName } from '#core/agents/references.ts';
import { AgentStore, findAnyVersion } from '#core/agents/store.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Schedule, type ScheduleChange, ScheduleStore } from './store.ts';

const MOVED_AT_ONCE = 20;

type FollowDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config' | 'log'>;

/** Whether a schedule goes with new versions: of agents of its own workspace only (`spec.md` *Versioning* 5). */
export const follows = ({ auto_update, agent_workspace_id, workspace_id }: Schedule): boolean =>
  auto_update && agent_workspace_id === workspace_id;

/** The change that has a schedule run another version, with its entry in the timeline; nothing when it does already. */
export function moveTo(schedule: Schedule, agent: AgentVersion): ScheduleChange | undefined {
  const version = versionName(agent.version);
  if (schedule.agent_id === agent.id) return undefined;
  return {
    set: { agent_id: agent.id, agent_version: version },
    events: [{ type: 'version_updated', message: `Agent updated from ${schedule.agent_version} to ${version}` }],
  };
}

const followTo = (agent: AgentVersion) => (schedule: Schedule) =>
  schedule.enabled && follows(schedule) ? moveTo(schedule, agent) : undefined;

/**
 * After a version was published or deleted: the enabled schedules that follow the agent, in its own workspace, move to its
 * current version, and again if that was another one when they had moved. Throws nothing: what was asked for has happened.
 */
export async function followCurrentVersion(
  deps: FollowDeps,
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
): Promise<void> {
  try {
    const store = new ScheduleStore(deps, workspaceId);
    const ids = await store.idsOf(name);
    const currentVersion = () => new AgentStore(deps, workspaceId).findVersion(name, 'latest');
    let current = ids.length > 0 ? await currentVersion() : undefined;
    while (current) {
      const to = current;
      const move = followTo(to);
      for (let start = 0; start < ids.length; start += MOVED_AT_ONCE) {
        await Promise.all(ids.slice(start, start + MOVED_AT_ONCE).map((id) => store.change(id, move)));
      }
      current = await currentVersion();
      if (current?.id === to.id) return;
    }
  } catch (error) {
    deps.log.error('schedules did not follow a new version', { agent: name, error: String(error) });
  }
}

/**
 * What a schedule that is due runs. One that follows catches up here, when whoever published or deleted a version died
 * before it had moved. `undefined` when there is no version left.
 */
export async function versionToRun(deps: FollowDeps, schedule: Schedule): Promise<AgentVersion | undefined> {
  const agent = await findAnyVersion(deps, schedule.agent_id);
  const isBehind = agent === undefined || agent.supersededAt !== undefined;
  if (!isBehind || !schedule.enabled || !follows(schedule)) return agent;
  const current = await new AgentStore(deps, schedule.workspace_id).findVersion(schedule.agent_name, 'latest');
  if (current) await new ScheduleStore(deps, schedule.workspace_id).change(schedule.id, followTo(current));
  return current ?? agent;
}
