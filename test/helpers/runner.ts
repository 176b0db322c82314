import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { reuseKeyOf } from '#aws/fargate/reuse-key.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import type { Sandbox, SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { findHostRuntime, type HostRuntime } from '#runner/host-runtime.ts';
import { RunnerSession, runnerHealth } from '#runner/server/client.ts';
import type { RunnerJob } from '#runner/server/protocol.ts';
import { buildRunner } from '../../scripts/build-runner.ts';

const LIFETIME_MS = 600_000;

export interface RunnerProcess {
  /** URL without a slash at the end. */
  readonly url: string;
  /** Process id of the runner itself. */
  readonly pid: number;
  /** Resolves with the exit code when the process ends, or -1 if it was killed. */
  readonly ended: Promise<number>;
  /** Lines printed on stdout so far. */
  readonly lines: readonly string[];
  kill(signal?: NodeJS.Signals): Promise<void>;
}

let built: Promise<string> | undefined;

/**
 * Returns the bundled runner of the image, built once per worker because loading TypeScript would dominate every start.
 */
export function builtRunner(): Promise<string> {
  built ??= (async () => {
    const folder = mkdtempSync(join(tmpdir(), 'runner-built-'));
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
    await buildRunner(folder);
    return folder;
  })();
  return built;
}

const LOADERS = ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1'];
let laidOut: Promise<string> | undefined;

/** Creates the image's world-readable folder `/platform`, with Node and the loader that no user may read. */
function imageFolder(): Promise<string> {
  laidOut ??= (async () => {
    const folder = await builtRunner();
    copyFileSync(process.execPath, join(folder, 'node'), constants.COPYFILE_FICLONE);
    copyFileSync(LOADERS.find((path) => existsSync(path))!, join(folder, 'loader'));
    chmodSync(join(folder, 'loader'), 0o111);
    chmodSync(folder, 0o755);
    return folder;
  })();
  return laidOut;
}

/** Folders that the container's user can write to. */
export const WRITABLE = ['/dev/mqueue', '/dev/shm', '/home/user', '/layer', '/tmp'];

/**
 * Builds a bubblewrap command for a container like Fargate's: process 1, one unprivileged user, no namespaces. It
 * shares the machine's network and the egress proxy has a fixed port, so only one container can run at a time.
 */
