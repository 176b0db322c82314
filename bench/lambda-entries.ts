import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { BUNDLES, buildFunctions, loadedAtStart } from '../scripts/build-functions.ts';
import { ms, type Row } from './harness.ts';
import { median } from './statistics.ts';

export interface LambdaEntry {
  readonly name: string;
  /** Minified size of `index.mjs` and its static imports. */
  readonly bytes: number;
  /** Duration of the import in a fresh process: the code's part of a cold start. */
  readonly importMs: number;
}

const ROUNDS = 9;
/** Imports as Lambda's runtime does. Timed inside the process: Node's own start is the same for every function. */
const IMPORT = `
globalThis.awslambda = { streamifyResponse: (handler) => handler, HttpResponseStream: {} };
const started = performance.now();
await import(process.argv[1]);
console.log(performance.now() - started);
process.exit();
`;

/** Builds the bundles and imports each in fresh processes, in turn with a handler that does nothing. */
export async function measureLambdaEntries(): Promise<{ empty: LambdaEntry; entries: LambdaEntry[] }> {
  const metafile = await buildFunctions();
  const folder = mkdtempSync(join(tmpdir(), 'platform-entries-'));
  const emptyFile = join(folder, 'index.mjs');
  writeFileSync(emptyFile, 'export const handler = async () => ({ statusCode: 200 });\n');
  const names = readdirSync(BUNDLES, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const files = [
    { name: 'empty', file: emptyFile },
    ...names.map(({ name }) => ({ name, file: join(BUNDLES, name, 'index.mjs') })),
  ];
  const times = new Map<string, number[]>(files.map(({ name }) => [name, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { name, file } of files) times.get(name)!.push(await timeImport(file));
  }
  const [empty, ...entries] = files.map(({ name, file }) => ({
    name,
    bytes: file === emptyFile ? statSync(file).size : loadedAtStart(metafile, file).bytes,
    importMs: median(times.get(name)!),
  }));
  rmSync(folder, { recursive: true });
  return { empty: empty!, entries };
}

/** What an entry must find when it is imported. Nothing of it is reached. */
const ENVIRONMENT = {
  AWS_REGION: 'us-east-1',
  PLATFORM_SERVICES: JSON.stringify({
    ...{ kind: 'ecs-gateway', gateway: 'gateway', cluster: 'cluster', subnets: ['subnet'], public_ip: false },
    ...{ security_group: 'group', image: 'image', execution_role: 'role', family_prefix: 'bench-' },
    ...{ log_group_prefix: '/bench/', log_retention_days: 1, stage: 'bench', cpu: 256, memory_mb: 512 },
    api_url: 'https://api.example.com',
  }),
};

async function timeImport(file: string): Promise<number> {
  const args = ['--input-type=module', '--eval', IMPORT, '--', pathToFileURL(file).href];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: ENVIRONMENT });
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
      ours: ms(entry.importMs),
      beside: `an empty handler: ${ms(empty.importMs)}`,
      result: `${(entry.importMs - empty.importMs).toFixed(0)} ms more`,
      bound: 'at most three times an empty one and 60 ms',
      isMet: entry.importMs <= 3 * empty.importMs + 60,
    })),
  ];
}

if (import.meta.main) {
  const { empty, entries } = await measureLambdaEntries();
  for (const { name, bytes, importMs } of [empty, ...entries]) {
    process.stdout.write(
      `${name.padEnd(12)} ${String(Math.ceil(bytes / 1024)).padStart(5)} KB ${importMs.toFixed(1).padStart(8)} ms\n`,
    );
  }
}
