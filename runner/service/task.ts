import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hasCode } from '#core/base/errors.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { SystemIds } from '#core/ports/ids.ts';
import type { SandboxSpec } from '#core/ports/sandbox.ts';
import { gatewayOf } from '../sandbox/gateway-address.ts';
import type { Network } from '../sandbox/open-session.ts';
import type { LinkedBlobs } from '../server/linked-blobs.ts';
import { restartDelay } from './backoff.ts';
import { mayUpgrade, type Via } from './gateway.ts';
import { type AppPlace, type Opened, ServiceInstance } from './instance.ts';
import type { LogLines } from './log-lines.ts';
import { specOf } from './place.ts';
import { PlatformApi } from './platform-api.ts';
import { Reporter } from './reporter.ts';

/**
 * Grace period between SIGTERM and SIGKILL. Together with the time for requests in flight, less than the 30 seconds
 * that ECS gives a task.
 */
const GRACE_MS = 20_000;
/** Maximum time of an orderly stop. Then the process ends with everything still in progress, such as a download. */
const MAX_STOP_MS = 26_000;
/** Time for delivering the last report. */
const LAST_REPORT_MS = 2000;
const LAST_LINES_MS = 1000;
/**
 * Longer than load balancers keep idle connections (ours: ten minutes), so that they never reuse a connection that is
 * being closed.
 */
const KEEP_ALIVE_MS = 11 * 60_000;
const METADATA_MS = 5000;
const METADATA_TRIES = 3;
/** Number of attempts before unreadable blobs count as a failed start. */
const OPEN_TRIES = 5;

export interface TaskSettings {
  readonly serviceId: string;
  readonly token: string;
  /** Address of the platform's API, without a trailing slash. */
  readonly apiUrl: string;
  /** A port, 0 for any, or the path of a Unix socket. */
  readonly listen: number | string;
  /** Address where a task on ECS finds its ARN. Absent elsewhere. */
  readonly metadataUrl?: string;
}

export interface TaskParts {
  readonly blobs: LinkedBlobs;
  readonly lines: LogLines;
  /** Resolves with the reason when the host stops the task. */
  readonly stopped: Promise<string>;
  /** Opens a sandbox for the app. */
  open(spec: SandboxSpec, network: Network): Promise<AppPlace>;
}

/**
 * Runs one instance of a service in its own task: loads its document from the platform, runs its app, forwards requests
 * from the load balancer to it, and reports. Ends when the host stops the task, or the token is rejected.
 */
export async function runTask(settings: TaskSettings, { blobs, lines, stopped, open }: TaskParts): Promise<void> {
  const clock = new SystemClock();
  const api = new PlatformApi({
    ...{ url: settings.apiUrl, serviceId: settings.serviceId, token: settings.token, clock },
    say: (message) => lines.say(message, 'WARNING'),
  });
  const refused = Promise.withResolvers<string>();
  const reporter = new Reporter(
    (reports) =>
      api.report(reports).catch((error: unknown) => {
        if (!hasCode(error, 'UNAUTHORIZED')) throw error;
        refused.resolve('its token is no longer good');
      }),
    { clock, log: { error: (message, fields) => lines.say(`${message}: ${fields?.error}`, 'WARNING') } },
  );
  const instance = new ServiceInstance({
    ...{ id: await instanceId(settings), serviceId: settings.serviceId, revision: 0 },
    ...{ clock, graceMs: GRACE_MS, random: Math.random },
    platform: { url: settings.apiUrl, token: settings.token },
    open: (signal) => openApp({ api, blobs, clock, open }, signal),
    log: (line) => lines.write(line),
    report: (report) => reporter.add(report),
  });
  const server = await listen(instance, settings.listen);
  lines.say('The instance starts.', 'INFO', { port: (server.address() as AddressInfo).port });

  const ended = instance.run().then(() => 'its token is no longer good');
  lines.say(`The instance ends: ${await Promise.race([ended, refused.promise, stopped])}.`);
  await Promise.race([instance.stop(), clock.sleep(MAX_STOP_MS)]);
  server.close();
  server.closeAllConnections();
  await Promise.race([reporter.settled(), refused.promise, clock.sleep(LAST_REPORT_MS)]);
  await Promise.race([lines.end(), clock.sleep(LAST_LINES_MS)]);
}

/** Returns the last part of the task's ARN, by which the host identifies the instance, or a UUID without ECS. */
async function instanceId({ metadataUrl }: TaskSettings): Promise<string> {
  if (metadataUrl === undefined) return new SystemIds().uuid();
  for (let tries = 1; ; tries++) {
    try {
      const response = await fetch(`${metadataUrl}/task`, { signal: AbortSignal.timeout(METADATA_MS) });
      const { TaskARN: arn } = (await response.json()) as { TaskARN: string };
      return arn.split('/').at(-1)!;
    } catch (error) {
      // Under another id the task would count as a second instance.
      if (tries === METADATA_TRIES) throw new Error('the task cannot read its name', { cause: error });
    }
  }
}

/** Links to blobs are valid for some minutes: when one is refused, the document is loaded again. */
async function openApp(
  { api, blobs, clock, open }: { api: PlatformApi; clock: SystemClock } & Pick<TaskParts, 'blobs' | 'open'>,
  signal: AbortSignal,
): Promise<Opened> {
  for (let tries = 1; ; tries++) {
    const boot = await api.boot(signal);
    // A loop has no process: its calls run elsewhere.
    if (boot.app.kind === 'loop') return { boot };
    blobs.links = [boot.bundle, boot.layer].flatMap((blob) => (blob?.url ? [{ key: blob.key, url: blob.url }] : []));
    try {
      return { boot, place: await open(specOf(boot), { gateway: gatewayOf(boot.env.PLATFORM_GATEWAY_URL) }) };
    } catch (error) {
      if (!hasCode(error, 'BLOB_UNREADABLE') || tries === OPEN_TRIES) throw error;
    }
    await clock.sleep(restartDelay(tries, Math.random()), signal);
  }
}

/** Bodies and responses have no total timeout; the instance ends stalled ones. */
async function listen(instance: ServiceInstance, at: number | string): Promise<Server> {
  const server = createServer(
    {
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      shouldUpgradeCallback: mayUpgrade,
    },
    (incoming, response) => instance.request(incoming, response, viaOf(incoming)),
  );
  server.on('upgrade', (incoming, socket, head) => instance.upgrade(incoming, socket, head, viaOf(incoming)));
  server.listen(at);
  await once(server, 'listening');
  return server;
}

/**
 * Only the load balancer reaches a task, so its forwarding headers are trusted. It appends the address of its client,
 * so the last one counts, as on a host without a load balancer.
 */
function viaOf({ headers, socket }: IncomingMessage): Via {
  const addresses = String(headers['x-forwarded-for'] ?? socket.remoteAddress ?? '');
  return {
    addresses,
    client: addresses.split(',').at(-1)!.trim(),
    proto: headers['x-forwarded-proto'] === 'https' ? 'https' : 'http',
  };
}
