import { awsDeps } from '#aws/all-deps.ts';
import { wakeParts } from '#aws/deps.ts';
import { agents } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...awsDeps(host.config), ...wakeParts(host) };
export const handler = createHandler('agents', deps, agents).use(observe);
