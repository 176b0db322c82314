import { blobParts, tableParts, timerParts, vaultParts } from '#aws/deps.ts';
import { schedules } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const tables = tableParts(host);
const deps = { ...host, ...tables, ...blobParts(host), ...timerParts(host), ...vaultParts({ ...host, ...tables }) };
export const handler = createHandler('schedules', deps, schedules).use(observe);
