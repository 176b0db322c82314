import { metaHandlers } from '#core/meta/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

// No row here asks for a key, so nothing looks one up, and the fastest function loads no SDK.
const deps = { ...host, main: undefined as never, runs: undefined as never };
export const handler = createHandler('meta', deps, metaHandlers(deps)).use(observe);
