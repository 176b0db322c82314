/**
 * `node scripts/install-packages.ts <folder>...`: installs packages that only some commands need, and links them into
 * `node_modules` of the repository. `npm ci` leaves them out, because they are large. Each folder has a `package.json`
 * and a lockfile of its own.
 */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** Holds what `lib`, `bin` and the tests of stacks import. */
export const CDK = join(ROOT, 'lib/cdk');
/** Holds the clients of AWS of `npm run aws:doctor`. */
export const DOCTOR = join(ROOT, 'scripts/doctor/clients');

/** Installs the packages of a folder, without their install scripts. Returns at once if they are current. Throws if npm fails. */
export function installPackages(folder: string): void {
  const lock = readFileSync(join(folder, 'package-lock.json'), 'utf8');
  /** A copy of the lockfile whose packages are installed. */
  const installed = join(folder, 'node_modules/.installed-lock.json');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === lock) return;
  const args = ['ci', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] });
  writeFileSync(installed, lock);
}

/**
 * Does the same, and links the dependencies and their commands into `node_modules` of the repository, so that all of
 * its code can import them. `npm ci` removes the links.
 */
export function linkPackages(folder: string): void {
  installPackages(folder);
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const bin = join(folder, 'node_modules/.bin');
  const commands = existsSync(bin) ? readdirSync(bin).map((name) => join('.bin', name)) : [];
  for (const name of [...Object.keys(dependencies), ...commands]) {
    const path = join(ROOT, 'node_modules', name);
    const target = relative(dirname(path), join(folder, 'node_modules', name));
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isSymbolicLink() && readlinkSync(path) === target) continue;
    rmSync(path, { recursive: true, force: true });
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(target, path);
  }
}

if (import.meta.main) for (const folder of process.argv.slice(2)) linkPackages(resolve(folder));
