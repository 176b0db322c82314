import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

/** Usage of a layer's compile cache by one process. */
export interface FoundInCache {
  /** Number of modules that V8 took from the cache; `modules` counts all loaded modules of the bundle. */
  readonly hits: number;
  readonly modules: number;
  /** Whether Node had a compile cache at all. */
  readonly isOn: boolean;
}

const IMPORT = `
globalThis.awslambda = { streamifyResponse: (handler) => handler, HttpResponseStream: {} };
await import(process.argv[1]);
console.log(process.getBuiltinModule('module').getCompileCacheDir() !== undefined);
process.exit();
`;

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
 * Unpacks bundle and layer as Lambda does, and imports a file of the bundle in a process whose cache is in `folder`.
 */
export async function importWithCache(
  bundle: string,
  layer: ReadonlyMap<string, Uint8Array>,
  { folder = '/opt/compile-cache', file = 'index.mjs' } = {},
): Promise<FoundInCache> {
  const root = unpackAsLambda(bundle, layer);
  try {
    const task = join(root, 'var/task');
    const args = [...process.execArgv, '--input-type=module', '--eval', IMPORT, '--'];
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [...args, pathToFileURL(join(task, file)).href],
      {
        maxBuffer: 64 * 1024 * 1024,
        env: {
          AWS_REGION: 'us-east-1',
          NODE_COMPILE_CACHE: join(root, folder),
          NODE_COMPILE_CACHE_PORTABLE: '1',
          NODE_DEBUG_NATIVE: 'COMPILE_CACHE',
        },
      },
    );
    const ofBundle = stderr.split('\n').filter((line) => line.includes(`V8 code cache for ESM file://${task}/`));
    return {
      hits: ofBundle.filter((line) => line.includes(' was accepted,')).length,
      modules: ofBundle.length,
      isOn: stdout.trim() === 'true',
    };
  } finally {
    rmSync(root, { recursive: true });
  }
}
