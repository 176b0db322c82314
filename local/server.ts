import type { IncomingMessage, RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { createAdaptorServer } from '@hono/node-server';
import { type App, createApp } from '#core/api/app.ts';
import { BACKGROUND, type BackgroundRow, type LocalClockName } from '#core/api/background.ts';
import { allWork } from '#core/api/background-work.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { listOpenScheduleRuns } from '#core/automation/schedules/open-runs.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { recoverServices } from '#core/services/sweep.ts';
import type { LocalConfig } from './config.ts';
import { addressOf, type LocalDeps, localDeps } from './deps.ts';
import { GatewayClients } from './gateway-clients.ts';
import { ServiceFront } from './services/front.ts';

/** Longer than the longest call, so that a call can end before the server does. */
const SHUTDOWN_MS = 300_000;
/** A little more than the largest body that a route accepts. */
const MAX_DRAINED_BYTES = 32 * 1024 * 1024;
const DRAIN_MS = 2_000;

export interface LocalServer {
  /** Without a trailing slash. */
  readonly url: string;
  readonly deps: LocalDeps;
  /** Stops accepting requests, waits for those in progress, and releases everything; `force` does not wait. */
  close(force?: boolean): Promise<void>;
}

/** The whole platform on one machine. Throws what `listen` throws (`EADDRINUSE`), and `DATABASE_IN_USE`. */
export async function startLocalServer(config: LocalConfig): Promise<LocalServer> {
  let answer: App | undefined;
  let services: ServiceFront | undefined;
  const gatewayClients = new GatewayClients();
  const server = createAdaptorServer({
    async fetch(request, { incoming }) {
      if (!answer) return new Response('The platform is starting.\n', { status: 503, headers: { 'retry-after': '1' } });
      const response = await answer(request, addressOfClient(incoming, gatewayClients, config.trustProxy));
      if (!incoming.complete && !(await drain(incoming))) response.headers.set('connection', 'close');
      await endOfTurn();
      return response;
    },
    // Some clients offer HTTP/2 with every request. What is not for a service is answered as if they had not.
    serverOptions: { shouldUpgradeCallback: (request: IncomingMessage) => services?.mayUpgrade(request) ?? false },
  }) as Server;
  const [api] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');
  server.on('request', (request, response) => {
    if (!services?.request(request, response)) api(request, response);
  });
  server.on('upgrade', (request, socket, head) => services?.upgrade(request, socket, head));
  // Longer than common proxies and clients keep idle connections, so that they never reuse a closing one.
  server.keepAliveTimeout = 65_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.port, config.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const url = config.baseUrl ?? addressOf({ host: config.host, port });
  let deps: LocalDeps;
  try {
    deps = await localDeps(
      { ...config, port, baseUrl: url },
      { host: config.host, port, onConnect: gatewayClients.add },
    );
  } catch (error) {
    server.close();
    throw error;
  }
  services = new ServiceFront({
    host: deps.serviceHost,
    domain: config.servicesDomain,
    trustProxy: config.trustProxy,
  });
  await recover(deps);
  runInBackground(deps, 'keepServices', allWork.keepServices(deps).finally(services.isComplete));
  const clocks = startClocks(deps);
  const app = createApp(deps, routes, allHandlers(deps));
  const { uploadForms } = deps;
  answer = async (request, address) =>
    uploadForms.takes(request) ? uploadForms.accept(request) : app(request, address);
  deps.scriptedStripe?.deliverTo(`${deps.gatewayUrl}/webhooks/stripe`);
  deps.timers.start((error) => deps.log.error('schedules not read', { error: String(error) }));

  return {
    url,
    deps,
    async close(force = false) {
      for (const clock of clocks) clearInterval(clock);
      await deps.timers.stop();
      // Their requests and connections have no end of their own.
      await deps.serviceHost.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      if (force) server.closeAllConnections();
      const timer = setTimeout(() => server.closeAllConnections(), SHUTDOWN_MS).unref();
      await closed;
      clearTimeout(timer);
      await deps.close(force);
    },
  };
}

/** No other process has this database, so the last process left every run that is still open in it. */
async function recover(deps: LocalDeps): Promise<void> {
  await sweepLostRuns(deps, { all: true });
  await recoverServices(deps);
  const lost = await Array.fromAsync(listOpenScheduleRuns(deps, { all: true }));
  runInBackground(deps, 'resumeScheduleRuns', allWork.resumeScheduleRuns(deps, lost));
}

/** Starts the clocks of the background table. Work that outlasts its period runs beside the next. */
function startClocks(deps: LocalDeps): NodeJS.Timeout[] {
  const work: { readonly [Name in LocalClockName]: (deps: LocalDeps) => Promise<void> } = allWork;
  return Object.entries<BackgroundRow>(BACKGROUND).flatMap(([name, { local }]) => {
    if (local.everySeconds === undefined) return [];
    const run = work[name as LocalClockName];
    const tick = () => runInBackground(deps, name, run(deps));
    return setInterval(tick, local.everySeconds * 1000).unref();
  });
}

function runInBackground(deps: LocalDeps, name: string, work: Promise<void>): void {
  const failed = (error: unknown) => deps.log.error('background work failed', { work: name, error: String(error) });
  void deps.background(work.catch(failed));
}

/**
 * Reads and drops the rest of a body that its answer did not need, such as one that is too large. A connection that is
 * closed with unread bytes loses the answer, and one that is kept with them cannot be reused. Returns false if the rest
 * is too long or too slow.
 */
async function drain(incoming: Readable & { readonly complete: boolean }): Promise<boolean> {
  // It has closed already, so neither event below would come.
  if (incoming.destroyed) return incoming.complete;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), DRAIN_MS);
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_DRAINED_BYTES) resolve(false);
  };
  // A handler that stopped reading left a listener, which pauses the stream after each chunk.
  incoming.removeAllListeners('data');
  incoming.on('data', count).once('close', () => resolve(incoming.complete));
  incoming.once('end', () => resolve(true));
  incoming.resume();
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    incoming.off('data', count);
  }
}

/**
 * What a client's requests without a valid key are counted by. A proxy appends the address of its client; earlier entries may
 * be forged. Sandboxes come from this machine, past any proxy.
 */
function addressOfClient(
  { socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>,
  gatewayClients: GatewayClients,
  trustProxy: boolean,
): string | undefined {
  const origin = gatewayClients.originOf(socket);
  if (origin !== undefined) return origin;
  const forwarded = trustProxy ? String(headers['x-forwarded-for'] ?? '') : '';
  return forwarded.split(',').at(-1)!.trim() || socket.remoteAddress;
}

/**
 * Resolves at the end of this turn of the event loop. Answers that wait for it are sent together and wake the receiver once:
 * a third more requests per second (`npm run bench`, first row).
 */
function endOfTurn(): Promise<void> {
  turn ??= new Promise((resolve) =>
    setImmediate(() => {
      turn = undefined;
      resolve();
    }),
  );
  return turn;
}
let turn: Promise<void> | undefined;
