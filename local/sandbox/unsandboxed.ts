import { type ChildProcess, spawn } from 'node:child_process';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { cp, glob, mkdir, readdir, rm, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join, posix, relative } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { hasCode } from '#core/base/errors.ts';
import { PROGRAM_FOLDERS } from '#core/manifest/bundle/layer-reader.ts';
import {
  DEFAULT_MAX_OUTPUT_BYTES,
  type ExecEvent,
  type ExecExit,
  type ExecRequest,
  type Sandbox,
  type SandboxFile,
  SandboxFileError,
  type SandboxSession,
  type SandboxSpec,
  type SandboxStatus,
  TERM_GRACE_MS,
} from '#core/ports/sandbox.ts';
import { type HostRuntime, SDK } from '#runner/host-runtime.ts';
import type { CachedFolder, ContentCache } from '#runner/sandbox/content-cache.ts';
import { KeptStderr } from '#runner/sandbox/kept-stderr.ts';
import { makeScratchFolder } from '#runner/sandbox/scratch.ts';
import type { ServeRequest } from '#runner/sandbox/session.ts';
import type { WarmHost } from '#runner/sandbox/warm-program.ts';
import { isReusable, WarmPrograms } from '#runner/sandbox/warm-programs.ts';

const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Runs commands without isolation, as processes of the platform's own user in a fresh folder. Only for hosts where no
 * sandbox works, and for agents whose code the operator would run by hand. Only the time and output limits apply.
 * Absolute paths in a command are the host's; `/home/user` and `/tmp` are mapped in file operations and `cwd` only.
 */
export class UnsandboxedSandbox implements Sandbox {
  readonly #cache: ContentCache;
  readonly #runtime: HostRuntime;
  readonly #sessions = new Set<SandboxSession>();
  readonly #warm = new WarmPrograms();

  constructor(cache: ContentCache, runtime: HostRuntime) {
    this.#cache = cache;
    this.#runtime = runtime;
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'unsandboxed', interpreters: this.#runtime.interpreters };
  }

  async open(spec: SandboxSpec): Promise<SandboxSession> {
    return isReusable(spec) ? this.#warm.open(spec, () => this.#openFresh(spec)) : this.#openFresh(spec);
  }

  async #openFresh(spec: SandboxSpec): Promise<UnsandboxedSession> {
    const folder = await makeScratchFolder();
    for (const name of ['home/user', 'tmp', 'bin']) await mkdir(join(folder, name), { recursive: true });
    for (const { operation, at, from } of this.#runtime.root) {
      const isProgram = dirname(at) === '/runtime/bin' && (operation === 'bind' || !from.startsWith('/runtime/'));
      // The runtime's npm script uses paths inside a sandbox, so commands use the host's npm on the PATH.
      if (isProgram && basename(at) !== 'npm') await symlink(from, join(folder, 'bin', basename(at)));
    }
    await mkdir(join(folder, 'node_modules'));
    await symlink(SDK.node.folder, join(folder, 'node_modules', SDK.node.name));
    const folders: CachedFolder[] = [];
    const cached =
      spec.layer === undefined ? undefined : await this.#cache.layer(spec.layer, spec.layerSha256, spec.owner);
    if (spec.bundle !== undefined) {
      const bundle =
        cached === undefined
          ? await this.#cache.bundle(spec.bundle, spec.owner)
          : await this.#cache.builtBundle(spec.bundle, { key: spec.layer!, path: cached.path }, spec.owner);
      // Copied, because other runs share the cached folder and the agent could change it.
      await cp(bundle.path, join(folder, 'home/user/agent'), { recursive: true });
      bundle.release();
    }
    let layer: Layer | undefined;
    if (cached !== undefined) {
      folders.push(cached);
      // Its own interpreter has a path inside a sandbox.
      const [packages] = await Array.fromAsync(glob(join(cached.path, 'venv/lib/python3*/site-packages')));
      layer = { path: cached.path, packages };
      await symlink(join(layer.path, 'node_modules'), join(folder, 'home/node_modules'));
    }
    const session: UnsandboxedSession = new UnsandboxedSession(folder, spec, layer, () => {
      for (const cached of folders) cached.release();
      this.#sessions.delete(session);
    });
    this.#sessions.add(session);
    return session;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => session.close()));
  }
}

