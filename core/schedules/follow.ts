import { AgentStore, type AgentVersion, versionName } from '../agents/store.ts';
import type { Deps } from '../deps.ts';
import { type Schedule, type ScheduleChange, ScheduleStore } from './store.ts';

type FollowDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>;

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

/** After a publish: the enabled schedules that follow the agent, in its own workspace, move to its current version. */
export async function followCurrentVersion(
  deps: FollowDeps,
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
): Promise<void> {
  const store = new ScheduleStore(deps, workspaceId);
  const followers = (await store.list()).filter(
    (schedule) => schedule.agent_name === name && schedule.enabled && follows(schedule),
  );
  if (followers.length === 0) return;
  const current = await new AgentStore(deps, workspaceId).findVersion(name, 'latest');
  if (current === undefined) return;
  for (const { id } of followers) {
    await store.change(id, (schedule) =>
      schedule.enabled && follows(schedule) ? moveTo(schedule, current) : undefined,
    );
  }
}
