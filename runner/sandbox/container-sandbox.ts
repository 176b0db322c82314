import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, rmdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Blobs } from '#core/ports/blobs.ts';
import type { SandboxSpec } from '#core/ports/sandbox.ts';
import { Launcher } from './launcher.ts';
import { type Network, openProcessSession, portsOf } from './open-session.ts';
import type { ProcessSession } from './session.ts';
import { addBuilt, hasBuilt, linkSdk, unpackBundle, unpackLayer } from './unpack.ts';

const run = promisify(execFile);

const LAUNCHER = fileURLToPath(new URL('../perl/launcher.pl', import.meta.url));
const CONTAINER = fileURLToPath(new URL('../perl/container.pl', import.meta.url));
const HOME = '/home/user';
const BUNDLE = `${HOME}/agent`;
const LAYER = '/layer';
/** The launcher, init and one supervisor. */
const OWN_PROCESSES = 3;
/** Keeps Node from listening for a debugger on SIGUSR1, which any program of the session could be. */
const NO_DEBUGGER = '--disable-sigusr1';
/** A fork that escapes one round is found in the next. */
const KILL_ROUNDS = 200;
const KILL_PAUSE_MS = 5;
/** Timeout after which a program that listens but does not accept counts as absent. */
const CONNECT_MS = 10_000;

interface ContainerSandboxOptions {
  /**
   * What is around this process: a container, in which it must be process 1, so that all others end with it; a VM; or a
   * Lambda function, in which it must adopt all orphans (`perl/adopt.pl`).
   */
  readonly inside: 'container' | 'vm' | 'function';
  readonly blobs: Pick<Blobs, 'get' | 'stream'>;
  /** Absolute path. */
  readonly perl: string;
  readonly scratchFolder: string;
  /** Called when the job or the memory limit has killed the sandbox. */
  onLost(): void;
  log(line: string): void;
}

/**
 * One sandbox in a dedicated container, such as a Fargate task. The container isolates, and it ends with the runner.
 * The runner and its job have the same user, so that neither needs a privilege. The job cannot affect the runner: the
 * runner is process 1, which ignores signals from inside; it cannot be traced or read; and all other processes end with
 * it. A job can only end itself. In a VM the runner may not be process 1: there a job can kill the runner and
 * impersonate it until the VM is terminated from outside. It could only forge the output of its own run, which it
 * controls anyway. In a Lambda function the same holds until Lambda starts a new runner, whose later sessions have the
 * same key as the job (docs/sandbox.md#on-aws-short-programs-in-lambda-functions).
 */
export class ContainerSandbox {
  readonly #options: ContainerSandboxOptions;
  #launcher: Launcher | undefined;
  /** The bundle and layer unpacked in the container, which happens only once. */
  #unpacked: string | undefined;
  /** State of the container before its first session. */
  #untouched: string | undefined;

  /** Throws if this process lacks the protection described above. */
  constructor(options: ContainerSandboxOptions) {
    this.#options = options;
    if (options.inside === 'container' && process.pid !== 1) {
      throw new Error('in a container the runner must be process 1, without an init before it');
    }
    if (statSync('/proc/self/environ').uid === process.getuid?.()) {
      throw new Error(
        'in a container the runner must be started by its unreadable loader, or jobs could read its memory',
      );
    }
  }

  /**
   * Records the state of the container before its first session, for {@link renew}. Throws with the reason if its
   * restoration could never be verified: then it must not serve a session of another run.
   */
  async prepareReuse(): Promise<void> {
    const { inside } = this.#options;
    if (inside === 'vm') throw new Error('the runner is not process 1');
    if (!process.execArgv.includes(NO_DEBUGGER)) throw new Error(`the runner was started without ${NO_DEBUGGER}`);
    // A runner that a job has killed leaves its files to the next one of its function.
    this.#untouched = await this.#inspect(...(inside === 'function' ? ['empty'] : []));
  }

