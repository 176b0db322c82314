import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { webhookDeliveryRoutes } from './routes.ts';

/** Loaded lazily to keep the cold start of other calls fast. */
const receive = lazy(() => import('./receive.ts'));

export const webhookDeliveryHandlers = (deps: Deps): Handlers<typeof webhookDeliveryRoutes> => ({
  async receiveWebhook({ params, headers, request, requestUuid, receivedAt, responseHeaders }) {
    const { receiveWebhook } = await receive();
    const answer = await receiveWebhook(deps, {
      scheduleId: params.schedule_id,
      secret: params.secret,
      key: headers['idempotency-key'],
      request,
      runId: requestUuid,
      receivedAt,
    });
    responseHeaders['x-run-id'] = answer.run_id;
    responseHeaders['x-platform-run-id'] = answer.run_id;
    return { status: 200, body: answer };
  },
});
