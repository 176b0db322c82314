import { tableParts } from '#aws/deps.ts';
import { keyHandlers } from '#core/accounts/keys/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host) };
export const handler = createHandler('keys', deps, keyHandlers(deps)).use(observe);
