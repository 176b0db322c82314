import { awsDeps } from '#aws/all-deps.ts';
import { mcpParts, timerParts } from '#aws/deps.ts';
import { mcp } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...awsDeps(host.config), ...timerParts(host), ...mcpParts(host) };
export const handler = createHandler('mcp', deps, mcp).use(observe);
