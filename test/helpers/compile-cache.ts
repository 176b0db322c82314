import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { asScripts } from '../../scripts/as-scripts.ts';

/** Usage of a layer's compile cache by one process. */
export interface FoundInCache {
  /** Number of files that V8 took from the cache; `files` counts all loaded files of the bundle. */
  readonly hits: number;
  readonly files: number;
  /** Number of files whose cache V8 refused. */
  readonly rejected: number;
  /** Whether Node had a compile cache at all. */
  readonly isOn: boolean;
}

const LOAD = `
globalThis.awslambda = { streamifyResponse: (handler) => handler, HttpResponseStream: {} };
const [task, file] = process.argv.slice(1);
const { Script } = process.getBuiltinModule('vm');
const found = [];
const run = Script.prototype.runInThisContext;
Script.prototype.runInThisContext = function (...args) {
  found.push(this.cachedDataRejected);
  return run.apply(this, args);
};
const { load } = await import(task + '/loader.mjs');
load(file);
console.log(JSON.stringify({
  hits: found.filter((isRejected) => isRejected === false).length,
  files: found.length,
  rejected: found.filter((isRejected) => isRejected).length,
  isOn: process.getBuiltinModule('module').getCompileCacheDir() !== undefined,
}));
process.exit();
`;

/** Writes these ES modules, with names that end in `.cjs`, as the bundle of a function. */
export async function writeBundle(folder: string, modules: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(modules)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  await asScripts(folder);
}

/** Unpacks bundle and layer below a new folder as Lambda does: `var/task` and `opt`. */
export function unpackAsLambda(bundle: string, layer: ReadonlyMap<string, Uint8Array>): string {
  const root = mkdtempSync(join(tmpdir(), 'platform-lambda-'));
  cpSync(bundle, join(root, 'var/task'), { recursive: true });
  for (const [path, bytes] of layer) {
    const file = join(root, 'opt', path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, bytes);
  }
  return root;
}

/**
 * Unpacks bundle and layer as Lambda does, and loads a file of the bundle in a process whose cache is in `folder`.
 */
export async function loadWithCache(
  bundle: string,
  layer: ReadonlyMap<string, Uint8Array>,
  { folder = '/opt/compile-cache', file = 'index.cjs' } = {},
): Promise<FoundInCache> {
  const root = unpackAsLambda(bundle, layer);
  try {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [...process.execArgv, '--input-type=module', '--eval', LOAD, '--', join(root, 'var/task'), file],
      {
        env: {
          AWS_REGION: 'us-east-1',
          NODE_COMPILE_CACHE: join(root, folder),
          NODE_COMPILE_CACHE_PORTABLE: '1',
        },
      },
    );
    return JSON.parse(stdout);
  } finally {
    rmSync(root, { recursive: true });
  }
}
