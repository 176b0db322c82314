import { blobParts, tableParts, wakeRunParts } from '#aws/deps.ts';
import { runs } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host), ...wakeRunParts(host) };
export const handler = createHandler('runs', deps, runs).use(observe);
