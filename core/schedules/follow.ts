import { AgentStore, type AgentVersion, versionName } from '../agents/store.ts';
import type { Deps } from '../deps.ts';
import { type Schedule, type ScheduleChange, ScheduleStore } from './store.ts';

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

/**
 * After a version was published or deleted: the enabled schedules that follow the agent, in its own workspace, move to its
 * current version. Throws nothing: what was asked for has happened.
 */
export async function followCurrentVersion(
  deps: FollowDeps,
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
): Promise<void> {
  try {
    const store = new ScheduleStore(deps, workspaceId);
    const mayMove = (schedule: Schedule) => schedule.agent_name === name && schedule.enabled && follows(schedule);
    const followers = (await store.list()).filter(mayMove);
    const current = followers.length > 0 && (await new AgentStore(deps, workspaceId).findVersion(name, 'latest'));
    if (!current) return;
    for (const { id } of followers) {
      await store.change(id, (schedule) => (mayMove(schedule) ? moveTo(schedule, current) : undefined));
    }
  } catch (error) {
    deps.log.error('schedules did not follow a new version', { agent: name, error: String(error) });
  }
}
