import { blobParts, tableParts, timerParts, vaultParts } from '#aws/deps.ts';
import { alertHandlers } from '#core/automation/alerts/handlers.ts';
import { scheduleHandlers } from '#core/automation/schedules/handlers.ts';
import { webhookHandlers } from '#core/automation/webhooks/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const tables = tableParts(host);
const deps = { ...host, ...tables, ...blobParts(host), ...timerParts(host), ...vaultParts({ ...host, ...tables }) };
const handlers = { ...scheduleHandlers(deps), ...alertHandlers(deps), ...webhookHandlers(deps) };
export const handler = createHandler('schedules', deps, handlers).use(observe);
