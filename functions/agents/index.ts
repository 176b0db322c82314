import { awsDeps } from '#aws/all-deps.ts';
import { agents } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = awsDeps(host.config);
export const handler = createHandler('agents', deps, agents(deps)).use(observe);
