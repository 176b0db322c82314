import { meta } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

// Its rows look up no key and count no callers, so it needs no tables and loads no SDK.
const deps = { ...host, main: undefined as never, runs: undefined as never, counters: undefined as never };
export const handler = createHandler('meta', deps, meta).use(observe);
