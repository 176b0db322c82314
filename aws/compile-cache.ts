import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { DeleteLayerVersionCommand, type LambdaClient, PublishLayerVersionCommand } from '@aws-sdk/client-lambda';
import { zipSync } from 'fflate';
import * as z from 'zod';
import type { Clock } from '#core/ports/clock.ts';
import type { Log } from '#core/ports/deps.ts';
import { isNamed } from './named-error.ts';

/** Properties of the custom resource. */
const orderSchema = z.object({
  /** Subfolder of the function's bundle. */
  Bundle: z.string(),
  LayerName: z.string(),
  /** Path of the function's cache: a folder below `/opt`, where Lambda unpacks layers. */
  Folder: z.string(),
});
type CompileCacheOrder = z.output<typeof orderSchema>;

/** Folder where Lambda unpacks a function's code: docs.aws.amazon.com/lambda/latest/dg/configuration-layers.html. */
const TASK = '/var/task';
const LAYERS = '/opt';
/** More than the import of all files of any function takes on a small machine. */
const IMPORT_LIMIT_MS = 60_000;
/** IAM needs seconds until a new role has its permissions everywhere, and all functions ask for their layer at once. */
const PUBLISH_LIMIT_MS = 60_000;
const MAX_PAUSE_MS = 8000;
const PASSING = ['AccessDeniedException', 'ServiceException', 'ThrottlingException', 'TooManyRequestsException'];
/** File attributes of a world-readable file in a zip archive. */
const READABLE = { os: 3, attrs: 0o100644 << 16 };

/** A request that is answered once AWS cannot be reached takes milliseconds. */
const REQUEST_LIMIT_MS = 5000;
/** No credentials, and an address that refuses connections: the request that is tried reaches nothing. */
const UNREACHABLE = {
  AWS_ACCESS_KEY_ID: 'none',
  AWS_SECRET_ACCESS_KEY: 'none',
  AWS_SESSION_TOKEN: '',
  AWS_ENDPOINT_URL: 'http://127.0.0.1:1',
  AWS_MAX_ATTEMPTS: '1',
};

/**
 * Starts a bundle as Lambda's runtime would, loads its other files, handles the bundle's request if it has one
 * (`scripts/first-request.ts`), and writes the cache, which then has the functions that were called. A file loaded on its
 * own may throw, such as a worker thread's; by then it has been compiled.
 */
const IMPORT = `
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { enableCompileCache, flushCompileCache } from 'node:module';
import { dirname } from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
const [directory, task, ...names] = process.argv.slice(1);
Object.assign(process.env, ${JSON.stringify(UNREACHABLE)});
process.on('unhandledRejection', () => {});
enableCompileCache({ directory, portable: true });
globalThis.awslambda = {
  streamifyResponse: (handler) => (event, context) => handler(event, new PassThrough().resume(), context),
  HttpResponseStream: { from: (stream) => stream },
};
const { load, scripts, cacheFileOf } = await import(task + '/loader.mjs');
const { handler } = await import(task + '/index.mjs').catch(() => ({}));
for (const name of names) {
  try {
    load(name);
  } catch {}
}
const request = task + '/first-request.json';
if (handler && existsSync(request)) {
  const event = JSON.parse(readFileSync(request, 'utf8'));
  const context = { getRemainingTimeInMillis: () => ${REQUEST_LIMIT_MS} };
  const answer = (async () => handler(event, context))();
  await Promise.race([answer, setTimeout(${REQUEST_LIMIT_MS})]).catch(() => {});
}
for (const [name, script] of scripts) {
  const file = cacheFileOf(name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, script.createCachedData());
}
flushCompileCache();
process.exit();
`;

/**
 * Returns V8's compile cache of a bundle as the files of a layer by path. A process of the same Node binary with the
 * same flags makes it. Node's folder is named after its version, architecture, V8 flags and user; it keeps its own entries
 * of `index.mjs` and the loader by the relative path from the cache to the file: so both are laid out below a temporary
 * folder as they will be in the function. The loader keeps those of all other files (`functions/loader.ts`).
 *
 * `nodejs.org/api/module.html#module-compile-cache`
 *
 * @param bundle Folder made by `scripts/as-scripts.ts`.
 * @param env Environment of that process. @default this one's
 */
