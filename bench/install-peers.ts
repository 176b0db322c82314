import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { PEERS, ROOT } from './harness.ts';

/**
 * `npm run bench:peers`: installs the systems that the bench compares with into a cache folder, with this Node and the
 * exact versions of `bench/peers/package.json`. They are not in our lockfile, because the platform does not use them.
 */
mkdirSync(PEERS, { recursive: true });
cpSync(join(ROOT, 'bench/peers'), PEERS, { recursive: true });
execFileSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: PEERS, stdio: 'inherit' });
