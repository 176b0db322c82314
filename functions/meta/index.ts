import { meta } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

// No row here looks up a key or counts its callers, so the fastest function loads no SDK.
const deps = { ...host, main: undefined as never, runs: undefined as never, counters: undefined as never };
export const handler = createHandler('meta', deps, meta(deps)).use(observe);
