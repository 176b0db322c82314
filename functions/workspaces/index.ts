import { mailParts, tableParts } from '#aws/deps.ts';
import { workspaceHandlers } from '#core/accounts/workspaces/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...mailParts(host), gatewayUrl: host.config.baseUrl ?? '' };
export const handler = createHandler('workspaces', deps, workspaceHandlers(deps)).use(observe);
