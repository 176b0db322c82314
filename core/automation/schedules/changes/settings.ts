import { PlatformError } from '#core/base/errors.ts';
import { Zone } from '#core/base/zone.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Schedule } from '../schedule.ts';
import type { ScheduleChangesBody } from '../schema.ts';
import { toAwsCrons } from '../timing/aws-cron.ts';
import { nextTime, parseCron } from '../timing/cron.ts';
import { endOf } from '../timing/ending.ts';

/** Returns the normalized expression. Throws INVALID_INPUT. */
export function checkCron(expression: string | null | undefined): string {
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

/** Throws INVALID_INPUT if a webhook is given a cron expression. */
export function checkNoCron(expression: string | null | undefined): void {
  if (!expression) return;
  throw new PlatformError('INVALID_INPUT', 'cron_expression: a webhook schedule has none; leave it out.');
}

/** Returns the normalized URL, or null for none. Throws INVALID_INPUT. */
export function checkAlertUrl({ config }: Pick<Deps, 'config'>, given: string | null | undefined): string | null {
  if (!given) return null;
  checkOutboundUrl(given, config.outboundHosts, 'alert_webhook_url');
  return given;
}

/**
 * Returns the normalized time, or null for none. Throws INVALID_INPUT for a past time, unless the schedule has it
 * `already`.
 */
export function checkEndsAt(given: string | null | undefined, now: number, already?: string | null): string | null {
  if (given == null) return null;
  const endsAt = isoTime(Date.parse(given));
  if (endsAt > isoTime(now) || endsAt === already) return endsAt;
  throw new PlatformError('INVALID_INPUT', `ends_at: ${endsAt} has passed; name a later time.`);
}

/** Throws INVALID_INPUT if a schedule that is to run has nothing left to run. */
export function checkNotOver(schedule: Schedule, now: number): void {
  const reason = endOf(schedule, now);
  if (reason === undefined) return;
  const { runCount, maxRuns, endsAt } = schedule;
  const message =
    reason === 'max_runs'
      ? `max_runs: the schedule has run ${runCount} times, and may run ${maxRuns} times; name a larger number, or null for no limit.`
      : `ends_at: the schedule has no run until ${endsAt}; name a later time, or null for no end.`;
  throw new PlatformError('INVALID_INPUT', message);
}

/** Reads `auto_update` from either of its two members in the body. Returns `undefined` if neither is present. */
export const autoUpdateIn = ({
  auto_update,
  pin_version,
}: Pick<ScheduleChangesBody, 'auto_update' | 'pin_version'>): boolean | undefined =>
  auto_update ?? (pin_version == null ? undefined : !pin_version);

/**
 * Returns the first run of a schedule that is created, enabled or rescheduled at `now` (epoch milliseconds); null for
 * webhooks. Throws INVALID_INPUT for an expression whose local times are skipped by clock changes every year.
 */
export function firstRun(cronExpression: string | null, timezone: string, now: number): string | null {
  const first = nextRun(cronExpression, timezone, now);
  if (first !== null || cronExpression === null) return first;
  throw new PlatformError(
    'INVALID_INPUT',
    `cron_expression: "${cronExpression}" never occurs in ${timezone}: clocks go forward there at that time. Name another hour, or another time zone.`,
  );
}

/** Returns the first matching minute after `after` (epoch milliseconds); null for webhooks, and if there is none. */
export function nextRun(cronExpression: string | null, timezone: string, after: number): string | null {
  if (cronExpression === null) return null;
  const next = nextTime(parseCron(cronExpression), Zone.of(timezone), after);
  return next === undefined ? null : isoTime(next);
}
