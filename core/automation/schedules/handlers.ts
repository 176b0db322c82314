import { AgentStore } from '#core/agents/store.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import { Zone } from '#core/base/zone.ts';
import type { Handlers } from '#core/http/route.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import type { Timer } from '#core/ports/timers.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { toAwsCrons } from './aws-cron.ts';
import { nextTime, parseCron } from './cron.ts';
import { followCurrentVersion, follows, moveTo } from './follow.ts';
import type { scheduleRoutes } from './routes.ts';
import type { ScheduleChangesBody } from './schema.ts';
import { type NewScheduleEvent, type Schedule, ScheduleStore } from './store.ts';
import { agentMembers, checkProvider, otherVersion, resolveTarget } from './target.ts';
import { timerOf } from './timers.ts';
import { newWebhookSecret, webhookUrl } from './webhook-secret.ts';

const DEFAULT_MAX_FAILURES = 10;
const DEFAULT_ALERT_COUNT = 3;

type ScheduleDeps = Pick<
  AllDeps,
  'config' | 'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'log' | 'timers'
>;

export const scheduleHandlers = (deps: ScheduleDeps): Handlers<typeof scheduleRoutes> => {
  const { clock, ids } = deps;
  const storeOf = (caller: Caller) => new ScheduleStore(deps, caller.workspace.id);
  const notFound = (caller: Caller, id: string) =>
    new PlatformError(
      'NOT_FOUND',
      `The workspace "${caller.workspace.slug}" has no schedule with the id "${id.slice(0, 64)}".`,
    );

  async function find(caller: Caller, id: string): Promise<Schedule> {
    const schedule = await storeOf(caller).find(id);
    if (schedule === undefined) throw notFound(caller, id);
    return schedule;
  }

  /** History outlives its schedule. */
  async function findEver(caller: Caller, id: string): Promise<Schedule> {
    const schedule = await storeOf(caller).findEver(id);
    if (schedule === undefined) throw notFound(caller, id);
    return schedule;
  }

  /** A timer that cannot be set or removed is left to the sweeps: the table says what is to happen. */
  async function quietly(what: string, timer: Timer, work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      deps.log.warn(what, { schedule_id: timer.scheduleId, error: String(error) });
    }
  }

  async function adjustTimers(before: Timer | undefined, after: Timer | undefined): Promise<void> {
    const isSame =
      before && after && before.cronExpression === after.cronExpression && before.timezone === after.timezone;
    if (after) await quietly('timer not set', after, deps.timers.set(after));
    if (before && !isSame) await quietly('timer not removed', before, deps.timers.remove(before));
  }

  const view = (schedule: Schedule, secret?: string) => viewOf(deps, schedule, secret);

  return {
    async listSchedules({ caller, query }) {
      const [agentName, agentOrg] = (query.agent_name ?? query.agent)?.split('/').reverse() ?? [];
      const filter = { agentName, agentOrg, type: query.schedule_type ?? query.type };
      const { schedules, total } = await storeOf(caller).list(filter, query);
      return { status: 200, body: { schedules: schedules.map((schedule) => view(schedule)), total } };
    },

    async createSchedule({ caller, body }) {
      const { agent, isExplicit } = await resolveTarget(deps, caller, body);
      const current = await currentId(agent);
      const type = body.webhook ? 'webhook' : (body.schedule_type ?? body.type ?? 'cron');
      const timezone = Zone.of(body.timezone ?? 'UTC').name;
      const provider = body.llm_provider ?? body.provider ?? null;
      checkProvider(deps, agent, provider);
      const cronExpression = type === 'cron' ? checkCron(body.cron_expression) : null;
      if (type === 'webhook' && body.cron_expression) {
        throw new PlatformError('INVALID_INPUT', 'cron_expression: a webhook schedule has none; leave it out.');
      }
      const enabled = body.enabled ?? true;
      const webhook = type === 'webhook' ? newWebhookSecret(ids) : undefined;
      const now = clock.now();
      const schedule: Schedule = {
        id: ids.uuid(),
        workspace_id: caller.workspace.id,
        ...agentMembers(agent),
        schedule_type: type,
        cron_expression: cronExpression,
        timezone,
        input_data: body.input_data ?? {},
        llm_provider: provider,
        enabled,
        auto_update: wantsUpdates(body) ?? !isExplicit,
        overlap: body.overlap ?? 'allow',
        webhook_secret_hash: null,
        webhook_secret_preview: null,
        ...webhook?.kept,
        alert_webhook_url: alertUrlOf(deps, body.alert_webhook_url),
        alert_on_failure_count: body.alert_on_failure_count ?? DEFAULT_ALERT_COUNT,
        max_consecutive_failures: body.max_consecutive_failures ?? DEFAULT_MAX_FAILURES,
        consecutive_failures: 0,
        auto_disabled_at: null,
        next_run_at: enabled ? nextRun(cronExpression, timezone, now) : null,
        last_run_at: null,
        last_run_id: null,
        last_run_status: null,
        run_count: 0,
        open_runs: 0,
        created_by: caller.userId,
        created_at: isoTime(now),
        updated_at: isoTime(now),
        deleted_at: null,
      };
      const { name: plan, schedules: limit } = planOf(deps, caller.workspace);
      if (!(await storeOf(caller).create(schedule, limit))) {
        throw new PlatformError(
          'FORBIDDEN',
          `The workspace "${caller.workspace.slug}" may have ${limit} schedules with its plan "${plan}": delete one, or ask for another plan.`,
        );
      }
      await adjustTimers(undefined, timerOf(schedule));
      const answer = (created: Schedule) =>
        ({ status: 201, body: { schedule: view(created, webhook?.secret) } }) as const;
      // What was published since we looked found no schedule to move.
      if (!follows(schedule) || (await currentId(agent)) === current) return answer(schedule);
      await followCurrentVersion(deps, agent);
      return answer((await storeOf(caller).find(schedule.id)) ?? schedule);
    },

    async getSchedule({ caller, params }) {
      return { status: 200, body: { schedule: view(await find(caller, params.schedule_id)) } };
    },

    async updateSchedule({ caller, params, body }) {
      const before = await find(caller, params.schedule_id);
      const version = await versionFor(before, body);
      const alertUrl = alertUrlOf(deps, body.alert_webhook_url);
      const after = await storeOf(caller).change(before.id, (schedule) => {
        if (schedule.deleted_at !== null) return undefined;
        const events: NewScheduleEvent[] = [];
        const provider = body.llm_provider !== undefined ? body.llm_provider : body.provider;
        if (body.cron_expression && schedule.schedule_type === 'webhook') {
          throw new PlatformError('INVALID_INPUT', 'cron_expression: a webhook schedule has none; leave it out.');
        }
        const cronExpression = body.cron_expression ? checkCron(body.cron_expression) : schedule.cron_expression;
        const timezone = body.timezone ? Zone.of(body.timezone).name : schedule.timezone;
        const enabled = body.enabled ?? schedule.enabled;
        const isRetimed = cronExpression !== schedule.cron_expression || timezone !== schedule.timezone;
        const isEnabling = enabled && !schedule.enabled;
        const set: Partial<Schedule> = {
          cron_expression: cronExpression,
          timezone,
          enabled,
          input_data: body.input_data ?? schedule.input_data,
          llm_provider: provider !== undefined ? provider : schedule.llm_provider,
          overlap: body.overlap ?? schedule.overlap,
          auto_update: wantsUpdates(body) ?? (isNumbered(body.agent_version) ? false : schedule.auto_update),
          alert_webhook_url: body.alert_webhook_url !== undefined ? alertUrl : schedule.alert_webhook_url,
          alert_on_failure_count: body.alert_on_failure_count ?? schedule.alert_on_failure_count,
          max_consecutive_failures: body.max_consecutive_failures ?? schedule.max_consecutive_failures,
          updated_at: isoTime(clock.now()),
          ...(isEnabling && { consecutive_failures: 0, auto_disabled_at: null }),
          ...(!enabled && { next_run_at: null }),
          ...(enabled && (isEnabling || isRetimed) && { next_run_at: nextRun(cronExpression, timezone, clock.now()) }),
        };
        if (isEnabling) events.push({ type: 'enabled', message: 'Schedule enabled.' });
        if (!enabled && schedule.enabled) events.push({ type: 'disabled', message: 'Schedule disabled.' });
        const changed = SHOWN.filter((name) => JSON.stringify(set[name]) !== JSON.stringify(schedule[name]));
        if (changed.length > 0) events.push({ type: 'updated', message: `Changed: ${changed.join(', ')}.` });
        const isMoving = body.agent_version || follows({ ...schedule, ...set });
        const move = version && isMoving ? moveTo(schedule, version) : undefined;
        return { set: { ...set, ...move?.set }, events: [...events, ...(move?.events ?? [])] };
      });
      if (after === undefined) throw notFound(caller, params.schedule_id);
      await adjustTimers(timerOf(before), timerOf(after));
      // What was published since we looked may have found it disabled, or not yet following.
      const mayLag = version && !isNumbered(body.agent_version) && follows(after);
      if (!mayLag || (await currentId(version)) === version.id) return { status: 200, body: { schedule: view(after) } };
      await followCurrentVersion(deps, version);
      return { status: 200, body: { schedule: view((await storeOf(caller).find(after.id)) ?? after) } };
    },

    async deleteSchedule({ caller, params }) {
      const before = await storeOf(caller).remove(params.schedule_id);
      if (before === undefined) throw notFound(caller, params.schedule_id);
      await adjustTimers(timerOf(before), undefined);
      return { status: 200, body: { deleted: true } };
    },

    async listScheduleEvents({ caller, params, query }) {
      const { id } = await findEver(caller, params.schedule_id);
      return { status: 200, body: { events: await storeOf(caller).listEvents(id, query) } };
    },

    async listScheduleRuns({ caller, params, query }) {
      const { id } = await findEver(caller, params.schedule_id);
      const { runs, total } = await new RunStore(deps, caller.workspace.id).listOfSchedule(id, query);
      return { status: 200, body: { runs: runs.map((run) => pick(runView(run), query.fields)), total } };
    },
  };

  async function currentId({ workspaceId, name }: AgentVersion): Promise<string | undefined> {
    return (await new AgentStore(deps, workspaceId).findVersion(name, 'latest'))?.id;
  }

  /** The version that a change may lead to: the one it names, or the current one for what follows from now on. */
  async function versionFor(schedule: Schedule, body: ScheduleChangesBody) {
    const begins = body.enabled === true || wantsUpdates(body) === true;
    const isFollowing = follows({ ...schedule, auto_update: wantsUpdates(body) ?? schedule.auto_update });
    const version = body.agent_version
      ? await otherVersion(deps, schedule, body.agent_version)
      : begins && isFollowing
        ? await new AgentStore(deps, schedule.agent_workspace_id).findVersion(schedule.agent_name, 'latest')
        : undefined;
    const provider = body.llm_provider ?? body.provider;
    if (provider) {
      const agent = version ?? (await otherVersion(deps, schedule, schedule.agent_version));
      checkProvider(deps, agent, provider);
    }
    return version;
  }
};

