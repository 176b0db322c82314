import { tableParts, toolSignInParts, vaultParts, wakeParts } from '#aws/deps.ts';
import { secrets } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const tables = tableParts(host);
const deps = {
  ...host,
  ...tables,
  ...vaultParts({ ...host, ...tables }),
  ...wakeParts(host),
  ...toolSignInParts(host),
};
export const handler = createHandler('secrets', deps, secrets).use(observe);
