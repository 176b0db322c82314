import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import { Zone } from '#core/base/zone.ts';
import { queueRulesOf } from '#core/manifest/queue-shapes.ts';
import { retryPolicyOf } from '#core/manifest/retry-policy.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import type { Schedule } from '../schedule.ts';
import type { NewScheduleBody } from '../schema.ts';
import { ScheduleStore } from '../store.ts';
import { unlessAfterEnd } from '../timing/ending.ts';
import { adjustTimers } from '../timing/timers.ts';
import { newWebhookSecret } from '../webhook-secret.ts';
import { followsVersions, moveSchedulesToCurrentVersion } from './follow-versions.ts';
import { checkScheduleGrants } from './grants.ts';
import {
  agentMembers,
  checkProvider,
  currentVersionId,
  resolveScheduledAgent,
  type ScheduledAgent,
} from './scheduled-agent.ts';
import {
  autoUpdateIn,
  checkAlertUrl,
  checkCron,
  checkEndsAt,
  checkNoCron,
  checkNotOver,
  firstRun,
} from './settings.ts';

const DEFAULT_MAX_FAILURES = 10;
const DEFAULT_ALERT_COUNT = 3;

interface CreatedSchedule {
  readonly schedule: Schedule;
  /** Secret of a webhook. Undefined for cron schedules. */
  readonly secret: string | undefined;
}

/**
 * Throws NOT_FOUND and INVALID_INPUT for the body, MISSING_SECRETS for a foreign agent without its grants, and
 * FORBIDDEN if the plan's limit of schedules is reached.
 */
export async function createSchedule(
  deps: Pick<AllDeps, 'config' | 'main' | 'blobs' | 'clock' | 'ids' | 'log' | 'timers'>,
  caller: Caller,
  body: NewScheduleBody,
): Promise<CreatedSchedule> {
  const scheduled = await resolveScheduledAgent(deps, caller, body);
  const { agent } = scheduled;
  if (body.enabled ?? true) await checkScheduleGrants(deps, caller.workspace.id, agent);
  const currentId = await currentVersionId(deps, agent, scheduled.channel);
  const created = newSchedule(deps, { caller, body, scheduled });
  const { schedule, secret } = created;
  const store = new ScheduleStore(deps, caller.workspace.id);
  const { name: plan, schedules: limit } = planOf(deps, caller.workspace);
  if (!(await store.create(schedule, limit))) {
    throw new PlatformError(
      'FORBIDDEN',
      `The plan "${plan}" of the workspace "${caller.workspace.slug}" allows ${limit} schedules: delete one, or upgrade the plan.`,
    );
  }
  await adjustTimers(deps, undefined, schedule);
  if (!followsVersions(schedule) || (await currentVersionId(deps, agent, schedule.channel)) === currentId)
    return created;
  // A version published in the meantime would not have found this schedule to update.
  await moveSchedulesToCurrentVersion(deps, agent);
  return { schedule: (await store.find(schedule.id)) ?? schedule, secret };
}

/** Checks the body and builds the record. Throws INVALID_INPUT. */
function newSchedule(
  deps: Pick<Deps, 'config' | 'clock' | 'ids'>,
  { caller, body, scheduled }: { caller: Caller; body: NewScheduleBody; scheduled: ScheduledAgent },
): CreatedSchedule {
  const { agent, isPinned, channel = null } = scheduled;
  const type = body.webhook ? 'webhook' : (body.schedule_type ?? body.type ?? 'cron');
  const timezone = Zone.of(body.timezone ?? 'UTC').name;
  const llmProvider = body.llm_provider ?? body.provider ?? null;
  checkProvider(deps, agent, llmProvider);
  const cronExpression = type === 'cron' ? checkCron(body.cron_expression) : null;
  if (type === 'webhook') checkNoCron(body.cron_expression);
  const enabled = body.enabled ?? true;
  const webhook = type === 'webhook' ? newWebhookSecret(deps.ids) : undefined;
  const now = deps.clock.now();
  const endsAt = checkEndsAt(body.ends_at, now);
  const first = unlessAfterEnd(firstRun(cronExpression, timezone, now), { endsAt });
  const autoUpdate = autoUpdateIn(body) ?? !isPinned;
  const schedule: Schedule = {
    id: deps.ids.uuid(),
    workspaceId: caller.workspace.id,
    ...agentMembers(agent),
    type,
    cronExpression,
    timezone,
    input: body.input_data ?? {},
    llmProvider,
    enabled,
    autoUpdate,
    channel: autoUpdate ? channel : null,
    overlap: body.overlap ?? 'allow',
    webhookSecretHash: null,
    webhookSecretPreview: null,
    ...webhook?.kept,
    alertWebhookUrl: checkAlertUrl(deps, body.alert_webhook_url),
    alertOnFailureCount: body.alert_on_failure_count ?? DEFAULT_ALERT_COUNT,
    maxConsecutiveFailures: body.max_consecutive_failures ?? DEFAULT_MAX_FAILURES,
    consecutiveFailures: 0,
    autoDisabledAt: null,
    autoDisabledReason: null,
    endsAt,
    maxRuns: body.max_runs ?? null,
    retry: body.retry ? retryPolicyOf(body.retry, { isDurable: false }) : null,
    ...{ concurrency: null, rate: null, debounce: null, ...queueRulesOf(body) },
    endedAt: null,
    endedReason: null,
    nextRunAt: enabled ? first : null,
    lastRunAt: null,
    lastRunId: null,
    lastRunStatus: null,
    runCount: 0,
    lackedGrants: null,
    createdBy: caller.userId,
    createdAt: isoTime(now),
    updatedAt: isoTime(now),
    deletedAt: null,
  };
  checkNotOver(schedule, now);
  return { schedule, secret: webhook?.secret };
}
