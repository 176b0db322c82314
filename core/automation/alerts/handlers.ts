import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import { ScheduleStore } from '../schedules/store.ts';
import { streakOf } from './failure-streak.ts';
import type { alertRoutes } from './routes.ts';
import { type AlertDeps, newAlert, sendTestAlert } from './schedule-alerts.ts';

export const alertHandlers = (deps: AlertDeps): Handlers<typeof alertRoutes> => ({
  async sendTestAlert({ caller, params }) {
    const schedule = await new ScheduleStore(deps, caller.workspace.id).find(params.schedule_id);
    if (schedule === undefined) throw new PlatformError('NOT_FOUND', `No schedule has the id "${params.schedule_id}".`);
    if (schedule.alertWebhookUrl === null) {
      throw new PlatformError('CONFLICT', 'This schedule has no alert_webhook_url: set one first.');
    }
    const streak = streakOf(schedule, { autoDisabled: false, lastError: 'This is a test alert: nothing failed.' });
    return {
      status: 200,
      body: { success: await sendTestAlert(deps, newAlert(deps, streak, schedule.alertWebhookUrl)) },
    };
  },
});
