import { blobParts, tableParts } from '#aws/deps.ts';
import { catalogHandlers } from '#core/agents/catalog/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host) };
export const handler = createHandler('catalog', deps, catalogHandlers(deps)).use(observe);
