import { awsDeps } from '#aws/all-deps.ts';
import { serviceKeyHandlers } from '#core/accounts/service-keys/handlers.ts';
import { findOwn } from '#core/agents/access.ts';
import { agentHandlers } from '#core/agents/handlers.ts';
import { agentListeners } from '#core/api/listeners.ts';
import { agentLogHandlers } from '#core/runs/agent-logs/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = awsDeps(host.config);
const handlers = {
  ...agentHandlers({ ...deps, listeners: agentListeners(deps) }),
  ...agentLogHandlers(deps),
  ...serviceKeyHandlers(deps, findOwn),
};
export const handler = createHandler('agents', deps, handlers).use(observe);
