import { findMembership } from '#core/accounts/workspaces/store.ts';
import type { Followed } from '#core/agents/channels/followed.ts';
import { AgentStore, findAnyVersion, type Resolved } from '#core/agents/store.ts';
import { batchesOf } from '#core/base/batches.ts';
import { lazy } from '#core/base/lazy.ts';
import { versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Schedule } from '../schedule.ts';
import { type ScheduleChange, ScheduleStore } from '../store.ts';
import { inputWarnings } from './input-warnings.ts';

// Loaded lazily: most runs of schedules have the version that is theirs.
const followedVersions = lazy(() => import('#core/agents/channels/followed.ts'));

const MOVE_CONCURRENCY = 20;

type FollowDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config' | 'log'>;

/** Returns whether a schedule follows new versions of its agent: only in its own workspace, and never from `dev`. */
export const followsVersions = ({ autoUpdate, agentWorkspaceId, workspaceId, devOf }: Schedule): boolean =>
  autoUpdate && agentWorkspaceId === workspaceId && devOf == null;

/**
 * Returns the change, with a timeline entry, that moves a schedule to another version. Returns `undefined` if it
 * already runs that version.
 */
export function versionChange(schedule: Schedule, agent: AgentVersion): ScheduleChange | undefined {
  if (schedule.agentId === agent.id) return undefined;
  const agentVersion = versionName(agent.version);
  const message = `Agent updated from ${schedule.agentVersion} to ${agentVersion}`;
  const devOf = agent.devOf ?? null;
  return { set: { agentId: agent.id, agentVersion, devOf }, events: [{ type: 'version_updated', message }] };
}

const followTo = (followed: Followed) => (schedule: Schedule) => {
  const agent = followed.get(schedule.channel ?? 'latest');
  return agent && schedule.enabled && followsVersions(schedule) ? versionChange(schedule, agent) : undefined;
};

/**
 * Moves the enabled schedules that follow an agent in its own workspace to its current version, or that of their channel,
 * after a version was published or deleted, or a channel changed. Repeats if that changed in the meantime. Never throws:
 * the request has already succeeded.
 */
export async function moveSchedulesToCurrentVersion(
  deps: FollowDeps,
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
): Promise<void> {
  try {
    const store = new ScheduleStore(deps, workspaceId);
    const ids = await store.idsOf(name);
    if (ids.length === 0) return;
    const { followedOf, isSameFollowed } = await followedVersions();
    const agent = { workspaceId, name };
    for (let followed = await followedOf(deps, agent); ; ) {
      for (const batch of batchesOf(ids, MOVE_CONCURRENCY)) {
        await Promise.all(batch.map((id) => moveTo(deps, store, id, followed)));
      }
      const now = await followedOf(deps, agent);
      if (isSameFollowed(followed, now)) return;
      followed = now;
    }
  } catch (error) {
    deps.log.error('schedules did not follow a new version', { agent: name, error: String(error) });
  }
}

/** Moves a schedule that follows the agent, and adds a timeline entry if the new version rejects its input. */
async function moveTo(deps: FollowDeps, store: ScheduleStore, id: string, followed: Followed): Promise<void> {
  const moved = await store.change(id, followTo(followed));
  const agent = moved && followed.get(moved.channel ?? 'latest');
  if (moved === undefined || agent === undefined) return;
  const [message] = await inputWarnings(deps, { id: agent.workspaceId, slug: agent.orgSlug }, moved, agent);
  if (message === undefined) return;
  await store.change(id, ({ agentId }) =>
    agentId === agent.id ? { set: {}, events: [{ type: 'input_refused', message }] } : undefined,
  );
}

/**
 * Returns the version that a due schedule runs; for a schedule on `dev`, the latest `dev` version of its owner, and for
 * one that follows a channel, what a call of that gets. A schedule that follows versions is updated here if a process died
 * after it published or deleted a version and before it moved the schedule. Returns `undefined` if no version is left.
 */
export async function versionToRun(deps: FollowDeps, schedule: Schedule): Promise<Resolved | undefined> {
  if (schedule.devOf != null) {
    // Former members of the workspace may no longer run anything in it.
    const member = await findMembership(deps, schedule.devOf, schedule.workspaceId);
    const build =
      member && (await new AgentStore(deps, schedule.agentWorkspaceId).findDev(schedule.agentName, schedule.devOf));
    return build && { agent: build };
  }
  const { agentName, workspaceId, channel } = schedule;
  // A schedule has nothing to stick by: a canary gets its part of the runs.
  if (channel != null && followsVersions(schedule))
    return new AgentStore(deps, workspaceId).resolve(agentName, channel, {});
  const agent = await findAnyVersion(deps, schedule.agentId);
  const isBehind = agent === undefined || agent.supersededAt !== undefined;
  if (!isBehind || !schedule.enabled || !followsVersions(schedule)) return agent && { agent };
  const { followedOf } = await followedVersions();
  const followed = await followedOf(deps, { workspaceId, name: agentName });
  await moveTo(deps, new ScheduleStore(deps, workspaceId), schedule.id, followed);
  const current = followed.get('latest') ?? agent;
  return current && { agent: current };
}
