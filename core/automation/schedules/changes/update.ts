import { devUserOf } from '#core/agents/dev/slots.ts';
import { AgentStore } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { Zone } from '#core/base/zone.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { QUEUE_RULES, type QueueRules } from '#core/manifest/queue-rules.ts';
import { queueRulesOf } from '#core/manifest/queue-shapes.ts';
import { retryPolicyOf } from '#core/manifest/retry-policy.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import { findSchedule, scheduleNotFound } from '../find.ts';
import type { NewScheduleEvent, Schedule } from '../schedule.ts';
import type { ScheduleChangesBody } from '../schema.ts';
import { type ScheduleChange, ScheduleStore } from '../store.ts';
import { unlessAfterEnd } from '../timing/ending.ts';
import { adjustTimers } from '../timing/timers.ts';
import { followsVersions, moveSchedulesToCurrentVersion, versionChange } from './follow-versions.ts';
import { checkChangedGrants } from './grants.ts';
import { checkProvider, currentVersionId, findOtherVersion } from './scheduled-agent.ts';
import {
  autoUpdateIn,
  checkAlertUrl,
  checkCron,
  checkEndsAt,
  checkNoCron,
  checkNotOver,
  firstRun,
} from './settings.ts';

/**
 * Returns the updated schedule. Throws NOT_FOUND, INVALID_INPUT for the body, and MISSING_SECRETS if the schedule would
 * run a foreign agent without its grants.
 */
export async function updateSchedule(
  deps: Pick<AllDeps, 'config' | 'main' | 'blobs' | 'clock' | 'ids' | 'log' | 'timers'>,
  caller: Caller,
  id: string,
  body: ScheduleChangesBody,
): Promise<Schedule> {
  const store = new ScheduleStore(deps, caller.workspace.id);
  const before = await findSchedule(deps, caller, id);
  const version = await findVersionFor(deps, caller, before, body);
  if (body.enabled ?? before.enabled) await checkChangedGrants(deps, before, version);
  const alertWebhookUrl = checkAlertUrl(deps, body.alert_webhook_url);
  const after = await store.change(before.id, (schedule) =>
    schedule.deletedAt === null
      ? changeBy(body, { schedule, version, alertWebhookUrl, now: deps.clock.now() })
      : undefined,
  );
  if (after === undefined) throw scheduleNotFound(caller, id);
  await adjustTimers(deps, before, after);
  // A version published in the meantime may have found the schedule disabled, or not yet following versions.
  const mayLag = version && !isNumbered(body.agent_version) && followsVersions(after);
  if (!mayLag || (await currentVersionId(deps, version, after.channel)) === version.id) return after;
  await moveSchedulesToCurrentVersion(deps, version);
  return (await store.find(after.id)) ?? after;
}

/**
 * Returns the version that the schedule may move to: the version in the body, or the current one if the schedule starts
 * to follow versions. Also checks the provider against it.
 */
async function findVersionFor(
  deps: Pick<Deps, 'config' | 'main' | 'blobs' | 'clock' | 'ids'>,
  caller: Caller,
  schedule: Schedule,
  body: ScheduleChangesBody,
): Promise<AgentVersion | undefined> {
  const mayStart = body.enabled === true || autoUpdateIn(body) === true;
  const willFollow = followsVersions({ ...schedule, autoUpdate: autoUpdateIn(body) ?? schedule.autoUpdate });
  const version = body.agent_version
    ? await findOtherVersion(deps, schedule, body.agent_version, devUserOf(caller))
    : mayStart && willFollow
      ? (
          await new AgentStore(deps, schedule.agentWorkspaceId).resolve(
            schedule.agentName,
            schedule.channel ?? 'latest',
          )
        )?.agent
      : undefined;
  const provider = body.llm_provider ?? body.provider;
  if (provider) {
    checkProvider(deps, version ?? (await findOtherVersion(deps, schedule, schedule.agentVersion)), provider);
  }
  return version;
}

interface Changed {
  readonly schedule: Schedule;
  readonly version: AgentVersion | undefined;
  /** Normalized URL. */
  readonly alertWebhookUrl: string | null;
  /** Epoch milliseconds. */
  readonly now: number;
}

function changeBy(body: ScheduleChangesBody, changed: Changed): ScheduleChange {
  const { schedule, version, now } = changed;
  const settings = settingsAfter(body, changed);
  const isEnabling = settings.enabled && !schedule.enabled;
  const isRetimed = settings.cronExpression !== schedule.cronExpression || settings.timezone !== schedule.timezone;
  const first = isEnabling || isRetimed ? firstRun(settings.cronExpression, settings.timezone, now) : undefined;
  const set: Partial<Schedule> = {
    ...settings,
    updatedAt: isoTime(now),
    ...(isEnabling && { consecutiveFailures: 0, autoDisabledAt: null, autoDisabledReason: null }),
    // Disabling one that has ended keeps it disabled, see `countMissedRun`.
    ...((isEnabling || body.enabled === false) && { endedAt: null, endedReason: null }),
    nextRunAt: settings.enabled ? unlessAfterEnd(first ?? schedule.nextRunAt, settings) : null,
  };
  if (body.enabled) checkNotOver({ ...schedule, ...set }, now);
  const mayMove = body.agent_version || followsVersions({ ...schedule, ...set });
  const move = version && mayMove ? versionChange(schedule, version) : undefined;
  return { set: { ...set, ...move?.set }, events: [...eventsOf(schedule, settings), ...(move?.events ?? [])] };
}

