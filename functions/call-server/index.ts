import { createServer } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { awsDeps } from '#aws/all-deps.ts';
import { calls, events } from '#core/api/handlers.ts';
import { lazy } from '#core/base/lazy.ts';
import { createCallServer, fieldsOfRequest, needsFunction } from '../call-server.ts';
import { countStart, host, httpEndpoint } from '../host.ts';
import { rowsOf } from '../lambda.ts';

/** Lambda ends the process a second after SIGTERM. */
const END_MS = 900;

const deps = awsDeps(host.config, fieldsOfRequest);
const { log } = deps;

/** Loaded on demand: many environments pass no call on. */
const passer = lazy(async () => (await import('#aws/pass-call.ts')).callPasser(deps, host.config.callFunction));

const listener = createCallServer(deps, {
  rows: rowsOf(['calls', 'events']),
  handlersOf: (own) => ({ ...calls(own), ...events(own) }),
  needsFunction,
  passCall: async (event) => (await passer())(event),
});

// Lambda is the only client. Time limits are those of calls and of bodies (`core/http/node-adapter.ts`).
const server = createServer({ requestTimeout: 0, keepAliveTimeout: 0, joinDuplicateHeaders: true }, listener);
const [name, port] = httpEndpoint.split(/:(\d+)$/);
server.listen(Number(port), name, countStart);

// One request must not end the others.
process.on('unhandledRejection', (error) => log.error('promise not handled', { error: String(error) }));
// Requests have ended by now, as far as Lambda could wait. What else is lost is taken up as after a crash.
process.once('SIGTERM', () => {
  server.close();
  void Promise.race([deps.settled(), setTimeout(END_MS)]).then(() => process.exit(0));
});
