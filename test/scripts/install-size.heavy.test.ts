import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

/** What else is large has a lockfile of its own: `scripts/install-packages.ts`. */
const MAX_MB = 600;

/** Returns how many bytes a folder takes on disk. Targets of symbolic links do not count. */
function bytesIn(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    bytes += lstatSync(path).blocks * 512;
    if (entry.isDirectory()) bytes += bytesIn(path);
  }
  return bytes;
}

test(`npm ci installs at most ${MAX_MB} MB`, () => {
  const modules = join(import.meta.dirname, '../../node_modules');
  // Hidden folders are caches of tools, and the links to commands.
  const packages = readdirSync(modules).filter((name) => !name.startsWith('.'));
  const bytes = packages.reduce((sum, name) => {
    const path = join(modules, name);
    return sum + (lstatSync(path).isDirectory() ? bytesIn(path) : 0);
  }, 0);
  expect(bytes / 2 ** 20).toBeLessThanOrEqual(MAX_MB);
});
