import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { makeCompileCache } from '#aws/compile-cache.ts';
import { unpackAsLambda } from '#test/helpers/compile-cache.ts';
import { BUNDLES, buildFunctions, loadedAtStart } from '../scripts/build-functions.ts';
import { ms, type Row } from './harness.ts';
import { median } from './statistics.ts';

export interface LambdaEntry {
  readonly name: string;
  /** Minified size of `index.cjs` and its static imports. */
  readonly bytes: number;
  /** Duration of the import in a fresh process with its compile cache as on AWS: the code's share of a cold start. */
  readonly importMs: number;
  /** Duration of the import without a cache. */
  readonly bareMs: number;
}

const ROUNDS = 5;
const CACHE = '/opt/compile-cache';
/**
 * Imports as Lambda's runtime does. The process measures itself, because Node's own start is the same for every
 * function.
 */
const IMPORT = `
globalThis.awslambda = { streamifyResponse: (handler) => handler, HttpResponseStream: {} };
const started = performance.now();
await import(process.argv[1]);
console.log(performance.now() - started);
process.exit();
`;

/**
 * Builds the bundles and imports each in fresh processes, with and without its compile cache, alternating with an empty
 * handler.
 */
export async function measureLambdaEntries(): Promise<{ empty: LambdaEntry; entries: LambdaEntry[] }> {
  const metafile = await buildFunctions();
  const folder = mkdtempSync(join(tmpdir(), 'platform-entries-'));
  writeFileSync(join(folder, 'index.mjs'), 'export const handler = async () => ({ statusCode: 200 });\n');
  const names = readdirSync(BUNDLES, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const bundles = [
    { name: 'empty', bundle: folder },
    ...names.map(({ name }) => ({ name, bundle: join(BUNDLES, name) })),
  ];
  const measured: { name: string; bundle: string; root: string; cached: number[]; bare: number[] }[] = [];
  for (const each of bundles) {
    const layer = each.bundle === folder ? new Map() : await makeCompileCache(each.bundle, CACHE, LOG, ENVIRONMENT);
    const root = unpackAsLambda(each.bundle, layer);
    measured.push({ ...each, root, cached: [], bare: [] });
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { root, cached, bare } of measured) {
      const file = join(root, 'var/task/index.mjs');
      bare.push(await timeImport(file));
      cached.push(await timeImport(file, { NODE_COMPILE_CACHE: join(root, CACHE), NODE_COMPILE_CACHE_PORTABLE: '1' }));
    }
  }
  const [empty, ...entries] = measured.map(({ name, bundle, cached, bare }) => {
    const bytes =
      bundle === folder
        ? statSync(join(bundle, 'index.mjs')).size
        : loadedAtStart(metafile, join(bundle, 'index.cjs')).bytes;
    return { name, bytes, importMs: median(cached), bareMs: median(bare) };
  });
  for (const path of [folder, ...measured.map(({ root }) => root)]) rmSync(path, { recursive: true });
  return { empty: empty!, entries };
}

const tell = (message: string, fields?: object) => console.error(message, fields);
const LOG = { debug: () => {}, info: () => {}, warn: tell, error: tell };

/** Settings that an entry requires on import. None of their addresses is contacted. */
const ENVIRONMENT = {
  AWS_REGION: 'us-east-1',
  PLATFORM_GATEWAY_TOKEN: 'made-up',
  PLATFORM_MAX_DIRECT_BODY_MB: '6',
  AWS_LAMBDA_HTTP_ENDPOINT: '127.0.0.1:0',
  PLATFORM_SERVICES: JSON.stringify({
    ...{ kind: 'ecs-gateway', gateway: 'gateway', cluster: 'cluster', subnets: ['subnet'], public_ip: false },
    ...{ security_group: 'group', image: 'image', execution_role: 'role', family_prefix: 'bench-' },
    ...{ log_group_prefix: '/bench/', log_retention_days: 1, stage: 'bench', cpu: 256, memory_mb: 512 },
    api_url: 'https://api.example.com',
  }),
};

async function timeImport(file: string, cache: Readonly<Record<string, string>> = {}): Promise<number> {
  const args = ['--input-type=module', '--eval', IMPORT, '--', pathToFileURL(file).href];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    env: { ...ENVIRONMENT, ...cache },
  });
  return Number(stdout);
}

export async function benchLambda(): Promise<Row[]> {
  const { empty, entries } = await measureLambdaEntries();
  const smallest = entries.reduce((a, b) => (a.bytes < b.bytes ? a : b));
  const kilobytes = smallest.bytes / 1024;
  return [
    {
      what: 'smallest Lambda entry, minified',
      ours: `${smallest.name}: ${kilobytes.toFixed(0)} KB`,
      beside: '-',
      result: `${kilobytes.toFixed(0)} KB`,
      bound: 'under 400 KB',
      isMet: kilobytes < 400,
    },
    ...entries.map((entry) => ({
      what: `import of the Lambda entry ${entry.name} (${(entry.bytes / 1024).toFixed(0)} KB)`,
      ours: `${ms(entry.importMs)}, without a compile cache ${ms(entry.bareMs)}`,
      beside: `an empty handler: ${ms(empty.importMs)}`,
      result: `${(entry.importMs - empty.importMs).toFixed(0)} ms more`,
      bound: 'at most three times an empty one and 60 ms',
      isMet: entry.importMs <= 3 * empty.importMs + 60,
    })),
  ];
}

if (import.meta.main) {
  const { empty, entries } = await measureLambdaEntries();
  for (const { name, bytes, importMs, bareMs } of [empty, ...entries]) {
    process.stdout.write(
      `${name.padEnd(12)} ${String(Math.ceil(bytes / 1024)).padStart(5)} KB ${importMs.toFixed(1).padStart(8)} ms, without a cache ${bareMs.toFixed(1)} ms\n`,
    );
  }
}
