import { awsDeps } from '#aws/all-deps.ts';
import { cardKeyParts } from '#aws/deps.ts';
import { a2a } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...awsDeps(host.config), ...cardKeyParts(host) };
export const handler = createHandler('a2a', deps, a2a).use(observe);
