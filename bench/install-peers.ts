import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { PEERS, ROOT } from './harness.ts';

/**
 * `npm run bench:peers`: installs what the bench measures us beside into a cache folder, with this Node and from the exact
 * pins of `bench/peers/package.json`; outside our lockfile, as none of it is a part of the platform.
 */
mkdirSync(PEERS, { recursive: true });
cpSync(join(ROOT, 'bench/peers'), PEERS, { recursive: true });
execFileSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: PEERS, stdio: 'inherit' });