  /**
   * Removes the remains of closed sessions: their processes, all files that they could write, and the launcher, which
   * has the same user. Throws unless the container is then in the state before the first session.
   */
  async renew(): Promise<void> {
    if (this.#untouched === undefined) throw new Error('the container was not inspected before its first session');
    await this.#launcher?.close();
    this.#launcher = undefined;
    this.#unpacked = undefined;
    if (this.#options.inside === 'function') await endDescendants();
    const found = await this.#inspect('empty');
    if (found !== this.#untouched)
      throw new Error(`the container has changed: ${firstDifference(found, this.#untouched)}`);
  }

  async #inspect(...args: string[]): Promise<string> {
    const { stdout } = await run(this.#options.perl, [CONTAINER, ...args], { cwd: '/', env: {} });
    return stdout;
  }

  /**
   * Opens one session at a time. A session that follows another without {@link renew} has the same bundle and layer,
   * and finds the files of the previous one.
   */
  async open(spec: SandboxSpec, network: Network): Promise<ProcessSession> {
    const { perl, scratchFolder, log, onLost } = this.#options;
    if (spec.purpose === 'service' && spec.egress === 'none') {
      throw new Error(
        'PLATFORM_SANDBOX_EGRESS is "none", which a task cannot keep for a service: an app without network cannot listen either. Set it to "open" or to a list of hosts.',
      );
    }
    await this.#unpack(spec);
    if (!this.#launcher?.isRunning) {
      await mkdir(scratchFolder, { recursive: true });
      this.#launcher = await Launcher.start({
        perl,
        script: LAUNCHER,
        scratch: await mkdtemp(join(scratchFolder, 'launcher-')),
        sources: [],
        log,
      });
    }
    const sandbox = await this.#launcher.startSandbox({
      ports: portsOf(spec.egress, network),
      diskBytes: spec.limits.diskBytes,
      setup: () => ['container'],
    });
    const session = openProcessSession(sandbox, spec, network, () => {}, {
      ownProcesses: OWN_PROCESSES + threads(),
      connect: connectHere,
    });
    void sandbox.gone.then(() => session.isClosing || onLost());
    return session;
  }

  async #unpack({ bundle, layer, layerSha256 }: SandboxSpec): Promise<void> {
    const { blobs } = this.#options;
    const content = JSON.stringify([bundle, layer]);
    if (this.#unpacked === content) return;
    // In a Lambda function these are links into its one writable folder.
    for (const path of [HOME, LAYER]) await mkdir(await readlink(path).catch(() => path), { recursive: true });
    // A failed attempt may leave a part.
    await mkdir(BUNDLE, { recursive: true });
    await Promise.all([clear(BUNDLE), clear(LAYER)]);
    if (bundle === undefined) await rmdir(BUNDLE);
    else await unpackBundle(blobs, bundle, BUNDLE);
    if (layer === undefined) await linkSdk(LAYER);
    else await unpackLayer(blobs, { key: layer, sha256: layerSha256 }, LAYER);
    if (bundle !== undefined && (await hasBuilt(LAYER))) await addBuilt(LAYER, BUNDLE);
    await makeReadOnly(LAYER);
    this.#unpacked = content;
  }
}

function firstDifference(found: string, expected: string): string {
  const lines = new Set(expected.split('\n'));
  return found.split('\n').find((line) => !lines.has(line)) ?? 'something is missing';
}

/** The program shares the network of this process: tries 127.0.0.1, then ::1. */
async function connectHere(port: number): Promise<Socket | undefined> {
  for (const host of ['127.0.0.1', '::1']) {
    const socket = connect({ host, port, noDelay: true });
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.setTimeout(CONNECT_MS, () => resolve(false));
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.setTimeout(0).removeAllListeners('timeout');
    if (isOpen) return socket;
    socket.destroy();
  }
  return undefined;
}

/** Number of threads of this process, which count against its user's process limit. */
const threads = (): number => Number(/^Threads:\t(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);

/**
 * Kills every process below this one, until none is left. This process must adopt orphans, so that none escapes.
 * Throws if some remain.
 */
export async function endDescendants(): Promise<void> {
  for (let round = 0; round < KILL_ROUNDS; round++) {
    const found = await descendants();
    if (found.length === 0) return;
    for (const pid of found) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended in the meantime.
      }
    }
    await setTimeout(KILL_PAUSE_MS);
  }
  throw new Error('processes of its session do not end');
}

/** Returns the running processes below this one. */
async function descendants(): Promise<number[]> {
  const parents = new Map<number, number>();
  const running = new Set<number>();
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, 'latin1').catch(() => '');
    // The second field, the program's name, may contain spaces and parentheses.
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    parents.set(Number(name), Number(parent));
    if (state !== 'Z' && state !== 'X') running.add(Number(name));
  }
  const isBelow = (pid: number): boolean => {
    const seen = new Set<number>();
    for (let at = parents.get(pid); at !== undefined && !seen.has(at); at = parents.get(at)) {
      if (at === process.pid) return true;
      seen.add(at);
    }
    return false;
  };
  return [...running].filter(isBelow);
}

/** A folder must be writable to be emptied. */
async function clear(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await clear(path);
    await rm(path, { recursive: true });
  }
}

async function makeReadOnly(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadOnly(path);
    else if (entry.isFile()) await chmod(path, (await lstat(path)).mode & 0o555);
  }
  await chmod(folder, 0o555);
}
