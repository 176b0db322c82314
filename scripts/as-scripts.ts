import { createHash } from 'node:crypto';
import { globSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, transformSync } from 'esbuild';

const LOADER = join(import.meta.dirname, '../functions/loader.ts');

/**
 * Converts a bundle of ES modules with the extension `.cjs` to files that `functions/loader.ts` runs, so that V8's cache
 * of them can be made after they have run. The loader, as `loader.mjs`, and an `index.mjs` that loads `index.cjs` are
 * written beside them, and an `index.mjs` for each folder that starts threads. Returns the sizes of the files in bytes.
 */
export async function asScripts(at: string): Promise<ReadonlyMap<string, number>> {
  // esbuild would write beside a folder behind a link.
  const folder = realpathSync(at);
  const names = globSync('**/*.cjs', { cwd: folder }).sort();
  const hash = createHash('sha256');
  const isStart = (name: string) =>
    name === 'index.cjs' ||
    (name.endsWith('/index.cjs') && readFileSync(join(folder, name), 'utf8').includes('import.meta.url'));
  const starts = names.filter(isStart);
  await build({
    absWorkingDir: folder,
    entryPoints: names,
    outdir: folder,
    outbase: folder,
    allowOverwrite: true,
    outExtension: { '.js': '.cjs' },
    format: 'cjs',
    // Of `node`, files would end with a list of their exports, which only Node's own loader reads.
    platform: 'neutral',
    target: 'node24',
    // Files find one another by `require` of the loader.
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': 'moduleUrl', 'import.meta.dirname': '__dirname' },
    minify: true,
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    logLevel: 'warning',
    logOverride: { 'empty-import-meta': 'error' },
  });
  const sizes = new Map<string, number>();
  for (const name of names) {
    const text = readFileSync(join(folder, name));
    hash.update(`\0${name}\0`).update(text);
    sizes.set(name, text.byteLength);
  }
  const { code } = transformSync(readFileSync(LOADER, 'utf8'), {
    loader: 'ts',
    format: 'esm',
    target: 'node24',
    minify: true,
    define: { BUNDLE_HASH: JSON.stringify(hash.digest('hex').slice(0, 16)) },
  });
  writeFileSync(join(folder, 'loader.mjs'), code);
  for (const name of starts) {
    const loader = `${'../'.repeat(name.split('/').length - 1)}loader.mjs`;
    writeFileSync(
      join(folder, name.replace(/cjs$/, 'mjs')),
      `import { load } from './${loader}';\nexport const { handler } = load('${name}');\n`,
    );
  }
  return sizes;
}