interface Run extends Pick<ExecRequest, 'command' | 'cwd' | 'timeoutMs' | 'maxOutputBytes' | 'signal'> {
  readonly stdin: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** @default - all of stderr is forwarded */
  readonly stderr?: KeptStderr;
  /** Time between SIGTERM and SIGKILL once `signal` is aborted. @default 0, no SIGTERM */
  readonly graceMs?: number;
}

interface Layer {
  readonly path: string;
  /** Folder of its packages for Python, if it has any. */
  readonly packages: string | undefined;
}

class UnsandboxedSession implements SandboxSession, WarmHost {
  readonly #folder: string;
  readonly #spec: SandboxSpec;
  readonly #layer: Layer | undefined;
  readonly #onClose: () => void;
  readonly #children = new Set<ChildProcess>();
  #isClosed = false;

  constructor(folder: string, spec: SandboxSpec, layer: Layer | undefined, onClose: () => void) {
    this.#folder = folder;
    this.#spec = spec;
    this.#layer = layer;
    this.#onClose = onClose;
  }

  exec(request: ExecRequest): AsyncGenerator<ExecEvent> {
    return this.#run({ ...request, stdin: [request.stdin ?? new Uint8Array()], stderr: new KeptStderr() });
  }

  /** See `ProcessSession.serve`. */
  serve({ command, inputs = Readable.from([]), stop, graceMs }: ServeRequest): AsyncGenerator<ExecEvent> {
    const unlimited = { timeoutMs: MAX_TIMER_MS, maxOutputBytes: Number.POSITIVE_INFINITY };
    return this.#run({ ...unlimited, command, stdin: inputs, signal: stop, graceMs });
  }

  async use(): Promise<undefined> {}
  pause(): void {}
  resume(): void {}

  get isSound(): boolean {
    return !this.#isClosed;
  }

  async *#run(request: Run): AsyncGenerator<ExecEvent> {
    const startedAt = performance.now();
    const cwd = request.cwd ?? (this.#spec.bundle === undefined ? '/home/user' : '/home/user/agent');
    // Runs in a separate process group, so that children are killed with it unless they leave the group.
    const child = spawn(existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh', ['-c', request.command], {
      cwd: this.#onHost(cwd),
      detached: true,
      env: this.#env(),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#children.add(child);
    child.stdin.on('error', () => {});
    // A command that does not read its input is not an error.
    pipeline(Readable.from(request.stdin), child.stdin).catch(() => {});

    let reason: ExecExit['reason'] = 'exited';
    let killTimer: NodeJS.Timeout | undefined;
    const stop = (why: ExecExit['reason'], graceMs = 0) => {
      if (reason !== 'exited') return;
      reason = why;
      signalGroup(child, graceMs > 0 ? 'SIGTERM' : 'SIGKILL');
      if (graceMs > 0) killTimer = setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs);
    };
    const timer = setTimeout(() => stop('timeout', TERM_GRACE_MS), request.timeoutMs);
    const onAbort = () => stop('aborted', request.graceMs);
    request.signal?.addEventListener('abort', onAbort);
    if (request.signal?.aborted) onAbort();

    const events: ExecEvent[] = [];
    let wake = () => {};
    let room = request.maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES;
    child.stdout.on('data', (data: Buffer) =>
      afterStderr(() => {
        if (room > 0) events.push({ type: 'stdout', data: data.subarray(0, room) });
        room -= data.byteLength;
        if (room < 0) stop('output_limit');
        wake();
      }),
    );
    const { stderr } = request;
    const pushStderr = (data: Buffer) => {
      if (data.length > 0) events.push({ type: 'stderr', data });
    };
    child.stderr.on('data', (data: Buffer) => {
      pushStderr(stderr?.take(data) ?? data);
      wake();
    });
    child.on('error', (error) => {
      events.push({ type: 'stderr', data: Buffer.from(`${error.message}\n`) });
    });
    child.on('close', (code, signal) => {
      if (stderr) pushStderr(stderr.end());
      const exitCode = code ?? 128 + (signal === 'SIGTERM' ? 15 : 9);
      afterStderr(() => {
        events.push({ type: 'exit', exit: { reason, exitCode, durationMs: performance.now() - startedAt } });
        wake();
      });
    });

    try {
      while (true) {
        const event = events.shift();
        if (event) yield event;
        if (event?.type === 'exit') return;
        if (!event) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      clearTimeout(timer);
      clearTimeout(killTimer);
      request.signal?.removeEventListener('abort', onAbort);
      signalGroup(child, 'SIGKILL');
      this.#children.delete(child);
    }
  }

  async writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    const target = this.#onHost(path);
    await asFileError(`cannot write ${path}`, async () => {
      await mkdir(dirname(target), { recursive: true });
      const source = Readable.from(content instanceof Uint8Array ? [content] : content);
      await pipeline(source, createWriteStream(target));
    });
  }

