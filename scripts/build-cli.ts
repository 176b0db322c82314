import { join } from 'node:path';
import { build } from 'esbuild';
import { readPackedFiles } from '#cli/packed-files.ts';

const ROOT = join(import.meta.dirname, '..');

/** Writes the command line as one file, for its package: `npm pack --workspace cli/package`. */
export async function buildCli(outfile = join(ROOT, 'cli/package/dist/platform.js')): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: [join(ROOT, 'cli/main.ts')],
    outfile,
    bundle: true,
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
