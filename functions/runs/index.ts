import { blobParts, tableParts } from '#aws/deps.ts';
import { runHandlers } from '#core/runs/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...blobParts(host) };
export const handler = createHandler('runs', deps, runHandlers(deps)).use(observe);
