import { blobParts, serviceLogParts, tableParts } from '#aws/deps.ts';
import { services } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host), ...serviceLogParts(host) };
export const handler = createHandler('services', deps, services).use(observe);
