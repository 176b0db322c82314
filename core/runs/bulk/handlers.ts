import type * as z from 'zod';
import { PlatformError } from '#core/base/errors.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import { writtenVersion } from '#core/manifest/references.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getAll } from '#core/ports/table.ts';
import { filterOf, type SentFilter } from '../filter.ts';
import { headKey, runFrom } from '../items.ts';
import { type RunFilter, scanRuns } from '../listing.ts';
import type { Run } from '../run.ts';
import { listedRunOf } from '../view.ts';
import { appliesTo, BULK_WINDOW_MS, type Bulk, MAX_BULK_RUNS, MAX_OPEN_BULKS, type StoredFilter } from './bulk.ts';
import type { bulkRoutes } from './routes.ts';
import { BulkStore } from './store.ts';

type BulkDeps = Pick<Deps, 'runs' | 'clock' | 'config' | 'ids'>;
type CreateBody = Incoming<Extract<(typeof bulkRoutes)[number], { operationId: 'createBulk' }>>['body'];
type BulkView = z.output<(typeof bulkRoutes)[1]['response'][200]>;

const SAMPLE = 10;
const MAX_NAMED = 5;

export const bulkHandlers = (deps: BulkDeps): Handlers<typeof bulkRoutes> => {
  const storeOf = (workspaceId: string) => new BulkStore(deps, workspaceId);

  async function find(workspaceId: string, id: string): Promise<Bulk> {
    const bulk = await storeOf(workspaceId).find(id);
    if (bulk) return bulk;
    throw new PlatformError('NOT_FOUND', `There is no bulk action "${id.slice(0, 64)}" in this workspace.`);
  }

  return {
    async createBulk({ caller, body }) {
      const workspaceId = caller.workspace.id;
      const { action, agent_version: version, dry_run: isDry } = body;
      if ((body.run_ids === undefined) === (body.filter === undefined)) {
        throw new PlatformError('INVALID_INPUT', 'body: exactly one of run_ids and filter is required.');
      }
      if (version !== undefined && action !== 'replay') {
        throw new PlatformError('INVALID_INPUT', 'body.agent_version: is only allowed for a replay.');
      }
      const runIds = body.run_ids && [...new Set(body.run_ids)];
      const filter = body.filter && bulkFilter(deps, action, body.filter);
      const { runs, total, isExact } = await meant(deps, workspaceId, action, { runIds, filter });
      const shownFilter = filter ? filterView(filter) : null;
      if (isDry) {
        const sample = runs.slice(0, SAMPLE).map(listedRunOf);
        const counted = { total, total_is_exact: isExact };
        return { status: 200, body: { action, dry_run: true, filter: shownFilter, ...counted, sample } };
      }
      const now = isoTime(deps.clock.now());
      const bulk: Bulk = {
        id: deps.ids.uuid(),
        workspaceId,
        action,
        filter: filter ? storedFilter(filter) : null,
        agentVersion: (version && writtenVersion(version)) ?? null,
        status: 'running',
        message: null,
        total,
        totalIsExact: isExact,
        done: 0,
        skipped: 0,
        failed: 0,
        failures: [],
        createdBy: caller.userId,
        isBound: caller.limits?.workspaceId !== undefined,
        createdAt: now,
        updatedAt: now,
        endedAt: null,
        page: [],
        next: { index: 0 },
      };
      if (!(await storeOf(workspaceId).create(bulk, runIds))) {
        const why = `The workspace has ${MAX_OPEN_BULKS} bulk actions in progress`;
        throw new PlatformError('CONFLICT', `${why}: wait until one has ended, or DELETE one.`);
      }
      return { status: 202, body: viewOf(bulk) };
    },

    async getBulk({ caller, params }) {
      return { status: 200, body: viewOf(await find(caller.workspace.id, params.bulk_id)) };
    },

    async abortBulk({ caller, params }) {
      const { id, workspaceId } = await find(caller.workspace.id, params.bulk_id);
      await storeOf(workspaceId).end(id, { status: 'aborted', message: `Aborted by ${caller.userId}.` });
      return { status: 200, body: viewOf(await find(workspaceId, id)) };
    },
  };
};

