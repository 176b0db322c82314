import { statSync } from 'node:fs';
import { totalmem } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasCode } from '#core/base/errors.ts';
import { readEgressTarget } from '#core/outbound/egress-target.ts';
import {
  type Sandbox,
  type SandboxSession,
  type SandboxSpec,
  type SandboxStatus,
  SandboxUnavailableError,
} from '#core/ports/sandbox.ts';
import { GATEWAY_PORT } from '#core/ports/service-host.ts';
import { type HostRuntime, type RootEntry, SDK_NODE_MODULES } from '../host-runtime.ts';
import { type DelegatedGroup, delegatedGroup, makeLauncherGroup } from './cgroup.ts';
import type { CachedFolder, ContentCache } from './content-cache.ts';
import { Launcher, type SandboxProcess } from './launcher.ts';
import { type Network, openProcessSession, portsOf, standBy, targetPorts } from './open-session.ts';
import { makeScratchFolder } from './scratch.ts';
import type { ProcessSession } from './session.ts';
import { isReusable, WarmPrograms } from './warm-programs.ts';

interface NamespaceSandboxOptions extends Network {
  /** Absolute path of {@link NamespaceSandboxOptions.cache}. */
  readonly cacheFolder: string;
  readonly cache: ContentCache;
  readonly runtime: HostRuntime;
  /** Number of sandboxes started in advance for recently used agents. @default 4 */
  readonly prestart?: number;
  readonly log?: (line: string) => void;
}

type Kind = 'bubblewrap' | 'unshare';
/** The common file system of sandboxes: without a layer or with one. */
type Plan = 'plain' | 'layered';

/** A folder that this sandbox shows besides those of its plan, read-only unless `writableBytes` has its size. */
interface OwnFolder {
  readonly at: string;
  readonly from: string;
  readonly writableBytes?: number;
}

interface Started {
  readonly sandbox: SandboxProcess;
  /** Releases the cached folders that the sandbox uses. */
  release(): void;
}

/** A started sandbox that has no session yet. */
interface Prestarted extends Started {
  readonly key: string;
}

const LAUNCHER = fileURLToPath(new URL('../perl/launcher.pl', import.meta.url));
const INIT = fileURLToPath(new URL('../perl/init.pl', import.meta.url));
const LAYER = '/layer';
const WORKING_FOLDER = '/home/user/agent';
/** Where init finds the bundle that it copies into the working folder. */
const COPIED = '/.bundle';
/** Agents whose command is remembered. */
const MAX_COMMANDS = 100;
/** Memory that an installation may have on any machine. */
const SMALLEST_INSTALL_BYTES = 2 * 1024 ** 3;
/** Size of /dev/shm under bubblewrap, where it cannot share the limit of the home folder. */
const BUBBLEWRAP_SHM_BYTES = 64 * 1024 * 1024;

/**
 * Returns a sandbox of the first of `kinds` that works here, or else the reason for each kind that does not. By default
 * `unshare` comes first, at half the cost of bubblewrap.
 */
export async function createNamespaceSandbox({
  kinds = ['unshare', 'bubblewrap'],
  ...options
}: NamespaceSandboxOptions & { readonly kinds?: readonly Kind[] }): Promise<NamespaceSandbox | string[]> {
  const problems: string[] = [];
  const group = process.platform === 'linux' ? delegatedGroup() : 'this is not Linux';
  let noGroup = typeof group === 'string' ? group : undefined;
  for (const kind of kinds) {
    // Creating a group may work while putting a sandbox into it fails. Watchers then enforce its limits, as without a
    // group.
    for (const tried of typeof group === 'string' ? [undefined] : [group, undefined]) {
      const sandbox = new NamespaceSandbox({ ...options, kind, limits: limitsOf(tried, noGroup), group: tried });
      const problem = await sandbox.probe();
      if (problem === undefined) return sandbox;
      if (tried) noGroup = `a sandbox cannot start in its cgroup v2: ${problem}`;
      else problems.push(`${kind}: ${problem}`);
      await sandbox.close();
    }
  }
  return problems;
}

const limitsOf = (group: DelegatedGroup | undefined, noGroup: string | undefined): SandboxStatus['limits'] =>
  group
    ? { by: 'kernel', detail: `a cgroup each in ${group.folder}: ${group.controllers.join(', ')}` }
    : { by: 'watcher', detail: `a watcher each, because ${noGroup}` };

interface Options extends NamespaceSandboxOptions {
  readonly kind: Kind;
  readonly limits: SandboxStatus['limits'];
  /** Parent of the sandboxes' cgroups. Without it, watchers enforce their limits. */
  readonly group: DelegatedGroup | undefined;
}

