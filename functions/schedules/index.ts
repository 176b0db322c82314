import { blobParts, tableParts, timerParts } from '#aws/deps.ts';
import { scheduleHandlers } from '#core/schedules/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host), ...timerParts(host) };
export const handler = createHandler('schedules', deps, scheduleHandlers(deps)).use(observe);