/** What the timeline says of a change, where it has no entry of its own. */
const SHOWN = [
  'cron_expression',
  'timezone',
  'input_data',
  'llm_provider',
  'auto_update',
  'overlap',
  'alert_webhook_url',
  'alert_on_failure_count',
  'max_consecutive_failures',
] as const satisfies readonly (keyof Schedule)[];

const wantsUpdates = ({ auto_update, pin_version }: Pick<ScheduleChangesBody, 'auto_update' | 'pin_version'>) =>
  auto_update ?? (pin_version == null ? undefined : !pin_version);

const isNumbered = (version: string | null | undefined): boolean => Boolean(version) && version !== 'latest';

/** Answers it as it is kept. Throws INVALID_INPUT. */
function checkCron(expression: string | null | undefined): string {
  if (expression == null) {
    throw new PlatformError(
      'INVALID_INPUT',
      'cron_expression: a cron schedule needs one, such as "0 9 * * 1-5"; for a webhook send "schedule_type": "webhook".',
    );
  }
  const cron = parseCron(expression);
  toAwsCrons(cron);
  return cron.expression;
}

/** Answers it as it is kept. Throws INVALID_INPUT. */
function alertUrlOf({ config }: Pick<Deps, 'config'>, given: string | null | undefined): string | null {
  if (!given) return null;
  checkOutboundUrl(given, config.outboundHosts, 'alert_webhook_url');
  return given;
}

