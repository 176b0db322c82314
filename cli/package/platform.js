#!/usr/bin/env node
// In the repository, the Node installed by `npm ci` runs the sources; the package contains a bundle.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const sources = at('../main.ts');
const ownNode = at('../../node_modules/node/bin/node');
const [major, minor] = process.versions.node.split('.').map(Number);
const isOld = major < 22 || (major === 22 && minor < 22);

if (isOld && existsSync(ownNode)) {
  const { status } = spawnSync(ownNode, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
} else if (isOld) {
  process.stderr.write(`platform needs Node 22.22 or newer; this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else {
  module.enableCompileCache();
  await import(existsSync(sources) ? sources : './dist/platform.mjs');
}
