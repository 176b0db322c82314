import type { Handlers } from '#core/http/route.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import { createSchedule } from './changes/create.ts';
import { inputWarnings } from './changes/input-warnings.ts';
import { checkCron } from './changes/settings.ts';
import { updateSchedule } from './changes/update.ts';
import { findSchedule, findScheduleEver, scheduleNotFound } from './find.ts';
import type { scheduleRoutes } from './routes.ts';
import { ScheduleStore } from './store.ts';
import { adjustTimers } from './timing/timers.ts';
import { previewSlots, upcomingSlots } from './upcoming.ts';
import { currentViewOf, eventView, runView, viewOf, viewsOf } from './view.ts';

type ScheduleDeps = Pick<
  AllDeps,
  'config' | 'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'log' | 'timers'
>;

export const scheduleHandlers = (deps: ScheduleDeps): Handlers<typeof scheduleRoutes> => ({
  async listSchedules({ caller, query }) {
    const [agentName, agentOrg] = (query.agent_name ?? query.agent)?.split('/').reverse() ?? [];
    const filter = { agentName, agentOrg, type: query.schedule_type ?? query.type };
    const { schedules, total } = await new ScheduleStore(deps, caller.workspace.id).list(filter, query);
    return { status: 200, body: { schedules: await viewsOf(deps, schedules), total } };
  },

  async createSchedule({ caller, body }) {
    const { schedule, secret } = await createSchedule(deps, caller, body);
    const warnings = await inputWarnings(deps, caller.workspace, schedule);
    return { status: 201, body: { schedule: viewOf(deps, schedule, secret), warnings } };
  },

  async previewSchedule({ body }) {
    const { timezone, from, ends_at, max_runs } = body;
    const after = from === undefined ? deps.clock.now() : Date.parse(from);
    const count = Math.min(body.count, max_runs ?? body.count);
    const cron = checkCron(body.cron ?? body.cron_expression);
    const end = ends_at == null ? undefined : Date.parse(ends_at);
    return { status: 200, body: previewSlots(cron, timezone, count, after, end) };
  },

  async listUpcoming({ caller, query }) {
    return { status: 200, body: await upcomingSlots(deps, caller.workspace.id, query) };
  },

  async getSchedule({ caller, params }) {
    const schedule = await findSchedule(deps, caller, params.schedule_id);
    return { status: 200, body: { schedule: await currentViewOf(deps, schedule) } };
  },

  async updateSchedule({ caller, params, body }) {
    const schedule = await updateSchedule(deps, caller, params.schedule_id, body);
    const warnings = await inputWarnings(deps, caller.workspace, schedule);
    return { status: 200, body: { schedule: await currentViewOf(deps, schedule), warnings } };
  },

  async deleteSchedule({ caller, params }) {
    const before = await new ScheduleStore(deps, caller.workspace.id).remove(params.schedule_id);
    if (before === undefined) throw scheduleNotFound(caller, params.schedule_id);
    await adjustTimers(deps, before, undefined);
    return { status: 200, body: { deleted: true } };
  },

  async listScheduleEvents({ caller, params, query }) {
    const { id } = await findScheduleEver(deps, caller, params.schedule_id);
    const events = await new ScheduleStore(deps, caller.workspace.id).listEvents(id, query);
    return { status: 200, body: { events: events.map(eventView) } };
  },

  async listScheduleRuns({ caller, params, query }) {
    const { id } = await findScheduleEver(deps, caller, params.schedule_id);
    const { runs, total } = await new RunStore(deps, caller.workspace.id).listOfSchedule(id, query);
    return { status: 200, body: { runs: runs.map((run) => runView(run, query.fields)), total } };
  },
});
