import { awsDeps } from '#aws/all-deps.ts';
import { callHandlers } from '#core/calls/handlers.ts';
import { scheduleTriggerHandlers } from '#core/schedules/trigger.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = awsDeps(host.config);
export const handler = createHandler('calls', deps, { ...callHandlers(deps), ...scheduleTriggerHandlers(deps) }).use(
  observe,
);
