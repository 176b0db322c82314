import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { ScheduleStore } from '../schedules/store.ts';
import { newWebhookSecret, webhookUrl } from '../schedules/webhook-secret.ts';
import type { webhookRoutes } from './routes.ts';

export const webhookHandlers = (
  deps: Pick<Deps, 'main' | 'clock' | 'ids' | 'config'>,
): Handlers<typeof webhookRoutes> => ({
  async regenerateWebhook({ caller, params }) {
    const { secret, kept } = newWebhookSecret(deps.ids);
    let isWebhook = true;
    const changed = await new ScheduleStore(deps, caller.workspace.id).change(params.schedule_id, (schedule) => {
      if (schedule.deletedAt !== null) return undefined;
      isWebhook = schedule.type === 'webhook';
      if (!isWebhook) return undefined;
      return {
        set: kept,
        events: [{ type: 'webhook_regenerated', message: 'The webhook has a new URL; the old one no longer works.' }],
      };
    });
    if (!isWebhook) throw new PlatformError('CONFLICT', 'This is a cron schedule: it has no webhook.');
    if (changed === undefined) throw new PlatformError('NOT_FOUND', `No schedule has the id "${params.schedule_id}".`);
    return {
      status: 200,
      body: {
        webhook_url: webhookUrl(deps, changed.id, secret),
        message: 'This URL is shown only once. The previous URL no longer works.',
      },
    };
  },
});
