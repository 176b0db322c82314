/**
 * `npm run docs:site`: builds the documentation site into `dist/docs-site`. Its packages have a lockfile of their own
 * in `docs/site`, because only the site needs them.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DOCS_SITE } from '#local/http/docs.ts';

const SITE = join(import.meta.dirname, '../docs/site');
const SOURCES = [
  'docs/**/*.{md,json,webp}',
  'docs/site/*.{ts,json}',
  'docs/site/{src,public}/**/*',
  'local/docs/*.ts',
  'README.md',
];
const LOCK = join(SITE, 'package-lock.json');
/** A copy of the lockfile whose packages are installed. */
const INSTALLED = join(SITE, 'node_modules/.installed-lock.json');

/** Builds the site unless it is newer than its sources, and returns its folder. Throws if a step fails. */
export function buildDocsSite(): string {
  if (!isStale()) return DOCS_SITE;
  const lock = readFileSync(LOCK, 'utf8');
  if (!existsSync(INSTALLED) || readFileSync(INSTALLED, 'utf8') !== lock) {
    run('npm', ['ci', '--prefix', SITE, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']);
    writeFileSync(INSTALLED, lock);
  }
  rmSync(DOCS_SITE, { recursive: true, force: true });
  run(process.execPath, [join(SITE, 'node_modules/astro/bin/astro.mjs'), 'build', '--silent']);
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

function run(command: string, args: readonly string[]): void {
  // Under NODE_ENV=test the build would have no search.
  const env = { ...process.env, NODE_ENV: 'production', ASTRO_TELEMETRY_DISABLED: '1' };
  execFileSync(command, args, { cwd: SITE, env, stdio: ['ignore', 2, 2] });
}

if (import.meta.main) console.log(`The site is in ${buildDocsSite()}.`);
