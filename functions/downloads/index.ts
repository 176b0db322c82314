import { blobParts, tableParts } from '#aws/deps.ts';
import { downloads } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host) };
export const handler = createHandler('downloads', deps, downloads).use(observe);
