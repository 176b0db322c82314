import { awsDeps } from '#aws/all-deps.ts';
import { calls } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = awsDeps(host.config);
export const handler = createHandler('calls', deps, calls).use(observe);
