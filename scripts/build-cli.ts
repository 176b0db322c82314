import { join } from 'node:path';
import { build } from 'esbuild';
import { readPackedFiles } from '#cli/packed-files.ts';

const ROOT = join(import.meta.dirname, '..');

/**
 * Builds the CLI for its package: `npm pack --workspace cli/package`. Code that only some commands need goes to files
 * beside `platform.mjs`, which Node loads on demand.
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
    // The code compares errors by name.
    keepNames: true,
    // CommonJS packages call `require`.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    legalComments: 'none',
    logLevel: 'warning',
  });
}

if (import.meta.main) await buildCli();
