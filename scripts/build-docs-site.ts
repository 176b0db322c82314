/**
 * `npm run docs:site`: builds the documentation site into `dist/docs-site`. Its packages have a lockfile of their own
 * in `docs/site`, because only the site needs them.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DOCS_SITE } from '#local/http/docs.ts';
import { installPackages } from './install-packages.ts';

const SITE = join(import.meta.dirname, '../docs/site');
const SOURCES = [
  'docs/**/*.{md,json,webp}',
  'docs/site/*.{ts,json}',
  'docs/site/{src,public}/**/*',
  'local/docs/*.ts',
  'README.md',
];

/** Builds the site unless it is newer than its sources, and returns its folder. Throws if a step fails. */
export function buildDocsSite(): string {
  if (!isStale()) return DOCS_SITE;
  installPackages(SITE);
  rmSync(DOCS_SITE, { recursive: true, force: true });
  // With Vitest's variables the build would have no search, and wrong addresses of pages.
  const own = Object.entries(process.env).filter(
    ([name]) => !['BASE_URL', 'DEV', 'MODE', 'PROD', 'SSR'].includes(name),
  );
  const env = { ...Object.fromEntries(own), NODE_ENV: 'production', ASTRO_TELEMETRY_DISABLED: '1' };
  const build = [join(SITE, 'node_modules/astro/bin/astro.mjs'), 'build', '--silent'];
  execFileSync(process.execPath, build, { cwd: SITE, env, stdio: ['ignore', 2, 2] });
  return DOCS_SITE;
}

function isStale(): boolean {
  const index = join(DOCS_SITE, 'index.html');
  // Written last: a build that was interrupted has none.
  if (!existsSync(`${index}.br`)) return true;
  const builtAt = statSync(`${index}.br`).mtimeMs;
  const root = join(SITE, '../..');
  return globSync(SOURCES, { cwd: root, exclude: ['docs/site/node_modules/**'] }).some(
    (file) => statSync(join(root, file)).mtimeMs > builtAt,
  );
}

if (import.meta.main) console.log(`The site is in ${buildDocsSite()}.`);
