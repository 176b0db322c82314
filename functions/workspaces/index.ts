import { mailParts, tableParts } from '#aws/deps.ts';
import { workspaces } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = {
  ...host,
  ...tableParts(host),
  ...mailParts(host),
  gatewayUrl: host.config.callUrl ?? host.config.baseUrl ?? '',
};
export const handler = createHandler('workspaces', deps, workspaces).use(observe);