function nextRun(cronExpression: string | null, timezone: string, after: number): string | null {
  if (cronExpression === null) return null;
  const next = nextTime(parseCron(cronExpression), Zone.of(timezone), after);
  return next === undefined ? null : isoTime(next);
}

/** `secret` only where it was just made. */
export function viewOf({ config, clock }: Pick<Deps, 'config' | 'clock'>, schedule: Schedule, secret?: string) {
  const { next_run_at, webhook_secret_preview, webhook_secret_hash, ...members } = schedule;
  const now = isoTime(clock.now());
  // A minute that is being dealt with is no longer the next one.
  const next = next_run_at === null || next_run_at > now ? next_run_at : nextRunOf(schedule, clock.now());
  return {
    ...members,
    input_data: { ...schedule.input_data },
    type: schedule.schedule_type,
    provider: schedule.llm_provider,
    pin_version: !schedule.auto_update,
    total_runs: schedule.run_count,
    next_run_at: next,
    ...(webhook_secret_preview !== null && { webhook_secret_preview }),
    ...(secret !== undefined && { webhook_url: webhookUrl({ config }, schedule.id, secret) }),
  };
}

const nextRunOf = ({ cron_expression, timezone }: Schedule, now: number) => nextRun(cron_expression, timezone, now);

const runView = (run: Run) => ({
  id: run.id,
  status: run.status,
  error_message: run.errorMessage,
  duration_ms: run.durationMs,
  trigger_source: run.triggerSource,
  started_at: run.startedAt,
  completed_at: run.completedAt,
  agent_version: run.agentVersion,
});

const pick = <T extends object>(run: T, fields: readonly string[] | undefined): Partial<T> =>
  fields === undefined
    ? run
    : (Object.fromEntries(Object.entries(run).filter(([name]) => fields.includes(name))) as Partial<T>);
