import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { hasCode } from '#core/base/errors.ts';
import { isOwnerAlive, ownerName } from './owner-process.ts';

/** Group to which the platform's own processes move: a group whose children have limits may not contain processes. */
const OWN = 'agent-platform.own';
/** Prefix of launcher groups. The id of the owning process follows, so that groups of dead processes are removed. */
const PREFIX = 'agent-platform-';
const NEEDED = ['memory', 'pids'];
const WANTED = ['cpu', 'io'];
/** CPU weight of the platform's own processes; all sandboxes together have the default, 100. */
const OWN_WEIGHT = 1000;

/** A cgroup v2 in which this process may create groups. */
export interface DelegatedGroup {
  /** Absolute path. */
  readonly folder: string;
  /** Available controllers: `memory` and `pids`, and `cpu` and `io` if present. */
  readonly controllers: readonly string[];
}

let counter = 0;

/**
 * Moves this process into a child group and returns the parent group, in which sandboxes get theirs; or the reason why
 * that fails. Removes groups of platform processes that were killed. Idempotent.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html
 */
export function delegatedGroup(): DelegatedGroup | string {
  try {
    const own = ownGroupOf(readFileSync('/proc/self/cgroup', 'utf8'), readFileSync('/proc/self/mountinfo', 'utf8'));
    if (own === undefined) return 'this machine has no cgroup v2';
    const folder = basename(own) === OWN ? dirname(own) : own;
    const available = words(join(folder, 'cgroup.controllers'));
    const missing = NEEDED.filter((name) => !available.includes(name));
    if (missing.length > 0) return `its cgroup v2 lacks ${missing.join(' and ')}`;
    const controllers = [...NEEDED, ...WANTED.filter((name) => available.includes(name))];
    removeDeadGroups(folder);
    moveOut(folder);
    enable(folder, controllers);
    for (const name of ['cpu.weight', 'io.weight']) writeIfThere(join(folder, OWN, name), String(OWN_WEIGHT));
    return { folder, controllers };
  } catch (error) {
    return `its cgroup v2 is not delegated: ${(error as Error).message}`;
  }
}

/** Creates the group of one launcher, which creates one in it for each sandbox and removes it when it ends. */
export function makeLauncherGroup({ folder, controllers }: DelegatedGroup): string {
  const path = join(folder, `${PREFIX}${ownerName()}-${counter++}`);
  mkdirSync(path);
  enable(path, controllers);
  return path;
}

/** Returns the cgroup v2 folder of a process from its `/proc/<pid>/cgroup` and `/proc/<pid>/mountinfo`. */
export function ownGroupOf(cgroup: string, mountinfo: string): string | undefined {
  const path = /^0::(\/.*)$/m.exec(cgroup)?.[1];
  if (path === undefined) return undefined;
  for (const line of mountinfo.split('\n')) {
    const [mount, filesystem] = line.split(' - ');
    if (!filesystem?.startsWith('cgroup2 ')) continue;
    const [, , , root, at] = mount!.split(' ');
    const inside =
      root === '/' ? path : path === root || path.startsWith(`${root}/`) ? path.slice(root!.length) : undefined;
    if (inside !== undefined && !inside.startsWith('/..')) return join(at!, inside).replace(/\/$/, '');
  }
  return undefined;
}

/** Moves all processes out of `folder`. At the hierarchy's root, whose processes may stay, only this process moves. */
function moveOut(folder: string): void {
  const own = join(folder, OWN);
  makeFolder(own);
  const isRoot = !readdirSync(folder).includes('cgroup.type');
  if (isRoot) return void writeFileSync(join(own, 'cgroup.procs'), String(process.pid));
  // The next pass finds processes that were forked in the meantime.
  for (let look = 0; look < 10; look++) {
    const pids = words(join(folder, 'cgroup.procs'));
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        writeFileSync(join(own, 'cgroup.procs'), pid);
      } catch (error) {
        if (!hasCode(error, 'ESRCH')) throw error;
      }
    }
  }
}

function enable(folder: string, controllers: readonly string[]): void {
  writeFileSync(join(folder, 'cgroup.subtree_control'), controllers.map((name) => `+${name}`).join(' '));
}

function removeDeadGroups(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(PREFIX) || isOwnerAlive(name.slice(PREFIX.length))) continue;
    writeIfThere(join(folder, name, 'cgroup.kill'), '1');
    removeGroup(join(folder, name));
  }
}

/** Removes empty groups. Groups that still have processes remain for the next start. */
function removeGroup(folder: string): void {
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) removeGroup(join(folder, entry.name));
    }
    rmdirSync(folder);
  } catch (error) {
    if (!hasCode(error, 'EBUSY') && !hasCode(error, 'ENOENT')) throw error;
  }
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

function writeIfThere(path: string, text: string): void {
  try {
    writeFileSync(path, text, { flag: 'r+' });
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
}

const words = (path: string): string[] => readFileSync(path, 'utf8').split(/\s+/).filter(Boolean);