async function containerCommand(env: Readonly<Record<string, string>>, program: readonly string[]): Promise<string[]> {
  // Otherwise the user inside would be root, who may read every file.
  const asNobody = process.getuid?.() === 0 ? ['--reuid', '12345', '--regid', '12345', '--clear-groups'] : [];
  return [
    ...['flock', '--no-fork', join(tmpdir(), 'runner-container-test.lock')],
    ...['setpriv', '--pdeathsig', 'KILL', ...asNobody, 'bwrap', '--die-with-parent', '--as-pid-1', '--clearenv'],
    ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--uid', '1000', '--gid', '1000'],
    ...['--disable-userns', '--cap-drop', 'ALL', '--proc', '/proc', '--dev', '/dev'],
    ...['--ro-bind', '/usr', '/usr', '--ro-bind', '/etc', '/etc'],
    ...['bin', 'lib', 'lib64'].flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`]),
    ...['--ro-bind', await imageFolder(), '/platform', '--symlink', '/platform/node', '/runtime/bin/node'],
    ...WRITABLE.flatMap((at) => [at === '/dev/mqueue' ? '--mqueue' : '--tmpfs', at]),
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...program,
  ];
}

/** The runtimes of the function's image, in the layout of `lay-out-image.ts`. */
let runtimeOfFunction: Promise<HostRuntime> | undefined;
export function functionRuntime(): Promise<HostRuntime> {
  runtimeOfFunction ??= findFunctionRuntime();
  return runtimeOfFunction;
}

async function findFunctionRuntime(): Promise<HostRuntime> {
  const folder = mkdtempSync(join(tmpdir(), 'runner-function-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  // Python of another user's home cannot be shown to the function's user.
  const { PATH } = process.env;
  process.env.PATH = '/usr/bin:/bin';
  return findHostRuntime(folder).finally(() => {
    process.env.PATH = PATH;
  });
}

/**
 * Returns the command of the function's image in an environment like Lambda's: one unprivileged user without namespaces,
 * only `/tmp` can be written, there is no `/dev/shm`, and the runner is not process 1. It shares the machine's network,
 * so two at once must not have the egress proxy, whose port is fixed.
 */
export async function functionCommand(
  env: Readonly<Record<string, string>> = {},
  program: readonly string[] = FUNCTION_PROGRAM,
): Promise<string[]> {
  const { root } = await functionRuntime();
  const asNobody = process.getuid?.() === 0 ? ['--reuid', '12345', '--regid', '12345', '--clear-groups'] : [];
  const shown = [
    ...['--die-with-parent', '--clearenv', '--unshare-user', '--unshare-pid', '--unshare-ipc'],
    ...['--uid', '1000', '--gid', '1000', '--disable-userns', '--cap-drop', 'ALL', '--proc', '/proc', '--dev', '/dev'],
    ...root.flatMap(({ operation, at, from }) => [operation === 'bind' ? '--ro-bind' : '--symlink', from, at]),
    ...['--ro-bind', await imageFolder(), '/platform', '--tmpfs', '/tmp'],
    ...Object.entries(FUNCTION_LINKS).flatMap(([at, to]) => ['--symlink', to, at]),
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...Object.entries({ ...FUNCTION_VARIABLES, ...env }).flatMap(([name, value]) => ['--setenv', name, value]),
  ];
  // Process 1 is bubblewrap, whose arguments and environment every program can see.
  const list = join(await imageFolder(), `arguments-${randomBytes(8).toString('hex')}`);
  writeFileSync(list, shown.join('\0').concat('\0'));
  const start = 'exec env -i "$(command -v bwrap)" --args 9 "$@" 9<"$0"';
  return ['setpriv', '--pdeathsig', 'KILL', ...asNobody, 'bash', '-c', start, list, ...program];
}

/** Links and start command of the image, which `runner/Dockerfile` makes. */
const FUNCTION_LINKS = {
  '/home/user': '/tmp/sandbox/home',
  '/layer': '/tmp/sandbox/layer',
  '/node_modules': '/layer/node_modules',
};
const FUNCTION_PROGRAM = [
  ...['/usr/bin/perl', '/platform/perl/adopt.pl'],
  ...['/platform/loader', '/platform/node', '--disable-sigusr1', '/platform/runner/main.mjs'],
];
const FUNCTION_VARIABLES = {
  PATH: '/usr/bin:/bin',
  PLATFORM_RUNNER_ISOLATION: 'function',
  PLATFORM_RUNNER_NODE: '/platform/node',
  PLATFORM_RUNNER_LISTEN: '0',
};

/** Returns the reason why the runner cannot start in a container here, or `undefined` if it can. */
export async function noContainer(): Promise<string | undefined> {
  const [command, ...args] = await containerCommand({}, ['/bin/true']);
  return promisify(execFile)(command!, args, { timeout: 120_000 }).then(
    () => undefined,
    (error) => String(error.stderr || error.message).trim(),
  );
}

/**
 * Starts the real runner as a local process on a free port; it isolates its job as the local host does.
 *
 * @param onLine called with every line that it prints on stdout
 */
export async function startRunner(
  env: Readonly<Record<string, string>> = {},
  onLine?: (line: string) => void,
): Promise<RunnerProcess> {
  // The runner dies with the process that started it. Its job must not inherit its open file descriptors, here 29 and
  // 251.
  const program = join(await builtRunner(), 'runner/main.mjs');
  const command = ['setpriv', '--pdeathsig', 'KILL', process.execPath, program];
  return startProgram(['bash', '-c', 'exec "$0" "$@" 29</usr/share 251</etc', ...command], { env, onLine });
}

/** Starts the real runner in its own container, which is the sandbox of its job ({@link noContainer}). */
export async function startContainer(env: Readonly<Record<string, string>> = {}): Promise<RunnerProcess> {
  const variables = {
    PATH: '/usr/bin:/bin',
    PLATFORM_RUNNER_ISOLATION: 'auto',
    PLATFORM_RUNNER_NODE: '/platform/node',
    PLATFORM_RUNNER_LISTEN: '0',
    ...env,
  };
  const program = ['/platform/loader', '/platform/node', '--disable-sigusr1', '/platform/runner/main.mjs'];
  const container = await startProgram(await containerCommand(variables, program));
  const { pid } = container;
  return { ...container, pid: Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')) };
}

/** Starts the real runner as in a Lambda function, without Lambda's events ({@link functionCommand}). */
export const startFunctionRunner = async (): Promise<RunnerProcess> => startProgram(await functionCommand());

async function startProgram(
  [command, ...args]: readonly string[],
  { env = {}, onLine }: { env?: Readonly<Record<string, string>>; onLine?: (line: string) => void } = {},
): Promise<RunnerProcess> {
  const child = spawn(command!, args, {
    env: { PATH: process.env.PATH, PLATFORM_RUNNER_LISTEN: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'exit').then(([code]) => code ?? -1);
  let stderr = '';
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  const lines: string[] = [];
  const listening = Promise.withResolvers<number>();
  createInterface(child.stdout).on('line', (line) => {
    lines.push(line);
    onLine?.(line);
    const { port } = JSON.parse(line);
    if (port !== undefined) listening.resolve(port);
  });
  const port = await Promise.race([
    listening.promise,
    ended.then((code) => {
      throw new Error(`the runner ended with ${code} before it listened: ${stderr}${lines.join('\n')}`);
    }),
  ]);
  return {
    url: `http://127.0.0.1:${port}`,
    lines,
    pid: child.pid!,
    ended,
    async kill(signal = 'SIGKILL') {
      child.kill(signal);
      await ended;
    },
  };
}

