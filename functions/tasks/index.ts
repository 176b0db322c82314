import { tableParts } from '#aws/deps.ts';
import { tasks } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host) };
export const handler = createHandler('tasks', deps, tasks).use(observe);
