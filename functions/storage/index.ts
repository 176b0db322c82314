import { blobParts, tableParts } from '#aws/deps.ts';
import { storageHandlers } from '#core/workbench/storage/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host) };
export const handler = createHandler('storage', deps, storageHandlers(deps)).use(observe);