/** Serves blobs over HTTP, as presigned URLs do. */
export async function serveBlobs(
  blobs: Blobs,
  host = '127.0.0.1',
): Promise<{ linkTo(key: string): string; close(): void }> {
  const secret = randomBytes(8).toString('hex');
  const server = createServer(async (request, response) => {
    const [, given, ...key] = request.url!.split('/');
    const content = given === secret ? await blobs.stream(key.join('/')) : undefined;
    if (!content) return void response.writeHead(404).end();
    await pipeline(Readable.from(content), response).catch(() => {});
  });
  server.listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    linkTo: (key) => `http://${host}:${port}/${secret}/${key}`,
    close: () => void server.close().closeAllConnections(),
  };
}

/** Returns the job that a dispatcher sends for `spec`. */
export const jobFor = (
  { turn: _, bundle, layer, ...spec }: SandboxSpec,
  linkTo: (key: string) => string,
  more: Partial<RunnerJob> = {},
): RunnerJob => ({
  token: randomBytes(32).toString('hex'),
  lifetimeMs: LIFETIME_MS,
  ...spec,
  ...(bundle !== undefined && { bundle: { key: bundle, url: linkTo(bundle) } }),
  ...(layer !== undefined && { layer: { key: layer, url: linkTo(layer) } }),
  ...more,
});

/** Sandbox whose sessions with a program that stays are served by one runner, one after another. */
export class WarmRunnerSandbox implements Sandbox {
  readonly #linkTo: (key: string) => string;
  readonly #start: () => Promise<Pick<RunnerProcess, 'url' | 'kill'>>;
  readonly #runners = new Set<Pick<RunnerProcess, 'url' | 'kill'>>();
  readonly #warm = new Map<string, Pick<RunnerProcess, 'url' | 'kill'>[]>();

  constructor(
    linkTo: (key: string) => string,
    start: () => Promise<Pick<RunnerProcess, 'url' | 'kill'>> = startRunner,
  ) {
    this.#linkTo = linkTo;
    this.#start = start;
  }

  async open(given: SandboxSpec): Promise<SandboxSession> {
    const key = await reuseKeyOf(given);
    const { kind: _, owner: __, isOneCommand: ___, deadline: ____, reuse, ...spec } = given;
    const job = jobFor(spec, this.#linkTo, reuse && { reuse: { idleMs: reuse.idleMs, maxUses: reuse.maxUses } });
    for (;;) {
      const warm = key === undefined ? undefined : this.#warm.get(key)?.pop();
      const runner = warm ?? (await this.#start());
      this.#runners.add(runner);
      try {
        const session = await RunnerSession.open({ baseUrl: runner.url }, job, { reuse: key });
        const close = session.close.bind(session);
        session.close = async () => {
          await close();
          if (key === undefined || (await session.end()) <= 0) return;
          const waiting = this.#warm.get(key) ?? [];
          if (!waiting.includes(runner)) this.#warm.set(key, [...waiting, runner]);
        };
        return session;
      } catch (error) {
        // It has ended, or may serve no further session.
        if (warm === undefined) throw error;
      }
    }
  }

  async status() {
    return { kind: 'fargate' as const, interpreters: {} };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#runners].map((runner) => runner.kill()));
  }
}

/** Sandbox that starts a runner for each session. */
export class RunnerSandbox implements Sandbox {
  readonly #linkTo: (key: string) => string;
  readonly #start: () => Promise<Pick<RunnerProcess, 'url' | 'kill'>>;
  readonly #runners = new Set<Pick<RunnerProcess, 'url' | 'kill'>>();

  constructor(
    linkTo: (key: string) => string,
    start: () => Promise<Pick<RunnerProcess, 'url' | 'kill'>> = startRunner,
  ) {
    this.#linkTo = linkTo;
    this.#start = start;
  }

  async open(spec: SandboxSpec): Promise<SandboxSession> {
    return RunnerSession.open({ baseUrl: (await this.#started()).url }, jobFor(spec, this.#linkTo));
  }

  async status() {
    const runner = await this.#started();
    const { interpreters } = await runnerHealth({ baseUrl: runner.url }, 5_000);
    await runner.kill();
    return { kind: 'fargate' as const, interpreters };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#runners].map((runner) => runner.kill()));
  }

  async #started() {
    const runner = await this.#start();
    this.#runners.add(runner);
    return runner;
  }
}
