import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { build, type Metafile, type Plugin } from 'esbuild';
import { packedPaths } from '#cli/packed-files.ts';
import { buildDashboard } from './build-dashboard.ts';
import { buildDocsSite } from './build-docs-site.ts';

const ROOT = join(import.meta.dirname, '..');
const PACKAGE = join(ROOT, 'cli/package/dist');

/** Modules that something starts or imports by their path: the sources of each, by the name in the package. */
const ENTRIES: Readonly<Record<string, string>> = {
  cli: 'cli/main.ts',
  start: 'local/start.ts',
  'own-platform': 'local/own-platform.ts',
  'checks-thread': 'core/manifest/worker-pool/worker.ts',
  'database-thread': 'local/database/thread.ts',
};

/** Files that modules read at run time, besides those of `cli/packed-files.ts`. */
const READ = ['core/api/examples.json', 'runner/perl/**/*.pl', 'sdk/{js,python,helpers}/**', 'examples/README.md'];
const LEFT_OUT =
  /(^|\/)(__pycache__|node_modules)\/|^sdk\/\w+\/(README\.md|pyproject\.toml|tsconfig\.json)$|\.egg-info\//;

/**
 * Builds the code of the package `agent-platform` into `folder`: the command line and the platform as bundles, and the
 * files that they read, at the paths that these have in the repository. The npm packages are in the bundles, so that
 * an installation downloads nothing but Node.
 */
export async function buildPlatform(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ENTRIES,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    // Code that only some commands need goes to files that Node loads on demand.
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    plugins: [pathsInRepository],
    mainFields: ['module', 'main'],
    minify: true,
    // The code compares errors by name.
    keepNames: true,
    // CommonJS packages call `require`.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  });
  for (const path of [...filesOf(READ), ...packedPaths()]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(ROOT, path), join(folder, path));
  }
  writeFileSync(join(folder, 'third-party-licenses.txt'), licensesOf(metafile));
}

/** Builds everything for `npm pack ./cli/package`. */
async function buildPackage(): Promise<void> {
  await buildPlatform(PACKAGE);
  // Clients that accept Brotli get those files, others the plain ones; Vite's manifest is only for tests.
  const filter = (file: string): boolean => !/\.(gz|vite)$/.test(file);
  cpSync(buildDashboard(), join(PACKAGE, 'dashboard/dist'), { recursive: true, filter });
  cpSync(await buildDocsSite(), join(PACKAGE, 'dist/docs-site'), { recursive: true, filter });
}

const filesOf = (globs: readonly string[]): string[] =>
  globSync(globs, { cwd: ROOT, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .filter((path) => !LEFT_OUT.test(path))
    .sort();

/**
 * Makes modules find files as in the repository: all bundles are in the top folder of the package, whereas
 * `import.meta` of their sources was in a folder below it. Names of entries become those of their bundles.
 */
const pathsInRepository: Plugin = {
  name: 'paths-in-repository',
  setup({ onLoad }) {
    const bundles = new Map(
      Object.entries(ENTRIES).map(([name, file]) => [join(ROOT, file), join(ROOT, `${name}.mjs`)]),
    );
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const source = readFileSync(path, 'utf8');
      if (path.includes('/node_modules/') || !source.includes('import.meta.')) return undefined;
      const folder = relative(ROOT, dirname(path));
      const file = relative(ROOT, bundles.get(path) ?? path);
      const contents = source
        .replaceAll('import.meta.dirname', `(import.meta.dirname + ${JSON.stringify(`/${folder}`)})`)
        .replaceAll('import.meta.url', `new URL(${JSON.stringify(file)}, import.meta.url).href`)
        .replaceAll(/(?<!\bfrom )'([\w./-]+\.ts)'/g, (literal, named: string) => {
          const bundle = bundles.get(join(dirname(path), named));
          return bundle === undefined ? literal : `'${relative(dirname(path), bundle)}'`;
        });
      return { contents, loader: 'ts' };
    });
  },
};

/** Returns the licenses of the npm packages in the bundles, which demand to be passed on. */
function licensesOf({ inputs }: Metafile): string {
  const folders = new Set(
    Object.keys(inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []),
  );
  const texts = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'));
    const files = readdirSync(join(ROOT, folder)).filter((file) =>
      /^(licen[cs]e|notice|copying)/i.test(basename(file)),
    );
    const words = files.map((file) => readFileSync(join(ROOT, folder, file), 'utf8').trim());
    return [`${name} ${version} (${license})`, ...words].join('\n\n');
  });
  return `${texts.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`;
}

if (import.meta.main) await buildPackage();
