import { join } from 'node:path';
import { build } from 'esbuild';
import { readPackedFiles } from '#cli/packed-files.ts';

const ROOT = join(import.meta.dirname, '..');

/**
 * Writes the command line for its package: `npm pack --workspace cli/package`. What only some commands need lies in files beside
 * `platform.mjs` in the folder: Node reads it when such a command runs.
 */
export async function buildCli(folder = join(ROOT, 'cli/package/dist')): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: [join(ROOT, 'cli/main.ts')],
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    entryNames: 'platform',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    define: { PACKED_FILES: JSON.stringify(readPackedFiles()) },
    minify: true,
    // Errors are known by their names.
    keepNames: true,
    // Packages in CommonJS call it.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    legalComments: 'none',
    logLevel: 'warning',
  });
}

if (import.meta.main) await buildCli();