export async function makeCompileCache(
  bundle: string,
  folder: string,
  log: Log,
  env?: NodeJS.ProcessEnv,
): Promise<Map<string, Uint8Array>> {
  const root = await mkdtemp(join(tmpdir(), 'compile-cache-'));
  try {
    const task = join(root, TASK);
    await cp(bundle, task, { recursive: true });
    const names = (await readdir(task, { recursive: true })).filter((name) => name.endsWith('.cjs'));
    await promisify(execFile)(
      process.execPath,
      [...process.execArgv, '--input-type=module', '--eval', IMPORT, '--', join(root, folder), task, ...names.sort()],
      { timeout: IMPORT_LIMIT_MS, env },
    ).catch((error) => log.warn('not all files of a bundle were compiled', { bundle, error: String(error) }));
    const layer = join(root, LAYERS);
    // A layer must not be empty, and this file explains the others.
    const files = new Map<string, Uint8Array>([
      [join(relative(LAYERS, folder), 'node.txt'), Buffer.from(`${process.version} ${process.arch}\n`)],
    ]);
    for (const entry of await readdir(layer, { recursive: true, withFileTypes: true }).catch(() => [])) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) files.set(relative(layer, path), await readFile(path));
    }
    return files;
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

export interface CompileCacheHost {
  /** Folder with the bundles of all functions. */
  readonly bundles: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly client: LambdaClient;
  /** ARN of a layer without a cache. */
  readonly emptyLayer: string;
}

/**
 * Publishes the compile cache of a function as a layer version. Returns its ARN, or the ARN of the empty layer if that
 * fails: a cache saves time, so a deployment must not fail without it.
 */
export async function compileCacheLayer(properties: unknown, host: CompileCacheHost): Promise<string> {
  try {
    return await publishCompileCache(orderSchema.parse(properties), host);
  } catch (error) {
    host.log.warn('a function starts without a compile cache', { properties, error: String(error) });
    return host.emptyLayer;
  }
}

async function publishCompileCache(
  { Bundle: bundle, LayerName, Folder: folder }: CompileCacheOrder,
  host: CompileCacheHost,
): Promise<string> {
  const files = await makeCompileCache(join(host.bundles, bundle), folder, host.log);
  host.log.info('compile cache made', { bundle, files: files.size - 1 });
  const order = new PublishLayerVersionCommand({
    LayerName,
    Description: `V8's compile cache of ${LayerName}, by Node ${process.version}`,
    CompatibleArchitectures: [process.arch === 'arm64' ? 'arm64' : 'x86_64'],
    Content: { ZipFile: zipSync(Object.fromEntries([...files].map(([path, bytes]) => [path, [bytes, READABLE]]))) },
  });
  const deadline = host.clock.now() + PUBLISH_LIMIT_MS;
  for (let pause = 1000; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
    try {
      const { LayerVersionArn } = await host.client.send(order);
      return LayerVersionArn!;
    } catch (error) {
      if (!isNamed(error, ...PASSING) || host.clock.now() + pause > deadline) throw error;
      await host.clock.sleep(pause);
    }
  }
}

/**
 * Function versions that use the layer are not affected: Lambda keeps a copy for them. A layer that cannot be deleted
 * stays, at no cost.
 */
export async function removeCompileCache(
  arn: string,
  { client, log, emptyLayer }: Pick<CompileCacheHost, 'client' | 'log' | 'emptyLayer'>,
): Promise<void> {
  const [, LayerName, version] = /^(arn:.+:layer:[^:]+):(\d+)$/.exec(arn) ?? [];
  // A failed creation has no ARN.
  if (LayerName === undefined || arn === emptyLayer) return;
  await client
    .send(new DeleteLayerVersionCommand({ LayerName, VersionNumber: Number(version) }))
    .catch((error: unknown) => log.warn('a layer was left behind', { arn, error: String(error) }));
}
