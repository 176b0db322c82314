import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import type { SandboxSpec } from '#core/ports/sandbox.ts';
import { findHostRuntime, type HostRuntime } from './host-runtime.ts';
import { ContainerSandbox } from './sandbox/container-sandbox.ts';
import { ContentCache } from './sandbox/content-cache.ts';
import { createNamespaceSandbox } from './sandbox/namespace-sandbox.ts';
import type { Network } from './sandbox/open-session.ts';
import { makeScratchFolder } from './sandbox/scratch.ts';
import type { ProcessSession } from './sandbox/session.ts';
import { serveInvocations } from './server/invocations.ts';
import { LinkedBlobs } from './server/linked-blobs.ts';
import { serveHooks } from './server/microvm-hooks.ts';
import { RUNNER_PORT } from './server/protocol.ts';
import { RunnerServer } from './server/server.ts';
import { LogLines } from './service/log-lines.ts';
import { runTask } from './service/task.ts';

const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Program of a sandbox's task, VM or function, which serves sessions of one kind and then exits; and of a service's task,
 * which runs one instance until it is stopped.
 */
const settings = z
  .object({
    /** A port, 0 for any, or the path of a Unix socket. */
    PLATFORM_RUNNER_LISTEN: z
      .string()
      .default(String(RUNNER_PORT))
      .transform((text) => (/^\d+$/.test(text) ? Number(text) : text)),
    /** A runner that is not claimed within this time exits. @default never */
    PLATFORM_RUNNER_LEASE_SECONDS: z.coerce.number().positive().max(2_000_000).optional(),
    /** Grace period of a session after SIGTERM; must be shorter than the host's own before it kills the runner. */
    PLATFORM_RUNNER_NOTICE_SECONDS: z.coerce.number().min(0).max(3600).default(0),
    /** Lambda MicroVM only: port of its lifecycle hooks, one of which starts the runner. */
    PLATFORM_RUNNER_HOOKS_PORT: z.coerce.number().int().min(0).max(65535).optional(),
    /**
     * `auto`: if namespaces are unavailable, the container around the runner is the sandbox, and the runner must be
     * process 1. `vm`: the same, but the runner need not be process 1, because the VM is terminated from outside.
     * `function`: the environment of a Lambda function is the sandbox. Only the images set these.
     */
    PLATFORM_RUNNER_ISOLATION: z.enum(['namespaces', 'auto', 'vm', 'function']).default('namespaces'),
    /** Path of Node for jobs. The loader that starts the runner hides the path of the runner's own Node. */
    PLATFORM_RUNNER_NODE: z.string().default(process.execPath),
    /** Id of the service of this instance. @default - none, the runner serves a session */
    PLATFORM_RUNNER_SERVICE: z.string().optional(),
    /** Token of the service's revision. */
    PLATFORM_RUNNER_SERVICE_TOKEN: z.string().optional(),
    /** Address of the platform's API for the instance, without a trailing slash. */
    PLATFORM_RUNNER_API_URL: z.url().optional(),
    /** Set by ECS in its tasks. */
    ECS_CONTAINER_METADATA_URI_V4: z.url().optional(),
    /** Set by Lambda in its functions: host and port. */
    AWS_LAMBDA_RUNTIME_API: z.string().optional(),
  })
  // biome-ignore lint/style/noProcessEnv: the one place that reads the environment of a runner.
  .parse(process.env);

const {
  PLATFORM_RUNNER_HOOKS_PORT: hooksPort,
  PLATFORM_RUNNER_ISOLATION: isolation,
  PLATFORM_RUNNER_NODE: node,
  PLATFORM_RUNNER_LISTEN: listen,
  PLATFORM_RUNNER_LEASE_SECONDS: leaseSeconds,
  PLATFORM_RUNNER_NOTICE_SECONDS: noticeSeconds,
  PLATFORM_RUNNER_SERVICE: serviceId,
  PLATFORM_RUNNER_SERVICE_TOKEN: token,
  PLATFORM_RUNNER_API_URL: apiUrl,
  ECS_CONTAINER_METADATA_URI_V4: metadataUrl,
  AWS_LAMBDA_RUNTIME_API: runtimeApi,
} = settings;

// The tokens of services are for this process alone.
// biome-ignore lint/style/noProcessEnv: programs that it starts would get what is left here.
delete process.env.PLATFORM_RUNNER_SERVICE_TOKEN;

const lines = serviceId === undefined ? undefined : new LogLines(1);
const say = (message: string, more: object = {}) =>
  lines ? lines.say(message, 'INFO', more) : console.log(JSON.stringify({ message, ...more }));

