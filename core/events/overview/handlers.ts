import { listMemberships, type Membership } from '#core/accounts/workspaces/store.ts';
import { ScheduleStore } from '#core/automation/schedules/store.ts';
import { batchesOf } from '#core/base/batches.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { unreadMessages } from '#core/collaboration/messages/seen.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RUN_ID_PREFIX } from '#core/runs/items.ts';
import { runsWithPrefix } from '#core/runs/listing.ts';
import { failedRunsSince, openRunsOf } from '#core/runs/lookup.ts';
import type { Run } from '#core/runs/run.ts';
import type { overviewRoutes } from './routes.ts';

const DAY_MS = 24 * 3600_000;
/** Maximum number of runs shown in a list, besides its count. */
const SHOWN_RUNS = 5;
const SHOWN_DUE = 3;
const MAX_SCHEDULES = 1000;
const MAX_FOUND = 20;
const WORKSPACES_AT_ONCE = 5;

type OverviewDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids' | 'config'>;

export const overviewHandlers = (deps: OverviewDeps): Handlers<typeof overviewRoutes> => ({
  async getOverview({ caller }) {
    const failedSince = isoTime(deps.clock.now() - DAY_MS);
    const workspaces = await ofEach(deps, caller, async ({ workspace, role }) => {
      const { id, slug, name, type } = workspace;
      const [running, failed, nextDue, unread] = await Promise.all([
        openRunsOf(deps, id),
        failedRunsSince(deps, id, failedSince),
        nextDueOf(deps, id),
        unreadMessages(deps, id, caller.userId),
      ]);
      return {
        ...{ id, slug, name, type, role },
        running: {
          count: running.runs.length,
          is_exact: running.isAll,
          runs: running.runs
            .slice(0, SHOWN_RUNS)
            .map((run) => ({ ...placeOf(run), trigger_source: run.triggerSource })),
        },
        failed: {
          count: failed.runs.length,
          is_exact: failed.isAll,
          runs: failed.runs.slice(0, SHOWN_RUNS).map((run) => ({ ...placeOf(run), status: run.status })),
        },
        next_due: nextDue,
        unread_messages: { count: unread.count, is_exact: unread.isAll, seen_until: unread.seenUntil },
      };
    });
    return { status: 200, body: { workspaces, failed_since: failedSince } };
  },

  async findMyRuns({ caller, params: { prefix } }) {
    if (!RUN_ID_PREFIX.test(prefix)) throw notFound(prefix);
    const found = await ofEach(deps, caller, async ({ workspace }) => {
      const { id, slug, name } = workspace;
      return (await runsWithPrefix(deps, id, prefix, {})).map((run) => ({
        ...placeOf(run),
        status: run.status,
        trigger_source: run.triggerSource,
        workspace: { id, slug, name },
      }));
    });
    const runs = found.flat().sort((a, b) => (a.started_at < b.started_at ? 1 : -1));
    if (runs.length === 0) throw notFound(prefix);
    return { status: 200, body: { runs: runs.slice(0, MAX_FOUND) } };
  },
});

/** Queries each workspace that the caller may use, a few concurrently, as a user may have many. */
async function ofEach<T>(deps: OverviewDeps, caller: Caller, look: (of: Membership) => Promise<T>): Promise<T[]> {
  const only = caller.limits?.workspaceId;
  const all = await listMemberships(deps, caller.userId);
  const memberships = all.filter(({ workspace }) => only === undefined || workspace.id === only);
  const found: T[] = [];
  for (const batch of batchesOf(memberships, WORKSPACES_AT_ONCE)) found.push(...(await Promise.all(batch.map(look))));
  return found;
}

const placeOf = ({
  id,
  agentName,
  agentVersion,
  startedAt,
}: Pick<Run, 'id' | 'agentName' | 'agentVersion' | 'startedAt'>) => ({
  id,
  agent_name: agentName,
  agent_version: agentVersion,
  started_at: startedAt,
});

async function nextDueOf(deps: OverviewDeps, workspaceId: string) {
  const page = { limit: MAX_SCHEDULES, offset: 0 };
  const { schedules } = await new ScheduleStore(deps, workspaceId).list({ type: 'cron' }, page);
  return schedules
    .flatMap(({ id, agentName, enabled, nextRunAt }) =>
      enabled && nextRunAt !== null ? [{ schedule_id: id, agent_name: agentName, at: nextRunAt }] : [],
    )
    .sort((a, b) => (a.at < b.at ? -1 : 1))
    .slice(0, SHOWN_DUE);
}

const notFound = (prefix: string): PlatformError =>
  new PlatformError(
    'NOT_FOUND',
    `None of your workspaces has a run "${prefix.slice(0, 64)}": send at least the first 7 digits of its id.`,
  );
