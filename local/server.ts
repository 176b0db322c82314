import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { type App, createApp } from '#core/api/app.ts';
import { BACKGROUND, type BackgroundRow, type LocalClockName } from '#core/api/background.ts';
import { allWork } from '#core/api/background-work.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { listOpenScheduleRuns } from '#core/automation/schedules/runs/open-runs.ts';
import { VERSION } from '#core/base/version.ts';
import { resumeRuns } from '#core/execution/durable/resume.ts';
import type { HttpResponse } from '#core/http/message.ts';
import { requestListener } from '#core/http/node-adapter.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { recoverServices } from '#core/services/sweep.ts';
import type { LocalConfig } from './config.ts';
import { addressOf, type LocalDeps, localDeps } from './deps.ts';
import { Dashboard } from './http/dashboard.ts';
import { Docs } from './http/docs.ts';
import { GatewayClients } from './http/gateway-clients.ts';
import { createTickLimiter } from './http/tick-limiter.ts';
import { createLog } from './process/log.ts';
import { serveStatus } from './process/status-socket.ts';
import { ServiceFront } from './services/front.ts';
import { startMetrics } from './telemetry/push-metrics.ts';

/** Longer than the longest call, so that a call can end before the server does. */
const SHUTDOWN_MS = 300_000;
/**
 * Number of API requests handled in one turn of the event loop. Fewer means that fewer writes share a journal group;
 * more means that the first waits longer for the last.
 */
const REQUESTS_A_TURN = 8;

export interface LocalServer {
  /** Address without a trailing slash. */
  readonly url: string;
  readonly deps: LocalDeps;
  readonly dashboard: Dashboard;
  /** Stops accepting requests, waits for those in progress, and releases everything. `force` skips the wait. */
  close(force?: boolean): Promise<void>;
}

const STARTING: HttpResponse = { status: 503, headers: { 'retry-after': '1' }, body: 'The platform is starting.\n' };

/** Starts the platform on one machine. Throws errors of `listen` (`EADDRINUSE`) and `DATABASE_IN_USE`. */
export async function startLocalServer(config: LocalConfig): Promise<LocalServer> {
  let answer: App = async () => STARTING;
  let services: ServiceFront | undefined;
  const gatewayClients = new GatewayClients();
  const log = createLog(config.logLevel);
  const inTurn = createTickLimiter(REQUESTS_A_TURN);
  const clientOf = (incoming: Pick<IncomingMessage, 'socket' | 'headers'>) =>
    addressOfClient(incoming, gatewayClients, config.trustProxy);
  const api = requestListener((request, incoming) => answer(request, clientOf(incoming)), {
    onError: (error) => log.error('answer not sent', { error: String(error) }),
  });
  const server = createServer(
    {
      // Node's timeout for a full request would cut off long uploads to services. Both sides have idle timeouts
      // instead.
      requestTimeout: 0,
      joinDuplicateHeaders: true,
      // Longer than the idle timeout of common proxies and clients, so that they never reuse a connection that is being
      // closed.
      keepAliveTimeout: 65_000,
      // Some clients offer HTTP/2 with every request. Requests that are not for a service ignore the offer.
      shouldUpgradeCallback: (request: IncomingMessage) => services?.mayUpgrade(request) ?? false,
    },
    (request, response) => {
      // A client that asks again and again on its connection would keep a stopping platform from its end.
      if (!server.listening) response.shouldKeepAlive = false;
      if (!services?.request(request, response)) inTurn(() => api(request, response));
    },
  );
  server.on('upgrade', (request, socket, head) => services?.upgrade(request, socket, head));
  await new Promise<void>((listening, reject) => {
    server.once('error', reject);
    server.listen(config.port, config.host, listening);
  });
  const { port } = server.address() as AddressInfo;
  const url = config.baseUrl ?? addressOf({ host: config.host, port });
  const dashboardUrl = config.dashboardUrl ?? `${url}/dashboard`;
  let deps: LocalDeps;
  try {
    deps = await localDeps(
      { ...config, port, baseUrl: url, dashboardUrl },
      { host: config.host, port, onConnect: gatewayClients.add },
    );
  } catch (error) {
    server.close();
    throw error;
  }
  const startedAt = new Date().toISOString();
  const closeStatus = await serveStatus(resolve(config.dataFolder), async () => {
    const { kind, problem, limits } = await deps.sandbox.status();
    return {
      pid: process.pid,
      url,
      version: VERSION,
      started_at: startedAt,
      sandbox: { kind, problem, limits_by: limits?.by, ...deps.sandbox.load },
    };
  }).catch((error) => {
    log.warn('`platform status` will not work', { error: String(error) });
    return async () => {};
  });
  services = new ServiceFront({
    host: deps.serviceHost,
    domain: config.servicesDomain,
    trustProxy: config.trustProxy,
    clientOf,
  });
  await recover(deps);
  runInBackground(deps, 'keepServices', allWork.keepServices(deps).finally(services.isComplete));
  const clocks = startClocks(deps);
  if (deps.operatorTelemetry !== undefined) clocks.push(startMetrics(deps, deps.operatorTelemetry));
  const app = createApp(deps, routes, allHandlers(deps));
  const { uploadForms, hostState } = deps;
  const dashboard = new Dashboard({ log: deps.log, url: dashboardUrl });
  const docs = new Docs({ url });
  const answerApi: App = (request, address) =>
    uploadForms.takes(request) ? uploadForms.accept(request) : app(request, address);
  answer = async (request, address) => {
    if (dashboard.takes(request)) return dashboard.answer(request, request.headers.get('accept-encoding') ?? '');
    if (docs.takes(request)) return docs.answer(request);
    const began = performance.now();
    const response = await answerApi(request, address);
    hostState.countRequest(request.method, response.status, performance.now() - began);
    return response;
  };
  deps.scriptedStripe?.deliverTo(`${deps.gatewayUrl}/webhooks/stripe`);
  deps.timers.start((error) => deps.log.error('schedules not read', { error: String(error) }));

  return {
    url,
    deps,
    dashboard,
    async close(force = false) {
      deps.leaveRuns(force);
      dashboard.close();
      for (const clock of clocks) clearInterval(clock);
      deps.endWatching();
      await deps.timers.stop();
      // Requests and connections of services may never end by themselves.
      await deps.serviceHost.close();
      const closed = new Promise<void>((done) => server.close(() => done()));
      if (force) server.closeAllConnections();
      const timer = setTimeout(() => server.closeAllConnections(), SHUTDOWN_MS).unref();
      await closed;
      clearTimeout(timer);
      await closeStatus();
      await deps.close(force);
    },
  };
}

/** Finishes or takes up all open runs of the previous process: no other process has this database. */
async function recover(deps: LocalDeps): Promise<void> {
  await sweepLostRuns(deps, { all: true });
  await recoverServices(deps);
  const lost = await Array.fromAsync(listOpenScheduleRuns(deps, { all: true }));
  runInBackground(deps, 'resumeScheduleRuns', allWork.resumeScheduleRuns(deps, lost));
  runInBackground(deps, 'resumeRuns', resumeRuns(deps, { all: true }));
}

/** Starts the timers of the background table. Work that takes longer than its period overlaps with the next. */
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
 * Returns the rate-limit key of a client's requests without a valid key, and of its connections to services. Uses the
 * last forwarded address, which the proxy appends: earlier entries may be forged. Sandboxes connect from this machine,
 * not through a proxy.
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
