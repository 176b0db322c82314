import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { purgeUploads } from '#core/agents/uploads/store.ts';
import { type App, createApp } from '#core/api/app.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { deliveryListeners } from '#core/api/listeners.ts';
import { routes } from '#core/api/routes.ts';
import { sweepScheduleRuns } from '#core/automation/schedules/fire.ts';
import { listOpenScheduleRuns, type OpenScheduleRun } from '#core/automation/schedules/store.ts';
import { sweepHolds } from '#core/billing/credits/ledger.ts';
import { sweepDeliveries } from '#core/outbound/deliveries.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import type { LocalConfig } from './config.ts';
import { addressOf, type LocalDeps, localDeps } from './deps.ts';

/** Longer than the longest call, so that a call can end before the server does. */
const SHUTDOWN_MS = 300_000;
const SWEEP_INTERVAL_MS = 30_000;

export interface LocalServer {
  /** Without a slash at the end. */
  readonly url: string;
  readonly deps: LocalDeps;
  /** Takes no more requests, waits for those under way, and lets go of everything; `force` does not wait. */
  close(force?: boolean): Promise<void>;
}

/** The whole platform on one machine. Throws what `listen` throws (`EADDRINUSE`), and `DATABASE_IN_USE`. */
export async function startLocalServer(config: LocalConfig): Promise<LocalServer> {
  let answer: App | undefined;
  const server = createAdaptorServer({
    async fetch(request, { incoming }) {
      const response = await answer!(request, addressOfClient(incoming, config.trustProxy));
      await endOfTurn();
      return response;
    },
  }) as Server;
  // Idle connections stay open longer than those of common proxies and clients, which then never reuse a closing one.
  server.keepAliveTimeout = 65_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.port, config.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const url = config.baseUrl ?? addressOf({ host: config.host, port });
  let deps: LocalDeps;
  try {
    deps = await localDeps({ ...config, port, baseUrl: url }, { host: config.host, port });
  } catch (error) {
    server.close();
    throw error;
  }
  // Nobody else has this database, so whatever is under way in it was lost with the process before.
  await sweepLostRuns(deps, { all: true });
  const lost = await Array.fromAsync(listOpenScheduleRuns(deps, { all: true }));
  const sweepSchedules = (runs?: readonly OpenScheduleRun[]) => {
    const failed = (error: unknown) => deps.log.error('schedules not swept', { error: String(error) });
    deps.background(sweepScheduleRuns(deps, runs).catch(failed));
  };
  sweepSchedules(lost);
  const sweep = setInterval(() => {
    sweepSchedules();
    const done = sweepLostRuns(deps)
      .then(() => sweepHolds(deps))
      .then(() => sweepDeliveries(deps, deliveryListeners(deps)))
      .then(() => purgeUploads(deps));
    deps.background(done.catch((error: unknown) => deps.log.error('sweep failed', { error: String(error) })));
  }, SWEEP_INTERVAL_MS).unref();
  const app = createApp(deps, routes, allHandlers(deps));
  const { uploadForms } = deps;
  answer = async (request, address) =>
    uploadForms.takes(request) ? uploadForms.accept(request) : app(request, address);
  deps.timers.start((error) => deps.log.error('schedules not read', { error: String(error) }));

  return {
    url,
    deps,
    async close(force = false) {
      clearInterval(sweep);
      await deps.timers.stop();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      if (force) server.closeAllConnections();
      const timer = setTimeout(() => server.closeAllConnections(), SHUTDOWN_MS).unref();
      await closed;
      clearTimeout(timer);
      await deps.close(force);
    },
  };
}

/** A proxy appends the address that it was reached from; what stands before that, clients may have made up. */
function addressOfClient(
  { socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>,
  trustProxy: boolean,
): string | undefined {
  const forwarded = trustProxy ? String(headers['x-forwarded-for'] ?? '') : '';
  return forwarded.split(',').at(-1)!.trim() || socket.remoteAddress;
}

/**
 * Ends with the present turn of the event loop. Answers that wait for it leave together and wake the receiving side
 * once, not once each: a third more requests a second (`npm run bench`, first row).
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
