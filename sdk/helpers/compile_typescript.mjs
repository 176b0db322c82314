/**
 * Compiles the TypeScript that a program is started with, and what it imports, file by file: each result replaces its
 * source at the same path, so that paths at run time stay the same. Imports are rewritten to the files that TypeScript
 * finds for them.
 *
 * Usage: compile_typescript.mjs FOLDER_WITH_ESBUILD SOURCES RESULT ENTRY...
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';

const [tools, sources, result, ...entries] = process.argv.slice(2);
const { build } = createRequire(join(resolve(tools), 'x.js'))('esbuild');
const root = resolve(sources);

const textOf = (name) => (existsSync(join(root, name)) ? readFileSync(join(root, name), 'utf8') : '');
const isModule = /"type"\s*:\s*"module"/.test(textOf('package.json'));
/** Whether TypeScript itself would write CommonJS: for these settings, without "type": "module". */
const isCommonJs = !isModule && /"module"\s*:\s*"(commonjs|node(16|18|20|next))"/i.test(textOf('tsconfig.json'));
const formatOf = (path) => {
  if (/\.c[tj]s$/.test(path)) return 'cjs';
  if (/\.m[tj]s$/.test(path)) return 'esm';
  return isCommonJs ? 'cjs' : 'esm';
};
/** Node runs no file whose name ends in x. */
const writtenAs = (path) => (/\.[tj]sx$/.test(path) ? `${path}.js` : path);
const isSource = (path) => /\.[cm]?tsx?$|\.jsx$/.test(path) && !path.includes('/node_modules/');

const found = new Set(entries.map((entry) => resolve(root, entry)));

/** Leaves every import in place, with the path of the file that it means. */
const imports = (file) => ({
  name: 'imports',
  setup({ onResolve, resolve: find }) {
    onResolve({ filter: /.*/ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
      if (kind === 'entry-point' || pluginData === 'asked') return undefined;
      const asked = await find(path, { kind, importer, resolveDir, pluginData: 'asked' });
      const target = asked.path;
      const isInside =
        asked.errors.length === 0 &&
        isAbsolute(target) &&
        !relative(root, target).startsWith('..') &&
        !target.includes('/node_modules/');
      if (!isInside) return { path, external: true };
      if (isSource(target)) found.add(target);
      const to = relative(dirname(file), writtenAs(target));
      return { path: to.startsWith('.') ? to : `./${to}`, external: true };
    });
  },
});

let count = 0;
// Files that are found during the iteration are visited, too.
for (const file of found) {
  const { outputFiles } = await build({
    entryPoints: [file],
    absWorkingDir: root,
    bundle: true,
    write: false,
    outfile: join(root, 'out.js'),
    platform: 'node',
    target: 'node20',
    format: formatOf(file),
    jsx: 'automatic',
    sourcemap: 'inline',
    sourcesContent: false,
    keepNames: true,
    logLevel: 'error',
    plugins: [imports(file)],
  });
  const path = join(resolve(result), relative(root, writtenAs(file)));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, outputFiles[0].contents);
  count++;
}
console.log(`${count} files of TypeScript were compiled, because Node cannot run them as they are.`);
