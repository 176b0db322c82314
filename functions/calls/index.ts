import { awsDeps } from '#aws/all-deps.ts';
import { scheduleTriggerHandlers } from '#core/automation/schedules/trigger.ts';
import { webhookDeliveryHandlers } from '#core/automation/webhooks/handlers.ts';
import { callHandlers } from '#core/running/calls/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = awsDeps(host.config);
const handlers = { ...callHandlers(deps), ...scheduleTriggerHandlers(deps), ...webhookDeliveryHandlers(deps) };
export const handler = createHandler('calls', deps, handlers).use(observe);
