import { tableParts, vaultParts } from '#aws/deps.ts';
import { secretHandlers } from '#core/accounts/secrets/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const tables = tableParts(host);
const deps = { ...host, ...tables, ...vaultParts({ ...host, ...tables }) };
export const handler = createHandler('secrets', deps, secretHandlers(deps)).use(observe);
