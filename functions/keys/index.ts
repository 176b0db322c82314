import { signInParts, tableParts } from '#aws/deps.ts';
import { idTokenParts } from '#aws/id-tokens.ts';
import { keys } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...signInParts(host), ...idTokenParts(host) };
export const handler = createHandler('keys', deps, keys).use(observe);
