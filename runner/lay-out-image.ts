import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findHostRuntime, NO_PACKAGES, PIP_PACKAGE } from './host-runtime.ts';

/**
 * Runs once, as root, while the image is built. Gives the image the file system of a sandbox on the local host, from the
 * same table (`host-runtime.ts`).
 */
const LOADERS = ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1'];

const RUNTIME = '/platform/runtime';

const { root } = await findHostRuntime(RUNTIME);
for (const { at, from } of root) {
  if (from === join(RUNTIME, NO_PACKAGES)) {
    rmSync(at, { recursive: true });
    cpSync(from, at, { recursive: true });
  }
  if (!at.startsWith('/runtime/')) continue;
  mkdirSync(dirname(at), { recursive: true });
  // pip is in a folder that is emptied afterwards.
  if (at === PIP_PACKAGE) cpSync(from, at, { recursive: true });
  else symlinkSync(from, at);
}
symlinkSync('/layer/node_modules', '/node_modules');
// The rest of /etc comes from the image or the container engine.
for (const name of ['passwd', 'group', 'pip.conf']) copyFileSync(join(RUNTIME, 'etc', name), join('/etc', name));

// Processes of the same user cannot read or trace a process whose program file is unreadable, and jobs run as the same
// user. Node started through this execute-only copy of the dynamic loader is such a process.
const loader = LOADERS.find((path) => existsSync(path));
if (!loader) throw new Error(`none of ${LOADERS.join(', ')} is there`);
copyFileSync(loader, '/platform/loader');
chmodSync('/platform/loader', 0o111);
