import { tableParts } from '#aws/deps.ts';
import { creditHandlers } from '#core/billing/credits/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host) };
export const handler = createHandler('billing', deps, creditHandlers(deps)).use(observe);