/** The sandboxes of one platform process, in kernel namespaces made by `launcher.pl` or by bubblewrap. */
export class NamespaceSandbox implements Sandbox {
  readonly #options: Options;
  readonly #cache: ContentCache;
  readonly #runtime: HostRuntime;
  /** Paths that are visible in sandboxes and that only root may reach (`stage` in `launcher.pl`). */
  readonly #staged: readonly string[];
  readonly #prestart: number;
  readonly #log: (line: string) => void;
  #launcher: Promise<Launcher> | undefined;
  /** Oldest first. */
  readonly #prestarted: Prestarted[] = [];
  /** The last command by key, of agents whose sandbox runs just one. Used last comes last. */
  readonly #commands = new Map<string, string>();
  readonly #warm = new WarmPrograms();
  #starting = 0;
  #isClosed = false;

  constructor(options: Options) {
    this.#options = options;
    this.#cache = options.cache;
    this.#runtime = options.runtime;
    this.#prestart = options.prestart ?? 4;
    this.#log = options.log ?? (() => {});
    const isSystem = (path: string) => /^\/(usr|etc|bin|sbin|lib\w*)(\/|$)/.test(path);
    const binds = options.runtime.root.flatMap(({ operation, from }) => (operation === 'bind' ? [from] : []));
    // Returns the folder of a file, because the launcher's overlay of a folder would not show a mount on a file.
    const folderOf = (path: string) => (statSync(path).isDirectory() ? path : dirname(path));
    const sources = [options.cacheFolder, INIT, ...binds.filter((path) => !isSystem(path))].map(folderOf);
    this.#staged =
      process.getuid?.() === 0
        ? sources.filter((path, index) => !sources.some((other, at) => at < index && isInside(path, other)))
        : [];
  }

