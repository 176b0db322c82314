import { tableParts } from '#aws/deps.ts';
import { messageHandlers } from '#core/workbench/messages/handlers.ts';
import { taskHandlers } from '#core/workbench/tasks/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host) };
export const handler = createHandler('tasks', deps, { ...taskHandlers(deps), ...messageHandlers(deps) }).use(observe);
