import { chmodSync, copyFileSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findHostRuntime } from './host-runtime.ts';

/**
 * Runs once, as root, while the image is built: makes it look inside as a sandbox of the local host does, from the same
 * table (`host-runtime.ts`).
 */
const LOADERS = ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1'];

const { root } = await findHostRuntime('/platform/runtime');
for (const { at, from } of root) {
  if (!at.startsWith('/runtime/')) continue;
  mkdirSync(dirname(at), { recursive: true });
  symlinkSync(from, at);
}
symlinkSync('/layer/node_modules', '/node_modules');
// The rest of /etc is the image's own, or the container engine's.
for (const name of ['passwd', 'group', 'pip.conf'])
  copyFileSync(join('/platform/runtime/etc', name), join('/etc', name));

// Who runs a program that he cannot read gets a process that nobody of the same user may read or trace: jobs are that
// user. Run through this copy of the dynamic loader, Node becomes one.
const loader = LOADERS.find((path) => existsSync(path));
if (!loader) throw new Error(`none of ${LOADERS.join(', ')} is there`);
copyFileSync(loader, '/platform/loader');
chmodSync('/platform/loader', 0o111);
