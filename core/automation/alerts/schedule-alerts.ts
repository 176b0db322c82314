import {
  type Delivery,
  type DeliveryDeps,
  type DeliveryListener,
  type DeliveryOutcome,
  newDelivery,
  postDelivery,
} from '#core/outbound/deliveries.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { NewScheduleEvent } from '../schedules/schedule.ts';
import { ScheduleStore } from '../schedules/store.ts';
import { type FailureStreak, streakView } from './failure-streak.ts';

/** {@link Delivery.kind} of schedule alerts. The subject is the schedule. */
export const SCHEDULE_ALERT = 'schedule';

export type AlertDeps = DeliveryDeps & Pick<Deps, 'ids' | 'config'>;

export const newAlert = (deps: Pick<Deps, 'ids'>, streak: FailureStreak, url: string): Delivery =>
  newDelivery(deps, {
    kind: SCHEDULE_ALERT,
    workspaceId: streak.workspaceId,
    subjectId: streak.scheduleId,
    url,
    body: JSON.stringify(streakView(streak)),
  });

/** Records the outcome of each alert in the timeline of its schedule. */
export const scheduleAlertListener = (deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>): DeliveryListener => ({
  async deliveryEnded({ workspaceId, subjectId }, outcome, end) {
    const written = await new ScheduleStore(deps, workspaceId).change(subjectId, () => ({
      events: [eventFrom(outcome)],
      alongside: [end],
    }));
    // The schedule and its history may have expired.
    return written !== undefined;
  },
});

function eventFrom(outcome: DeliveryOutcome): NewScheduleEvent {
  if (outcome.ok) return { type: 'alert_sent', message: 'Alert sent.' };
  const tries = outcome.tries === 1 ? 'one try' : `${outcome.tries} tries`;
  return { type: 'alert_failed', message: `Alert not sent, after ${tries}: ${outcome.problem}.` };
}

/** Sends an alert once, without retries, and records the result in the timeline. Returns whether it was delivered. */
export async function sendTestAlert(deps: AlertDeps, alert: Delivery): Promise<boolean> {
  const result = await postDelivery(deps, alert);
  const event: NewScheduleEvent = result.ok
    ? { type: 'alert_sent', message: 'Test alert sent.' }
    : { type: 'alert_failed', message: `Test alert not sent: ${result.problem}.` };
  await new ScheduleStore(deps, alert.workspaceId).addEvent(alert.subjectId, event);
  return result.ok;
}