  async readFile(path: string): Promise<AsyncIterable<Uint8Array>> {
    return asFileError(`cannot read ${path}`, async () => {
      if (!(await stat(this.#onHost(path))).isFile()) throw new Error('not a file');
      return createReadStream(this.#onHost(path));
    });
  }

  async listFiles(path: string, options: { recursive?: boolean } = {}): Promise<SandboxFile[]> {
    const root = this.#onHost(path);
    return asFileError(`cannot list ${path}`, async () => {
      const entries = await readdir(root, { withFileTypes: true, recursive: options.recursive ?? false });
      const files = entries.map(async (entry) => {
        const full = join(entry.parentPath, entry.name);
        const isFolder = entry.isDirectory();
        const sizeBytes = entry.isFile() ? (await stat(full)).size : 0;
        return { path: relative(root, full), isFolder, sizeBytes };
      });
      return (await Promise.all(files)).sort((a, b) => (a.path < b.path ? -1 : 1));
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const child of this.#children) signalGroup(child, 'SIGKILL');
    await rm(this.#folder, { recursive: true, force: true });
    this.#onClose();
  }

  #onHost(path: string): string {
    const absolute = posix.resolve('/home/user', path);
    return /^\/(home\/user|tmp)(\/|$)/.test(absolute) ? join(this.#folder, absolute) : absolute;
  }

  #env(): Record<string, string> {
    const layer = this.#layer;
    const layerPath = layer === undefined ? [] : PROGRAM_FOLDERS.map((folder) => join(layer.path, folder));
    const python = [this.#spec.env.PYTHONPATH, layer?.packages, layer && join(layer.path, 'python'), SDK.python.folder];
    return {
      ...this.#spec.env,
      PYTHONPATH: python.filter(Boolean).join(':'),
      PATH: [...layerPath, join(this.#folder, 'bin'), '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
      HOME: join(this.#folder, 'home/user'),
      USER: 'user',
      LANG: 'C.UTF-8',
      SHELL: '/bin/sh',
      TERM: 'dumb',
      TMPDIR: join(this.#folder, 'tmp'),
    };
  }
}

/**
 * Acts once the event loop has looked at all pipes again, so that what was printed to stderr before stdout comes before
 * it.
 */
const afterStderr = (action: () => void): void => void setImmediate(() => setImmediate(action));

/** Sends a signal to the group. No-op if the group has ended. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) throw error;
  }
}

async function asFileError<T>(what: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw new SandboxFileError(`${what}: ${(error as Error).message}`);
  }
}
