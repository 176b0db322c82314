import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Installs the packages of a folder with a `package.json` and a lockfile of its own, without their install scripts.
 * `npm ci` of the repository leaves these out, because only some commands need them. Returns at once if they are
 * current. Throws if npm fails.
 */
export function installPackages(folder: string): void {
  const lock = readFileSync(join(folder, 'package-lock.json'), 'utf8');
  /** A copy of the lockfile whose packages are installed. */
  const installed = join(folder, 'node_modules/.installed-lock.json');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === lock) return;
  const args = ['ci', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] });
  writeFileSync(installed, lock);
}
