/**
 * One fresh, isolated place to run untrusted commands in.
 *
 * What every adapter must hold (`docs/interface/sandbox.md#promises`), proven by `test/conformance/sandbox.ts`: a fresh
 * writable home; bundle and layer read-only; no other run's files, no host files beyond the language runtimes, none of
 * the platform's environment; not root, no capabilities, no new privileges; CPU, memory, processes, file size and wall
 * clock capped; the whole process tree killed at the deadline and at {@link SandboxSession.close}; egress by policy:
 * never loopback, private, link-local or metadata addresses of the host.
 *
 * Inside: home and `HOME` are `/home/user` (user name `user`), the bundle lies at `/home/user/agent`, a layer at
 * `/layer` (`/layer/python` on `PYTHONPATH`, `/layer/node_modules` found by Node from any folder, both `bin` folders on
 * `PATH`), uploads at `/tmp/uploads`; `/tmp` is writable. The platform's own packages, `sdk/js` as `agent-platform-sdk`
 * and `sdk/python` as `agent_platform`, can be imported from any folder; a copy in the bundle or layer wins.
 * The helpers of tools (`sdk/helpers`) lie in `/runtime/helpers`.
 * `python`, `python3`, `pip`, `node`, `npm`, `bash` and `sh` are on `PATH` where the host has them.
 */
export interface Sandbox {
  /**
   * Opens a session. The bundle and layer must exist in the blob store.
   * Throws {@link SandboxUnavailableError} when this host cannot isolate a process, and {@link SandboxLostError}.
   */
  open(spec: SandboxSpec): Promise<SandboxSession>;
  /** The kind that runs here; where none can, the reason and what to install. */
  status(): Promise<SandboxStatus>;
  /** Stops every session and helper process. */
  close(): Promise<void>;
}

export interface SandboxStatus {
  readonly kind: 'bubblewrap' | 'unshare' | 'fargate' | 'microvm' | 'unsandboxed' | 'none';
  /** For `none`: the reason and the remedy, fit to be shown to a user. */
  readonly problem?: string;
  /**
   * Who holds the limits of memory and processes on this machine: the kernel by a cgroup each, or a process that watches each.
   * `detail` says where, and why; fit to be shown to an operator.
   */
  readonly limits?: { readonly by: 'kernel' | 'watcher'; readonly detail: string };
  /** Interpreters found, e.g. `{ python: '3.11.2', node: '24.21.0' }`; a missing one is absent. */
  readonly interpreters: { readonly python?: string; readonly node?: string };
}

/**
 * `open`: public addresses only. `none`: nothing. A list: only these host names (`*.example.org` for subdomains), and only
 * their public addresses. All but `none` also reach the platform's own gateway. Programs find the proxy in `HTTP_PROXY` and
 * similar variables, which Python, pip, npm, curl and Node's `fetch` follow; names resolve only in the proxy.
 */
export type Egress = 'open' | 'none' | { readonly allow: readonly string[] };
/** Where programs inside find the proxy that leads out: they cannot listen there. */
export const EGRESS_PORT = 3128;

export interface SandboxLimits {
  /** Of the whole process tree and its temporary files together. */
  readonly memoryBytes: number;
  /** Processor seconds of any one process. */
  readonly cpuSeconds: number;
  readonly processes: number;
  /** The largest single file. */
  readonly fileBytes: number;
  /** All files in home and /tmp together. */
  readonly diskBytes: number;
}

export interface SandboxSpec {
  /** Blob key of a checked zip (see `core/manifest/bundle/bundle.ts`), content-addressed: its last segment names the content. */
  readonly bundle?: string;
  /** Blob key of a layer archive (tar.gz with `python/` and/or `node_modules/` at its root), content-addressed. */
  readonly layer?: string;
  /** SHA-256 of that archive, hex: any other is refused. Layers of version 0.1.0 have none. */
  readonly layerSha256?: string;
  /**
   * Workspace for which the session is. On one machine, what its sessions have unpacked counts for it
   * (`docs/interface/limits.md#unpacked-code`).
   */
  readonly owner?: string;
  /** The complete environment beside PATH, PYTHONPATH, HOME, USER, LANG, SHELL, TERM, PWD and TMPDIR. */
  readonly env: Readonly<Record<string, string>>;
  readonly egress: Egress;
  /**
   * - `install` may also reach the package registries that the operator configured
   * - `service`: the sandbox's port 8080 is taken, as it is where a gateway listens there (`docs/interface/services.md`)
   */
  readonly purpose: 'run' | 'install' | 'service';
  readonly limits: SandboxLimits;
  /**
   * What else must be equal in sessions of one `owner`, `bundle`, `layer` and `egress` before one of them may use what another
   * one has used. Called only where places are used again. What it returns is JSON.
   * @default - this one's place is used once
   */
  readonly kind?: () => Promise<unknown>;
  /**
   * Whether the host may give a place that it takes away when it needs it, and that costs less. Nobody waits for such a session:
   * it may open later than others.
   * @default false
   */
  readonly isInterruptible?: boolean;
  /**
   * Epoch milliseconds after which the caller does not use the session. Where sandboxes cost money, it ends soon after.
   * @default - an hour from now
   */
  readonly deadline?: number;
  /** The run or installation waits for its turn when sandboxes are few. Without one, work goes first (`core/execution/fair-queue.ts`). */
  readonly turn?: SandboxTurn;
  /** Once it is aborted, `open` waits no longer and throws its reason. */
  readonly signal?: AbortSignal;
}