  /** Starts and ends a sandbox. Returns the reason if that fails. */
  async probe(): Promise<string | undefined> {
    const { perl, bubblewrap } = this.#runtime;
    if (process.platform !== 'linux') return `it needs Linux, this is ${process.platform}`;
    if (!perl) return 'perl was not found';
    if (this.#options.kind === 'bubblewrap' && !bubblewrap) return 'bwrap was not found';
    try {
      const { sandbox, release } = await this.#start({ ports: portsOf('open', this.#options), diskBytes: 1024 * 1024 });
      await sandbox.kill();
      release();
    } catch (error) {
      return (error as Error).message;
    }
  }

  get kind(): Kind {
    return this.#options.kind;
  }

  async status(): Promise<SandboxStatus> {
    return { kind: this.kind, limits: this.#options.limits, interpreters: this.#runtime.interpreters };
  }

  async open(spec: SandboxSpec): Promise<SandboxSession> {
    return isReusable(spec) ? this.#warm.open(spec, () => this.openFresh(spec)) : this.openFresh(spec);
  }

  /** Opens a session that shares nothing with others. */
  async openFresh(given: SandboxSpec, network: Network = this.#options): Promise<ProcessSession> {
    const spec = given.purpose === 'install' ? withinMachine(given) : given;
    if (this.#options.kind === 'bubblewrap') checkPorts(spec);
    const needs = needsOf(spec, network);
    const { sandbox, release } = this.#take(keyOf(needs)) ?? (await this.#startInRoom(needs));
    if (spec.purpose === 'run' && spec.reuse === undefined) void this.#startAhead(needs, spec);
    const onExec = hasOneProgram(spec) ? (command: string) => this.#remember(keyOf(needs), spec, command) : undefined;
    return openProcessSession(sandbox, spec, network, release, { onExec });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#warm.close();
    for (const { release } of this.#prestarted.splice(0)) release();
    const launcher = await this.#launcher?.catch(() => undefined);
    await launcher?.close();
  }

  #take(key: string): Prestarted | undefined {
    for (let index = this.#prestarted.length - 1; index >= 0; index--) {
      const candidate = this.#prestarted[index]!;
      if (candidate.key !== key) continue;
      this.#prestarted.splice(index, 1);
      if (candidate.sandbox.isAlive) return candidate;
      candidate.release();
    }
    return undefined;
  }

  /**
   * Starts a sandbox in advance for the agent that was just used, which is likely to be used again. Ends the oldest
   * ones beyond the limit.
   */
  async #startAhead(needs: Needs, spec: SandboxSpec): Promise<void> {
    if (this.#starting >= this.#prestart) return;
    this.#starting++;
    const key = keyOf(needs);
    try {
      const started = await this.#start(needs);
      const command = hasOneProgram(spec) ? this.#commands.get(key) : undefined;
      if (command !== undefined) standBy(started.sandbox, spec, command);
      this.#prestarted.push({ key, ...started });
    } catch (error) {
      if (!this.#isClosed) this.#log(`a sandbox could not be started ahead: ${(error as Error).message}`);
    } finally {
      this.#starting--;
    }
    const surplus = this.#isClosed ? this.#prestarted.length : this.#prestarted.length - this.#prestart;
    void this.#dropPrestarted(Math.max(surplus, 0));
  }

  #remember(key: string, spec: SandboxSpec, command: string): void {
    if (this.#commands.get(key) !== command) {
      // The next sandbox may have started before this command.
      for (const prestarted of this.#prestarted) if (prestarted.key === key) standBy(prestarted.sandbox, spec, command);
    }
    this.#commands.delete(key);
    this.#commands.set(key, command);
    if (this.#commands.size > MAX_COMMANDS) this.#commands.delete(this.#commands.keys().next().value!);
  }

  async #dropPrestarted(count: number): Promise<void> {
    await Promise.all(this.#prestarted.splice(0, count).map(({ sandbox, release }) => sandbox.kill().then(release)));
  }

  /** Sandboxes that no run uses hold cached folders. They are ended before a run is refused for lack of space. */
  async #startInRoom(needs: Needs): Promise<Started> {
    try {
      return await this.#start(needs);
    } catch (error) {
      if (!hasCode(error, 'RATE_LIMITED') || this.#prestarted.length + this.#warm.idle === 0) throw error;
      await Promise.all([this.#warm.endIdle(), this.#dropPrestarted(this.#prestarted.length)]);
      return this.#start(needs);
    }
  }

  async #start(needs: Needs): Promise<Started> {
    const folders: CachedFolder[] = [];
    const release = () => {
      for (const folder of folders) folder.release();
    };
    try {
      const own: OwnFolder[] = [];
      const layer =
        needs.layer === undefined ? undefined : await this.#cache.layer(needs.layer, needs.layerSha256, needs.owner);
      if (layer !== undefined) folders.push(layer);
      if (needs.bundle !== undefined) {
        const bundle =
          layer === undefined
            ? await this.#cache.bundle(needs.bundle, needs.owner)
            : await this.#cache.builtBundle(needs.bundle, { key: needs.layer!, path: layer.path }, needs.owner);
        folders.push(bundle);
        own.push({ at: WORKING_FOLDER, from: this.#visiblePath(bundle.path), writableBytes: bundle.bytes });
      }
      if (layer !== undefined) own.push({ at: LAYER, from: this.#visiblePath(layer.path) });
      const plan = needs.layer === undefined ? 'plain' : 'layered';
      const launcher = await this.#launch();
      const sandbox = await launcher.startSandbox({
        ports: needs.ports,
        diskBytes: needs.diskBytes,
        bundleBytes: own.find(({ writableBytes }) => writableBytes !== undefined)?.writableBytes,
        setup: (token) =>
          this.#options.kind === 'unshare'
            ? [
                'namespaces',
                plan,
                ...own.flatMap(({ at, from, writableBytes }) => [at, from, `${writableBytes ?? ''}`]),
              ]
            : this.#bubblewrapCommand(this.#planOf(plan), own, needs, token),
      });
      return { sandbox, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Returns the file system entries of a plan, without the sandbox's own folders. */
  #planOf(plan: Plan): RootEntry[] {
    // Node resolves `import` and `require` in /node_modules from any folder. A layer links to the platform's packages.
    const packages = plan === 'layered' ? `${LAYER}/node_modules` : SDK_NODE_MODULES;
    const links: RootEntry[] = [{ operation: 'link', at: '/node_modules', from: packages }];
    return [...this.#runtime.root, ...links].map((entry) =>
      entry.operation === 'bind' ? { ...entry, from: this.#visiblePath(entry.from) } : entry,
    );
  }

  /** Returns the path at which the launcher's children see `path`. */
  #visiblePath(path: string): string {
    const index = this.#staged.findIndex((source) => isInside(path, source));
    return index < 0 ? path : `/mnt/${index}${path.slice(this.#staged[index]!.length)}`;
  }

  async #launch(): Promise<Launcher> {
    if (this.#isClosed) throw new Error('the sandbox is closed');
    const running = await this.#launcher?.catch(() => undefined);
    if (running?.isRunning) return running;
    this.#launcher = (async () => {
      const scratch = await makeScratchFolder();
      return Launcher.start({
        perl: this.#runtime.perl!,
        script: LAUNCHER,
        scratch,
        group: this.#options.group && makeLauncherGroup(this.#options.group),
        sources: this.#staged,
        plans: this.#options.kind === 'unshare' ? this.#plans() : {},
        log: this.#log,
      });
    })();
    return this.#launcher;
  }

  /** Returns the plans in the format of `launcher.pl`. */
  #plans(): Record<Plan, string[]> {
    const rowsOf = (plan: Plan) => this.#planOf(plan).flatMap(({ operation, at, from }) => [operation, at, from]);
    return { plain: rowsOf('plain'), layered: ['folder', LAYER, '', ...rowsOf('layered')] };
  }

  /** Init copies the writable folder: older versions of bubblewrap cannot mount an overlay. */
  #bubblewrapCommand(plan: readonly RootEntry[], own: readonly OwnFolder[], needs: Needs, token: string): string[] {
    const { perl, bubblewrap } = this.#runtime;
    const copied = own.find(({ writableBytes }) => writableBytes !== undefined);
    // The copy leaves the program as much space as it would have without one.
    const disk = String(needs.diskBytes + (copied?.writableBytes ?? 0));
    const hasTargets = needs.ports.includes('target-');
    return [
      bubblewrap!,
      ...['--unshare-user', '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
      ...['--disable-userns', '--cap-drop', 'ALL', '--uid', '1000', '--gid', '1000', '--hostname', 'sandbox'],
      ...['--die-with-parent', '--as-pid-1', '--info-fd', '@info'],
      // Bubblewrap cannot mount one tmpfs in two places; this way /tmp shares the limit of the home folder.
      ...['--perms', '0755', '--size', disk, '--tmpfs', '/home', '--perms', '0755', '--dir', '/home/user'],
      ...['--perms', '1777', '--dir', '/home/tmp', '--symlink', 'home/tmp', '/tmp'],
      ...['--proc', '/proc', '--dev', '/dev'],
      ...['--perms', '1777', '--size', String(BUBBLEWRAP_SHM_BYTES), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'],
      ...plan.flatMap(({ operation, at, from }) =>
        operation === 'bind' ? ['--ro-bind', from, at] : ['--symlink', from, at],
      ),
      ...(hasTargets ? ['--ro-bind-data', '@hosts', '/etc/hosts'] : []),
      ...own.flatMap((folder) => ['--ro-bind', folder.from, folder === copied ? COPIED : folder.at]),
      ...['--ro-bind', this.#visiblePath(INIT), '/.init.pl', '--remount-ro', '/'],
      ...[
        perl!,
        '/.init.pl',
        '@status',
        '@host',
        '@outer',
        token,
        needs.ports,
        '@entrance',
        ...(copied ? [COPIED] : []),
      ],
    ];
  }
}

/** Throws {@link SandboxUnavailableError}: bubblewrap gives no process the right to listen on the ports below 1024. */
function checkPorts({ egressTargets }: SandboxSpec): void {
  const low = egressTargets?.targets.find((target) => readEgressTarget(target).port < 1024);
  if (low === undefined) return;
  throw new SandboxUnavailableError(
    `The sandbox of this platform, bubblewrap, cannot lead to ${low}: it has no ports below 1024. Let the platform use the kernel's namespaces (PLATFORM_SANDBOX=unshare), or a port from 1024 up.`,
  );
}

/** Requirements of a spec. A sandbox started in advance fits a spec with the same ones. */
interface Needs {
  readonly bundle?: string;
  readonly layer?: string;
  readonly layerSha256?: string;
  /** Owner that the cached folders count against. Other owners may get the sandbox as well. */
  readonly owner?: string;
  /** Ports that lead out of the sandbox, with the names of targets, in the format of `init.pl`; empty if none. */
  readonly ports: string;
  readonly diskBytes: number;
}

const needsOf = (spec: SandboxSpec, network: Network): Needs => ({
  bundle: spec.bundle,
  layer: spec.layer,
  layerSha256: spec.layerSha256,
  owner: spec.owner,
  ports: [portsOf(spec.egress, network), spec.purpose === 'service' && `taken=${GATEWAY_PORT}`, ...targetPorts(spec)]
    .filter(Boolean)
    .join(','),
  diskBytes: spec.limits.diskBytes,
});

/** Files of a sandbox take memory: installations of large dependencies must not use up a small machine. */
const withinMachine = (spec: SandboxSpec): SandboxSpec => ({
  ...spec,
  limits: {
    ...spec.limits,
    memoryBytes: Math.min(spec.limits.memoryBytes, Math.max(totalmem() / 2, SMALLEST_INSTALL_BYTES)),
  },
});

/** Whether the command of the session is the same for all callers of the bundle, and needs nothing but the bundle. */
const hasOneProgram = ({ isOneCommand, reuse, bundle, layer }: SandboxSpec): boolean =>
  isOneCommand === true && reuse === undefined && bundle !== undefined && layer === undefined;

const keyOf = ({ bundle, layer, layerSha256, ports, diskBytes }: Needs): string =>
  JSON.stringify([bundle, layer, layerSha256, ports, diskBytes]);

const isInside = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);
