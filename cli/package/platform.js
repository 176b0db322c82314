#!/usr/bin/env node
// In the repository this runs the sources, in the package a bundle: with this Node, or on an older one with Node 24,
// which npm installs with both.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

/** The platform needs Node 24; the commands alone run on this one, where npm has no Node 24 for the machine. */
const OWN_MAJOR = 24;
const OLDEST = [22, 22];

const [major, minor] = process.versions.node.split('.').map(Number);
const ownNode = major < OWN_MAJOR ? findOwnNode() : undefined;

if (ownNode !== undefined) {
  const child = spawn(ownNode, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' });
  // A terminal sends Ctrl-C to both processes; other signals reach this one only.
  process.on('SIGINT', () => {});
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (status) => process.exit(status ?? 1));
} else if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
  process.stderr.write(`platform needs Node ${OLDEST.join('.')} or newer; this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else {
  module.enableCompileCache();
  const sources = new URL('../main.ts', import.meta.url);
  await import(existsSync(fileURLToPath(sources)) ? sources.href : './dist/cli.mjs');
}

function findOwnNode() {
  const system = process.platform === 'win32' ? 'win' : process.platform;
  const program = process.platform === 'win32' ? 'bin/node.exe' : 'bin/node';
  try {
    const path = module.createRequire(import.meta.url).resolve(`node-${system}-${process.arch}/${program}`);
    return existsSync(path) ? path : undefined;
  } catch {
    return undefined;
  }
}
