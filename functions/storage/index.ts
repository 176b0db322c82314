import { blobParts, tableParts } from '#aws/deps.ts';
import { storage } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host) };
export const handler = createHandler('storage', deps, storage).use(observe);
