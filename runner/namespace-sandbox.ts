import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sandbox, SandboxSession, SandboxSpec, SandboxStatus } from '#core/ports/sandbox.ts';
import type { CachedFolder, ContentCache } from './content-cache.ts';
import { type HostRuntime, type RootEntry, SDK_NODE_MODULES } from './host-runtime.ts';
import { type Box, Launcher } from './launcher.ts';
import { type Network, openBox, portsOf } from './open-box.ts';
import { isAlive } from './process-names.ts';

interface NamespaceSandboxOptions extends Network {
  /** Absolute; that of {@link NamespaceSandboxOptions.cache}. */
  readonly cacheFolder: string;
  readonly cache: ContentCache;
  readonly runtime: HostRuntime;
  /** Sandboxes kept started ahead for the agents used last. @default 4 */
  readonly prestart?: number;
  readonly log?: (line: string) => void;
}

type Kind = 'bubblewrap' | 'unshare';

/** A started sandbox that nobody uses yet. */
interface Waiting {
  readonly key: string;
  readonly box: Box;
  release(): void;
}

const LAUNCHER = fileURLToPath(new URL('launcher.pl', import.meta.url));
const INSIDE = fileURLToPath(new URL('inside.pl', import.meta.url));
/** What the names of scratch folders begin with; the process comes next, so that those of the dead are removed. */
export const SCRATCH = 'platform-sandbox-';
/** What `df` may show in /dev/shm under bubblewrap, where it cannot share the limit of the home folder. */
const BUBBLEWRAP_SHM_BYTES = 64 * 1024 * 1024;

/**
 * The first of `kinds` that works here, else the reasons why none does.
 * `kinds` are by default `unshare`, which costs half of what bubblewrap does, then bubblewrap.
 */
export async function createNamespaceSandbox({
  kinds = ['unshare', 'bubblewrap'],
  ...options
}: NamespaceSandboxOptions & { readonly kinds?: readonly Kind[] }): Promise<NamespaceSandbox | string[]> {
  await removeLeftovers();
  const problems: string[] = [];
  for (const kind of kinds) {
    const sandbox = new NamespaceSandbox({ ...options, kind });
    const problem = await sandbox.probe();
    if (problem === undefined) return sandbox;
    problems.push(`${kind}: ${problem}`);
    await sandbox.close();
  }
  return problems;
}

/** Of platform processes that were killed. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(SCRATCH) || isAlive(name.slice(SCRATCH.length))) continue;
    await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => {});
  }
}

/** One process's sandboxes, in the kernel's namespaces: made by `launcher.pl`, or by bubblewrap for it. */
class NamespaceSandbox implements Sandbox {
  readonly #options: NamespaceSandboxOptions & { kind: Kind };
  readonly #cache: ContentCache;
  readonly #runtime: HostRuntime;
  /** What lies where only root may pass; see `stage` in `launcher.pl`. */
  readonly #staged: readonly string[];
  readonly #prestart: number;
  readonly #log: (line: string) => void;
  #launcher: Promise<Launcher> | undefined;
  /** Oldest first. */
  readonly #waiting: Waiting[] = [];
  #starting = 0;
  #isClosed = false;

  constructor(options: NamespaceSandboxOptions & { kind: Kind }) {
    this.#options = options;
    this.#cache = options.cache;
    this.#runtime = options.runtime;
    this.#prestart = options.prestart ?? 4;
    this.#log = options.log ?? (() => {});
    const isSystem = (path: string) => /^\/(usr|etc|bin|sbin|lib\w*)(\/|$)/.test(path);
    const binds = options.runtime.root.flatMap(({ operation, from }) => (operation === 'bind' ? [from] : []));
    const sources = [options.cacheFolder, INSIDE, ...binds.filter((path) => !isSystem(path))];
    this.#staged =
      process.getuid?.() === 0
        ? sources.filter((path, index) => !sources.some((other, at) => at < index && isInside(path, other)))
        : [];
  }