/** Settings that share one timeline entry, by their API names. Enabling and disabling have their own entries. */
const LISTED_SETTINGS = {
  cronExpression: 'cron_expression',
  timezone: 'timezone',
  input: 'input_data',
  llmProvider: 'llm_provider',
  autoUpdate: 'auto_update',
  channel: 'channel',
  overlap: 'overlap',
  alertWebhookUrl: 'alert_webhook_url',
  alertOnFailureCount: 'alert_on_failure_count',
  maxConsecutiveFailures: 'max_consecutive_failures',
  endsAt: 'ends_at',
  maxRuns: 'max_runs',
  retry: 'retry',
  concurrency: 'concurrency',
  rate: 'rate',
  debounce: 'debounce',
} as const satisfies { readonly [Name in keyof Schedule]?: string };

type Settings = Pick<Schedule, keyof typeof LISTED_SETTINGS | 'enabled'>;

function settingsAfter(body: ScheduleChangesBody, { schedule, alertWebhookUrl, now }: Changed): Settings {
  const provider = body.llm_provider !== undefined ? body.llm_provider : body.provider;
  if (schedule.type === 'webhook') checkNoCron(body.cron_expression);
  const autoUpdate = autoUpdateAfter(body, schedule);
  return {
    cronExpression: body.cron_expression ? checkCron(body.cron_expression) : schedule.cronExpression,
    timezone: body.timezone ? Zone.of(body.timezone).name : schedule.timezone,
    enabled: body.enabled ?? schedule.enabled,
    input: body.input_data ?? schedule.input,
    llmProvider: provider !== undefined ? provider : schedule.llmProvider,
    overlap: body.overlap ?? schedule.overlap,
    autoUpdate,
    channel: channelAfter(body, schedule, autoUpdate),
    alertWebhookUrl: body.alert_webhook_url !== undefined ? alertWebhookUrl : schedule.alertWebhookUrl,
    alertOnFailureCount: body.alert_on_failure_count ?? schedule.alertOnFailureCount,
    maxConsecutiveFailures: body.max_consecutive_failures ?? schedule.maxConsecutiveFailures,
    endsAt: body.ends_at !== undefined ? checkEndsAt(body.ends_at, now, schedule.endsAt) : schedule.endsAt,
    maxRuns: body.max_runs !== undefined ? body.max_runs : schedule.maxRuns,
    retry: body.retry ? retryPolicyOf(body.retry, { isDurable: false }) : body.retry === null ? null : schedule.retry,
    ...rulesAfter(body, schedule),
  };
}

function eventsOf(before: Schedule, after: Settings): NewScheduleEvent[] {
  const events: NewScheduleEvent[] = [];
  if (after.enabled && !before.enabled) events.push({ type: 'enabled', message: 'Schedule enabled.' });
  if (!after.enabled && before.enabled) events.push({ type: 'disabled', message: 'Schedule disabled.' });
  const names = Object.entries(LISTED_SETTINGS) as [keyof typeof LISTED_SETTINGS, string][];
  const changed = names.filter(
    ([name]) => JSON.stringify(after[name] ?? null) !== JSON.stringify(before[name] ?? null),
  );
  if (changed.length > 0) {
    events.push({ type: 'updated', message: `Changed: ${changed.map(([, name]) => name).join(', ')}.` });
  }
  return events;
}

const isNumbered = (version: string | null | undefined): boolean =>
  Boolean(version) && version !== 'latest' && !isChannelName(version!);

/** A schedule that is fixed to a version follows no channel. */
function channelAfter({ agent_version: version }: ScheduleChangesBody, before: Schedule, autoUpdate: boolean) {
  if (!autoUpdate) return null;
  if (!version) return before.channel ?? null;
  return isChannelName(version) ? version : null;
}

function autoUpdateAfter(body: ScheduleChangesBody, { autoUpdate }: Schedule): boolean {
  const { agent_version: version } = body;
  if (version && isChannelName(version)) return autoUpdateIn(body) ?? true;
  return autoUpdateIn(body) ?? (isNumbered(version) ? false : autoUpdate);
}

/** A rule that is absent stays, null removes it. */
function rulesAfter(
  body: ScheduleChangesBody,
  schedule: Schedule,
): { readonly [Rule in keyof QueueRules]: QueueRules[Rule] | null } {
  const kept = QUEUE_RULES.map((rule) => [rule, body[rule] === null ? null : schedule[rule]]);
  return { ...Object.fromEntries(kept), ...queueRulesOf(body) };
}
