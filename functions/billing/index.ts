import { tableParts } from '#aws/deps.ts';
import { billingHandlers } from '#core/billing/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host) };
export const handler = createHandler('billing', deps, billingHandlers(deps)).use(observe);
