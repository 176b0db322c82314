import { tableParts } from '#aws/deps.ts';
import { usageHandlers } from '#core/billing/usage/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host) };
export const handler = createHandler('usage', deps, usageHandlers(deps)).use(observe);
