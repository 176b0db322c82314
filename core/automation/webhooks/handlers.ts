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
        events: [{ type: 'webhook_regenerated', message: 'The webhook has a new address; the old one is dead.' }],
      };
    });
    if (!isWebhook) throw new PlatformError('CONFLICT', 'This schedule runs by the clock: it has no webhook.');
    if (changed === undefined) throw new PlatformError('NOT_FOUND', `There is no schedule "${params.schedule_id}".`);
    return {
      status: 200,
      body: {
        webhook_url: webhookUrl(deps, changed.id, secret),
        message: 'This address is shown this once. The one before no longer works.',
      },
    };
  },
});