  /** Starts a sandbox and ends it. Answers the reason when that does not work. */
  async probe(): Promise<string | undefined> {
    const { perl, bubblewrap } = this.#runtime;
    if (process.platform !== 'linux') return `it needs Linux, this is ${process.platform}`;
    if (!perl) return 'perl was not found';
    if (this.#options.kind === 'bubblewrap' && !bubblewrap) return 'bwrap was not found';
    try {
      const { box, release } = await this.#start({ ports: portsOf('open', this.#options), diskBytes: 1024 * 1024 });
      await box.kill();
      release();
    } catch (error) {
      return (error as Error).message;
    }
  }

  get kind(): Kind {
    return this.#options.kind;
  }

  async status(): Promise<SandboxStatus> {
    return { kind: this.kind, interpreters: this.#runtime.interpreters };
  }

  async open(spec: SandboxSpec, network: Network = this.#options): Promise<SandboxSession> {
    const needs = needsOf(spec, network);
    const { box, release } = this.#take(keyOf(needs)) ?? (await this.#start(needs));
    if (spec.purpose === 'run') void this.#startAhead(needs);
    return openBox(box, spec, network, release);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { release } of this.#waiting.splice(0)) release();
    const launcher = await this.#launcher?.catch(() => undefined);
    await launcher?.close();
  }

  #take(key: string): Waiting | undefined {
    for (let index = this.#waiting.length - 1; index >= 0; index--) {
      const candidate = this.#waiting[index]!;
      if (candidate.key !== key) continue;
      this.#waiting.splice(index, 1);
      if (candidate.box.isOpen) return candidate;
      candidate.release();
    }
    return undefined;
  }

  /** An agent that was just used is likely to be used again; the one not used for longest gives its place. */
  async #startAhead(needs: Needs): Promise<void> {
    if (this.#starting >= this.#prestart) return;
    this.#starting++;
    try {
      this.#waiting.push({ key: keyOf(needs), ...(await this.#start(needs)) });
    } catch (error) {
      if (!this.#isClosed) this.#log(`a sandbox could not be started ahead: ${(error as Error).message}`);
    } finally {
      this.#starting--;
    }
    const surplus = this.#isClosed ? this.#waiting.length : this.#waiting.length - this.#prestart;
    for (const { box, release } of this.#waiting.splice(0, Math.max(surplus, 0))) void box.kill().then(release);
  }

  async #start(needs: Needs): Promise<{ box: Box; release(): void }> {
    const folders: CachedFolder[] = [];
    const release = () => {
      for (const folder of folders) folder.release();
    };
    try {
      const plan = [...this.#runtime.root];
      if (needs.bundle !== undefined) {
        const bundle = await this.#cache.bundle(needs.bundle);
        folders.push(bundle);
        plan.push({ operation: 'bind', at: '/home/user/agent', from: bundle.path });
      }
      if (needs.layer !== undefined) {
        const layer = await this.#cache.layer(needs.layer);
        folders.push(layer);
        plan.push({ operation: 'bind', at: '/layer', from: layer.path });
      }
      // Where Node looks from any folder, for `import` as for `require`. A layer leads on to the platform's packages.
      const packages = needs.layer === undefined ? SDK_NODE_MODULES : '/layer/node_modules';
      plan.push({ operation: 'link', at: '/node_modules', from: packages });
      const seen = plan.map((entry) =>
        entry.operation === 'bind' ? { ...entry, from: this.#seen(entry.from) } : entry,
      );
      const launcher = await this.#launch();
      const box = await launcher.start({
        ports: needs.ports,
        diskBytes: needs.diskBytes,
        how: (token) =>
          this.#options.kind === 'unshare'
            ? seen.flatMap(({ operation, at, from }) => [operation, at, from])
            : this.#bubblewrapCommand(seen, needs, token),
      });
      return { box, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Where the launcher's children see `path`. */
  #seen(path: string): string {
    const index = this.#staged.findIndex((source) => isInside(path, source));
    return index < 0 ? path : `/mnt/${index}${path.slice(this.#staged[index]!.length)}`;
  }

  async #launch(): Promise<Launcher> {
    if (this.#isClosed) throw new Error('the sandbox is closed');
    const running = await this.#launcher?.catch(() => undefined);
    if (running?.isRunning) return running;
    this.#launcher = (async () => {
      const scratch = await mkdtemp(join(tmpdir(), `${SCRATCH}${process.pid}-`));
      return Launcher.start({
        perl: this.#runtime.perl!,
        script: LAUNCHER,
        scratch,
        sources: this.#staged,
        log: this.#log,
      });
    })();
    return this.#launcher;
  }

  #bubblewrapCommand(plan: readonly RootEntry[], needs: Needs, token: string): string[] {
    const { perl, bubblewrap } = this.#runtime;
    const disk = String(needs.diskBytes);
    return [
      bubblewrap!,
      ...['--unshare-user', '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
      ...['--disable-userns', '--cap-drop', 'ALL', '--uid', '1000', '--gid', '1000', '--hostname', 'sandbox'],
      ...['--die-with-parent', '--as-pid-1', '--info-fd', '@info'],
      // Bubblewrap cannot show one tmpfs in two places; this way /tmp shares the limit of the home folder.
      ...['--perms', '0755', '--size', disk, '--tmpfs', '/home', '--perms', '0755', '--dir', '/home/user'],
      ...['--perms', '1777', '--dir', '/home/tmp', '--symlink', 'home/tmp', '/tmp'],
      ...['--proc', '/proc', '--dev', '/dev'],
      ...['--perms', '1777', '--size', String(BUBBLEWRAP_SHM_BYTES), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'],
      ...plan.flatMap(({ operation, at, from }) =>
        operation === 'bind' ? ['--ro-bind', from, at] : ['--symlink', from, at],
      ),
      ...['--ro-bind', this.#seen(INSIDE), '/.inside.pl', '--remount-ro', '/'],
      ...[perl!, '/.inside.pl', '@status', '@door', token, needs.ports],
    ];
  }
}

/** What decides which started sandbox fits. */
interface Needs {
  readonly bundle?: string;
  readonly layer?: string;
  /** Which ports lead out, as `inside.pl` takes them; empty where none does. */
  readonly ports: string;
  readonly diskBytes: number;
}

const needsOf = (spec: SandboxSpec, network: Network): Needs => ({
  bundle: spec.bundle,
  layer: spec.layer,
  ports: portsOf(spec.egress, network),
  diskBytes: spec.limits.diskBytes,
});

const keyOf = ({ bundle, layer, ports, diskBytes }: Needs): string => JSON.stringify([bundle, layer, ports, diskBytes]);

const isInside = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);
