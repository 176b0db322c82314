/**
 * `npm run docs:site`: builds the documentation site into `dist/docs-site`. Its packages have a lockfile of their own
 * in `docs/site`, because only the site needs them.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, globSync, renameSync, rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { DOCS_SITE } from '#local/http/docs.ts';
import { installPackages } from './install-packages.ts';
import { keptBuild } from './kept-build.ts';

const ROOT = join(import.meta.dirname, '..');
const SITE = join(ROOT, 'docs/site');
const SOURCES = [
  'docs/**/*.{md,json,webp}',
  'docs/site/*.{ts,json}',
  'docs/site/{src,public}/**/*',
  'local/docs/*.ts',
  'README.md',
];
const NO_SOURCES = ['docs/site/{.astro,node_modules}/**'];

/** Builds the site unless it is newer than its sources, and returns its folder. Throws if a step fails. */
export async function buildDocsSite(): Promise<string> {
  const sources = globSync(SOURCES, { cwd: ROOT, exclude: NO_SOURCES, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
  if (!isStale(sources)) return DOCS_SITE;
  const kept = await keptBuild('docs-site', sources, build);
  // A copy that was interrupted must not pass for the site.
  const copy = `${DOCS_SITE}-${process.pid}`;
  cpSync(kept, copy, { recursive: true });
  rmSync(DOCS_SITE, { recursive: true, force: true });
  renameSync(copy, DOCS_SITE);
  return DOCS_SITE;
}

function isStale(sources: readonly string[]): boolean {
  const index = join(DOCS_SITE, 'index.html');
  if (!existsSync(index)) return true;
  const builtAt = statSync(index).mtimeMs;
  return sources.some((file) => statSync(join(ROOT, file)).mtimeMs > builtAt);
}

function build(into: string): void {
  installPackages(SITE);
  // With Vitest's variables the build would have no search, and wrong addresses of pages.
  const own = Object.entries(process.env).filter(
    ([name]) => !['BASE_URL', 'DEV', 'MODE', 'PROD', 'SSR'].includes(name),
  );
  const env = { ...Object.fromEntries(own), NODE_ENV: 'production', ASTRO_TELEMETRY_DISABLED: '1' };
  const astro = [join(SITE, 'node_modules/astro/bin/astro.mjs'), 'build', '--silent', '--outDir', into];
  execFileSync(process.execPath, astro, { cwd: SITE, env, stdio: ['ignore', 2, 2] });
}

if (import.meta.main) console.log(`The site is in ${await buildDocsSite()}.`);
