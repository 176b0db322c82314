import { awsDeps } from '#aws/all-deps.ts';
import { agentHandlers } from '#core/agents/handlers.ts';
import { serviceKeyHandlers } from '#core/orchestration/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = awsDeps(host.config);
export const handler = createHandler('agents', deps, { ...agentHandlers(deps), ...serviceKeyHandlers(deps) }).use(
  observe,
);