/** `open` throws RATE_LIMITED when the turn does not come in time. */
export interface SandboxTurn {
  /** Workspace. Turns are shared fairly between owners, however many sessions each of them wants. */
  readonly owner: string;
  /** Epoch milliseconds. The run waits for at most half of the time until then. */
  readonly deadline: number;
  /** Called with `waiting` if there is no place at once, and then with `taken` once there is. */
  readonly onState?: (state: 'waiting' | 'taken') => void;
}

/** Of a command that sets no bound of its own. */
export const DEFAULT_MAX_OUTPUT_BYTES = 10 * 1024 * 1024;
/** Between SIGTERM and SIGKILL for a command that passed its time limit. */
export const TERM_GRACE_MS = 2000;
/** 128 + SIGKILL: the exit code where no process reported one. */
export const KILLED_EXIT_CODE = 137;

export interface ExecRequest {
  /** A shell line, run by `bash -c` (`sh -c` where there is no bash). */
  readonly command: string;
  /** Absolute path inside the sandbox. @default /home/user/agent when there is a bundle, else /home/user */
  readonly cwd?: string;
  /** Written to stdin, then EOF. A command that does not read it is not an error. @default empty */
  readonly stdin?: Uint8Array;
  /** Wall clock. Then the whole process tree of the command is killed (SIGTERM, 2 s later SIGKILL). */
  readonly timeoutMs: number;
  /**
   * Of stdout. Output past it is dropped, and the command is killed. stderr has no such limit: the sandbox passes on its
   * beginning as it comes and its end with the exit (`docs/interface/sandbox.md#program-protocol`). @default 10 MB
   */
  readonly maxOutputBytes?: number;
  /** Kills the process tree at once. */
  readonly signal?: AbortSignal;
  /**
   * Kills everything that the command has started once it ends, before its `exit`.
   * @default false: what it left in the background goes on until the session is closed
   */
  readonly endsAll?: boolean;
}

export type ExecEvent =
  | { readonly type: 'stdout' | 'stderr'; readonly data: Uint8Array }
  | { readonly type: 'exit'; readonly exit: ExecExit };

/** How a command ended. `exitCode` is 128 + signal number for a killed process, as a shell reports it. */
export interface ExecExit {
  readonly reason: 'exited' | 'timeout' | 'output_limit' | 'memory_limit' | 'aborted' | 'sandbox_lost';
  readonly exitCode: number;
  readonly durationMs: number;
}

export interface SandboxSession {
  /** Runs one command; the last event is `exit`. Commands of one session share its files; several may run at once. */
  exec(request: ExecRequest): AsyncIterable<ExecEvent>;
  /** Creates parents. Throws {@link SandboxFileError} with a message fit for a user. */
  writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void>;
  readFile(path: string): Promise<AsyncIterable<Uint8Array>>;
  listFiles(path: string, options?: { recursive?: boolean }): Promise<SandboxFile[]>;
  /** Kills everything and removes every file. Safe to call twice. */
  close(): Promise<void>;
}

export interface SandboxFile {
  /** Relative to the listed folder. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly sizeBytes: number;
}

/** All output of a command, and how it ended. */
export interface ExecOutcome {
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly exit: ExecExit;
}

/** Runs a command to its end and gathers its output. */
export async function execToEnd(session: SandboxSession, request: ExecRequest): Promise<ExecOutcome> {
  const stdout: Uint8Array[] = [];
  const stderr: Uint8Array[] = [];
  for await (const event of session.exec(request)) {
    if (event.type === 'exit')
      return { stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr), exit: event.exit };
    (event.type === 'stdout' ? stdout : stderr).push(event.data);
  }
  throw new Error('a sandbox command ended without an exit event');
}

export class SandboxUnavailableError extends Error {
  readonly code = 'SANDBOX_UNAVAILABLE';
  constructor(message: string) {
    super(message);
    this.name = 'SandboxUnavailableError';
  }
}

/** The place of a session was lost while the session opened: nothing of the caller has run. Test the code. */
export class SandboxLostError extends Error {
  readonly code = 'SANDBOX_LOST';
}

export class SandboxFileError extends Error {
  readonly code = 'SANDBOX_FILE';
  /** Whether the sandbox is gone, so that the file is no matter. */
  readonly isLost: boolean;
  constructor(message: string, { isLost = false }: { readonly isLost?: boolean } = {}) {
    super(message);
    this.name = 'SandboxFileError';
    this.isLost = isLost;
  }
}