/**
 * Adds the default window and the action's own conditions to the filter. Throws INVALID_INPUT if they contradict the
 * filter.
 */
function bulkFilter(
  { clock }: Pick<Deps, 'clock'>,
  action: Bulk['action'],
  sent: NonNullable<CreateBody['filter']>,
): RunFilter {
  if (sent.status !== undefined && hasEnded(sent.status) === (action === 'cancel')) {
    const why =
      action === 'cancel'
        ? 'only runs that wait or are running can be cancelled'
        : 'only runs that have ended can be repeated';
    throw new PlatformError('INVALID_INPUT', `body.filter.status: ${why}, not those with status "${sent.status}".`);
  }
  const now = clock.now();
  const end = sent.to === undefined ? now : Math.min(now, Date.parse(sent.to));
  const window = { from: sent.from ?? isoTime(end - BULK_WINDOW_MS), to: isoTime(end) };
  const topLevel = action === 'replay' ? { top_level: sent.top_level ?? true } : {};
  // Runs created by this action start after `to`, so the action never processes its own runs.
  return filterOf({
    ...sent,
    ...window,
    ...topLevel,
    ...(action === 'cancel' && { status: sent.status ?? 'running' }),
  });
}

/**
 * Returns the newest selected runs and the number of selected runs. Throws NOT_FOUND for ids without a run in the
 * workspace.
 */
async function meant(
  deps: BulkDeps,
  workspaceId: string,
  action: Bulk['action'],
  { runIds, filter = {} }: { runIds: readonly string[] | undefined; filter: RunFilter | undefined },
): Promise<{ runs: readonly Run[]; total: number; isExact: boolean }> {
  if (runIds === undefined) {
    const { found, end } = await scanRuns(deps, workspaceId, filter, { examined: MAX_BULK_RUNS });
    const runs = found.map(({ run }) => run).filter((run) => appliesTo(action, run));
    return { runs, total: runs.length, isExact: end === undefined };
  }
  const heads = await getAll(
    deps.runs,
    runIds.map((id) => headKey(workspaceId, id)),
  );
  const unknown = runIds.filter((_, index) => heads[index] === undefined);
  if (unknown.length > 0) {
    const named = unknown.slice(0, MAX_NAMED).join(', ');
    const more = unknown.length > MAX_NAMED ? ` and ${unknown.length - MAX_NAMED} more` : '';
    throw new PlatformError('NOT_FOUND', `body.run_ids: there are no such runs in this workspace: ${named}${more}.`);
  }
  const runs = heads.map((head) => runFrom(head!, deps.clock.now()));
  return { runs, total: runs.length, isExact: true };
}

const storedFilter = (filter: RunFilter): StoredFilter =>
  Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));

function filterView(filter: RunFilter): SentFilter {
  const { from, to } = filter;
  return {
    agent_name: filter.agentName,
    version: filter.version,
    status: filter.status,
    schedule_id: filter.scheduleId,
    trigger_source: filter.triggerSource,
    tenant_id: filter.tenantId,
    top_level: filter.topLevel,
    exhausted: filter.exhausted,
    from: from === undefined ? undefined : isoTime(from),
    to: to === undefined ? undefined : isoTime(to),
  };
}

const viewOf = (bulk: Bulk): BulkView => ({
  id: bulk.id,
  action: bulk.action,
  status: bulk.status,
  message: bulk.message,
  filter: bulk.filter && filterView(bulk.filter),
  agent_version: bulk.agentVersion,
  total: bulk.total,
  total_is_exact: bulk.totalIsExact,
  done: bulk.done,
  skipped: bulk.skipped,
  failed: bulk.failed,
  failures: [...bulk.failures],
  created_by: bulk.createdBy,
  created_at: bulk.createdAt,
  updated_at: bulk.updatedAt,
  ended_at: bulk.endedAt,
});