if (hooksPort !== undefined) {
  // biome-ignore lint/style/noProcessEnv: the runner gets all variables but the one that makes it a listener.
  const { PLATFORM_RUNNER_HOOKS_PORT: _, ...env } = process.env;
  if (isolation === 'auto') env.PLATFORM_RUNNER_ISOLATION = 'vm';
  // In the image, execPath is the dynamic loader, which runs Node.
  const args = node === process.execPath ? [process.argv[1]!] : [node, process.argv[1]!];
  process.exit(await serveHooks(hooksPort, { command: process.execPath, args, env }, say));
}

const stopped = new Promise<string>((resolve) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal));
});
const folder = await makeScratchFolder();
// Sandboxes run under other uids and cannot enter this folder, only one inside it.
const cacheFolder = join(folder, 'cache');
const isFunction = isolation === 'function';
// A function's image has its runtimes in place, and looking for them would take most of a cold start.
const runtime: HostRuntime = isFunction
  ? { interpreters: {}, perl: '/usr/bin/perl', root: [] }
  : await findHostRuntime(join(cacheFolder, 'runtime'), node);
const blobs = new LinkedBlobs();
const namespaces = isFunction
  ? ['a Lambda function may create none']
  : await createNamespaceSandbox({
      cacheFolder,
      cache: await ContentCache.open(cacheFolder, blobs),
      runtime,
      prestart: 0,
      log: say,
    });
if (Array.isArray(namespaces) && isolation === 'namespaces') {
  throw new Error(`no sandbox works here: ${namespaces.join('; ')}`);
}
const lost = Promise.withResolvers<string>();
const sandbox = Array.isArray(namespaces)
  ? new ContainerSandbox({
      inside: isFunction ? 'function' : isolation === 'vm' ? 'vm' : 'container',
      blobs,
      perl: runtime.perl!,
      scratchFolder: folder,
      onLost: () => lost.resolve('the sandbox ended'),
      log: say,
    })
  : namespaces;

function openFresh(spec: SandboxSpec, network: Network): Promise<ProcessSession> {
  return sandbox instanceof ContainerSandbox ? sandbox.open(spec, network) : sandbox.openFresh(spec, network);
}

if (lines && serviceId !== undefined) await runService({ lines, serviceId }).catch(failed);
else await serveSession();
if (!Array.isArray(namespaces)) await namespaces.close();
await rm(folder, { recursive: true, force: true });
process.exit(0);

async function runService(given: { readonly lines: LogLines; readonly serviceId: string }): Promise<void> {
  if (token === undefined || apiUrl === undefined) {
    throw new Error(
      'PLATFORM_RUNNER_SERVICE needs PLATFORM_RUNNER_SERVICE_TOKEN and PLATFORM_RUNNER_API_URL beside it',
    );
  }
  await runTask(
    { serviceId: given.serviceId, token, apiUrl: apiUrl.replace(/\/$/, ''), listen, metadataUrl },
    { blobs, lines: given.lines, stopped, open: openFresh },
  );
}

/** Sandboxes with their own namespaces leave nothing behind. */
async function renewal(): Promise<(() => Promise<void>) | undefined> {
  if (!(sandbox instanceof ContainerSandbox)) return async () => {};
  try {
    await sandbox.prepareReuse();
    return () => sandbox.renew();
  } catch (error) {
    say('serves one session', { reason: (error as Error).message });
    return undefined;
  }
}

async function serveSession(): Promise<void> {
  const server = new RunnerServer({
    health: {
      interpreters: runtime.interpreters,
      isolation: Array.isArray(namespaces) ? 'container' : namespaces.kind,
    },
    openSession({ bundle, layer, gateway, registries, layerSha256, env, egress, egressTargets, purpose, limits }) {
      blobs.links = [bundle, layer].filter((link) => link !== undefined);
      const spec = { layerSha256, env, egress, egressTargets, purpose, limits };
      return openFresh({ ...spec, bundle: bundle?.key, layer: layer?.key }, { gateway, registries });
    },
    listen,
    leaseMs: leaseSeconds && leaseSeconds * 1000,
    renew: await renewal(),
    // Lambda freezes a function between its events, and ends it when it likes.
    ...(isFunction && { warmMs: () => MAX_TIMER_MS }),
  });
  const port = await server.start();
  say('listening', { port });
  void stopped.then((signal) => server.endSoon(signal === 'SIGTERM' ? noticeSeconds * 1000 : 0, signal));
  const invocations = runtimeApi && serveInvocations(runtimeApi, `http://127.0.0.1:${port}`);
  if (invocations) void invocations.catch((error) => server.end(String(error)));
  say('ending', { reason: await Promise.race([server.ended, lost.promise]) });
  await server.close();
  // The last event still gets its answer.
  await Promise.race([invocations, stopped]).catch(() => {});
}

/** Error text for the service's log, which its users can read. */
async function failed(error: Error): Promise<never> {
  lines?.say(`The instance ends: ${error.message}`, 'ERROR');
  await lines?.end();
  process.exit(1);
}
