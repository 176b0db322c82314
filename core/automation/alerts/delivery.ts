import { messageHeaders } from '#core/outbound/signing.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { OutboundResult } from '#core/ports/outbound.ts';
import { absent, equals, type Item, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { type NewScheduleEvent, ScheduleStore } from '../schedules/store.ts';
import type { FailureStreak } from './failure-streak.ts';

/**
 * An alert on its way. Main table: `ALERT#<id> / META`, from the transaction that counts the failure until the one that
 * writes into the schedule's timeline how it went; gsi2 has it by the time of its next try. So no crash loses an alert,
 * and receivers know one that comes twice by its `webhook-id`.
 */
export interface Alert {
  readonly id: string;
  readonly workspaceId: string;
  readonly scheduleId: string;
  readonly url: string;
  /** JSON text. */
  readonly body: string;
  /** Tries that have begun. */
  readonly tries: number;
}

/** After the first try, and after the second. The first is made at once, the others by {@link sweepAlerts}. */
const PAUSES_MS = [60_000, 300_000];
const MAX_TRIES = PAUSES_MS.length + 1;
/** Longer than a try takes: one that has not ended by then was lost with its process. */
const TRY_LOST_MS = 30_000;
const SWEPT_AT_ONCE = 20;
/** The sweep of the next minute goes on. */
const SWEEP_MS = 30_000;
const DIGITS = '0123456789abcdef';

export type AlertDeps = Pick<Deps, 'main' | 'vault' | 'outbound' | 'clock' | 'ids' | 'config' | 'log'>;

const keyOf = (id: string) => ({ pk: `ALERT#${id}`, sk: 'META' });
const dueAt = (id: string, at: number) => ({ gsi2pk: `ALERTS#${id[0]}`, gsi2sk: `${isoTime(at)}#${id}` });

export const newAlert = ({ ids }: Pick<Deps, 'ids'>, streak: FailureStreak, url: string): Alert => ({
  id: ids.uuid(),
  workspaceId: streak.workspace_id,
  scheduleId: streak.schedule_id,
  url,
  body: JSON.stringify(streak),
  tries: 0,
});

/** Goes with the change that counts the failure. */
export const alertOperation = ({ clock }: Pick<Deps, 'clock'>, alert: Alert): TransactOperation => ({
  op: 'put',
  item: { ...keyOf(alert.id), ...alert, ...dueAt(alert.id, clock.now() + TRY_LOST_MS) },
  condition: absent(),
});

/** Makes the next try of an alert, unless somebody else does. Never throws. */
export async function tryAlert(deps: AlertDeps, alert: Alert): Promise<void> {
  try {
    const tries = alert.tries + 1;
    const isOurs = await deps.main.update(
      keyOf(alert.id),
      { set: { tries, ...dueAt(alert.id, deps.clock.now() + TRY_LOST_MS) } },
      equals('tries', alert.tries),
    );
    if (!isOurs.ok) return;
    if (alert.tries >= MAX_TRIES) {
      return await conclude(deps, { ...alert, tries }, failed(alert, 'the platform stopped during its last try'));
    }
    const result = await post(deps, alert);
    if (!result.ok && !result.isFinal && tries < MAX_TRIES) {
      const next = dueAt(alert.id, deps.clock.now() + PAUSES_MS[alert.tries]!);
      await deps.main.update(keyOf(alert.id), { set: next }, equals('tries', tries));
      return;
    }
    await conclude(deps, { ...alert, tries }, result.ok ? SENT : failed({ tries }, result.problem));
  } catch (error) {
    // The sweep tries it again.
    deps.log.error('alert not sent', { alert_id: alert.id, schedule_id: alert.scheduleId, error: String(error) });
  }
}

/** The tries that are due, of all workspaces: to be called every minute. */
export async function sweepAlerts(deps: AlertDeps): Promise<void> {
  const until = deps.clock.now() + SWEEP_MS;
  for (const digit of DIGITS) {
    const query = { index: 'gsi2', pk: `ALERTS#${digit}`, sk: { lessThan: isoTime(deps.clock.now()) } } as const;
    const due = (await Array.fromAsync(queryAll(deps.main, query))).map(fromItem);
    for (let start = 0; start < due.length && deps.clock.now() < until; start += SWEPT_AT_ONCE) {
      await Promise.all(due.slice(start, start + SWEPT_AT_ONCE).map((alert) => tryAlert(deps, alert)));
    }
  }
}

/**
 * Posts an alert once, to see whether it arrives, and writes into the timeline whether it did.
 */
export async function sendTestAlert(deps: AlertDeps, alert: Alert): Promise<boolean> {
  const result = await post(deps, alert);
  const event: NewScheduleEvent = result.ok
    ? { type: 'alert_sent', message: 'Test alert sent.' }
    : { type: 'alert_failed', message: `Test alert not sent: ${result.problem}.` };
  await new ScheduleStore(deps, alert.workspaceId).addEvent(alert.scheduleId, event);
  return result.ok;
}

async function post(deps: AlertDeps, { id, workspaceId, url, body }: Alert): Promise<OutboundResult> {
  const headers = await messageHeaders(deps, workspaceId, { id: `msg_${id}`, body });
  return deps.outbound.post({ url, body, headers });
}

const SENT: NewScheduleEvent = { type: 'alert_sent', message: 'Alert sent.' };

const failed = ({ tries }: Pick<Alert, 'tries'>, problem: string): NewScheduleEvent => ({
  type: 'alert_failed',
  message: `Alert not sent, after ${tries === 1 ? 'one try' : `${tries} tries`}: ${problem}.`,
});

/** Timeline and end together: it says once how each alert went. */
async function conclude(deps: AlertDeps, { id, workspaceId, scheduleId, tries }: Alert, event: NewScheduleEvent) {
  const end: TransactOperation = { op: 'delete', key: keyOf(id), condition: equals('tries', tries) };
  const written = await new ScheduleStore(deps, workspaceId).change(scheduleId, () => ({
    events: [event],
    alongside: [end],
  }));
  // The schedule and its history have expired.
  if (written === undefined) await deps.main.delete(end.key, end.condition);
}

const fromItem = ({ id, workspaceId, scheduleId, url, body, tries }: Item): Alert =>
  ({ id, workspaceId, scheduleId, url, body, tries }) as Alert;
