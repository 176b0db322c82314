import type { Json } from '#core/base/json.ts';

/**
 * A fresh, isolated environment for untrusted commands.
 *
 * Guarantees of every adapter (`docs/interface/sandbox.md#promises`), tested by `test/conformance/sandbox.ts`: a fresh
 * writable home; a working folder with the files of the bundle, writable for this session alone, while the bundle itself
 * and the layer cannot be changed; no files of other runs, no host files except the language runtimes, none
 * of the platform's environment; not root, no capabilities, no new privileges; CPU, memory, processes, file size and
 * wall clock limited; the whole process tree killed at the deadline and at {@link SandboxSession.close}; egress by
 * policy: never loopback, private, link-local or metadata addresses of the host.
 *
 * Layout: home and `HOME` are `/home/user` (user name `user`), the bundle is at `/home/user/agent`, a layer at `/layer`
 * (`/layer/venv`, an environment of Python; `/layer/node_modules`, found by Node from any folder; `/layer/python`, packages
 * of earlier installations, on `PYTHONPATH`; the `bin` folders of all three on `PATH`),
 * uploads at `/tmp/uploads`; `/tmp` is writable. The platform's own packages, `sdk/js` as `agent-platform-sdk` and
 * `sdk/python` as `agent_platform`, can be imported from any folder; a copy in the bundle or layer takes precedence.
 * The helpers of tools (`sdk/helpers`) are in `/runtime/helpers`. `python`, `python3`, `pip`, `node`, `npm`, `bash` and
 * `sh` are on `PATH` if the host has them.
 */
export interface Sandbox {
  /**
   * Opens a session. The bundle and layer must exist in the blob store. Throws {@link SandboxUnavailableError} when
   * this host cannot isolate a process, and {@link SandboxLostError}.
   */
  open(spec: SandboxSpec): Promise<SandboxSession>;
  /**
   * Returns a session that another process opened, from its {@link SandboxSession.ref}. It may be gone: then commands end
   * as `sandbox_lost`. @default - sessions end with the process that opened them
   */
  attach?(ref: Json): Promise<SandboxSession>;
  /** Returns the kind of isolation on this host; for `none`, the reason and what to install. */
  status(): Promise<SandboxStatus>;
  /** Stops every session and helper process. */
  close(): Promise<void>;
}

export interface SandboxStatus {
  readonly kind: 'bubblewrap' | 'unshare' | 'fargate' | 'microvm' | 'lambda' | 'unsandboxed' | 'none';
  /** For `none`: the cause and the fix, in words for users. */
  readonly problem?: string;
  /**
   * What enforces the limits of memory and processes on this machine: the kernel with a cgroup per sandbox, or a
   * watcher process per sandbox. `detail` says where and why, in words for operators.
   */
  readonly limits?: { readonly by: 'kernel' | 'watcher'; readonly detail: string };
  /** Interpreters found, e.g. `{ python: '3.11.2', node: '24.21.0' }`; a missing one is absent. */
  readonly interpreters: { readonly python?: string; readonly node?: string };
}

/**
 * `open`: public addresses only. `none`: no network. A list: only these host names (`*.example.org` for subdomains),
 * and only their public addresses. All but `none` also reach the platform's own gateway. Programs find the proxy in
 * `HTTP_PROXY` and similar variables, which Python, pip, npm, curl and Node's `fetch` honor; only the proxy resolves
 * names.
 */
export type Egress = 'open' | 'none' | { readonly allow: readonly string[] };
/** Port of the egress proxy inside the sandbox; programs cannot listen on it. */
export const EGRESS_PORT = 3128;

/** Targets of an agent besides web servers, which its workspace allows (`docs/interface/egress.md`). */
export interface EgressTargets {
  /** `host:port`, in lower case; see `core/outbound/egress-target.ts`. */
  readonly targets: readonly string[];
  /** Private addresses that the targets may have, as ranges such as `10.20.0.0/16`. */
  readonly privateRanges: readonly string[];
}

export interface SandboxLimits {
  /** Limit of the whole process tree and its temporary files together. */
  readonly memoryBytes: number;
  /** CPU seconds of each process. */
  readonly cpuSeconds: number;
  readonly processes: number;
  /** Maximum size of a single file. */
  readonly fileBytes: number;
  /** Maximum size of all files in home and /tmp together. */
  readonly diskBytes: number;
}

export interface SandboxSpec {
  /** Blob key of a checked zip (see `core/manifest/bundle/bundle.ts`), content-addressed by its last segment. */
  readonly bundle?: string;
  /** Blob key of a layer archive (tar.gz with `venv/`, `node_modules/` or `python/` at its root), content-addressed. */
  readonly layer?: string;
  /** SHA-256 of that archive in hex; a different archive is refused. Layers of version 0.1.0 have none. */
  readonly layerSha256?: string;
  /**
   * Workspace that the session belongs to. On one machine, the code unpacked for its sessions counts against its quota
   * (`docs/interface/limits.md#unpacked-code`).
   */
  readonly owner?: string;
  /** Complete environment, except PATH, PYTHONPATH, HOME, USER, LANG, SHELL, TERM, PWD and TMPDIR. */
  readonly env: Readonly<Record<string, string>>;
  readonly egress: Egress;
  /**
   * Further targets, for any protocol over TCP, unless `egress` is `none`. Their names resolve inside the sandbox to a
   * loopback address where connections are carried on. Where a container is the sandbox, programs connect themselves.
   * @default - none
   */
  readonly egressTargets?: EgressTargets;
  /**
   * - `install` may also reach the package registries that the operator configured
   * - `service` reserves port 8080 of the sandbox, as where a gateway listens on it (`docs/interface/services.md`)
   */
  readonly purpose: 'run' | 'install' | 'service';
  readonly limits: SandboxLimits;
  /**
   * Further properties that must be equal before a session may reuse the sandbox of an earlier session with the same
   * `owner`, `bundle`, `layer`, `egress` and `egressTargets`. Called only on hosts that reuse sandboxes. Returns JSON.
   * @default - the sandbox is used once
   */
  readonly kind?: () => Promise<unknown>;
  /**
   * Whether the session writes files, then runs one command, and reads nothing afterwards. No other process uses it. The
   * host may then open it with the command, which throws the errors of {@link Sandbox.open}.
   * @default false
   */
  readonly isOneCommand?: boolean;
  /**
   * Lets the program of the session's one command stay for later sessions of the same `kind`, whose `exec` gives it their
   * inputs ({@link ExecRequest.call}). Such a session writes no files, and its `close` ends the program only if that has not
   * answered. Needs {@link SandboxSpec.owner} and {@link SandboxSpec.kind}.
   * @default - everything ends with the session
   */
  readonly reuse?: SandboxReuse;
  /**
   * Whether the host may use cheaper, interruptible capacity. No caller waits for the session, so it may open later
   * than others.
   * @default false
   */
  readonly isInterruptible?: boolean;
  /**
   * Epoch milliseconds after which the caller no longer uses the session. Where sandboxes cost money, it ends soon
   * after.
   * @default - an hour from now
   */
  readonly deadline?: number;
  /**
   * Queue entry of the run or installation, for when sandboxes are scarce. Sessions without one are served first
   * (`core/execution/fair-queue.ts`).
   */
  readonly turn?: SandboxTurn;
  /** When it is aborted, `open` stops waiting and throws its reason. */
  readonly signal?: AbortSignal;
}

/** How a program is shared by sessions, one after another or at once (`docs/interface/warm-programs.md`). */
export interface SandboxReuse {
  /** A digest of the program's secrets. A program with others is no longer used. */
  readonly secrets: string;
  readonly idleMs: number;
  readonly maxUses: number;
  /** Number of inputs that a program handles at once. Hosts may start one program for each of them instead. */
  readonly concurrency: number;
}

/** Queue entry of a session. `open` throws RATE_LIMITED if no sandbox becomes free in time. */
export interface SandboxTurn {
  /** Workspace. The queue is fair between owners, however many sessions each requests. */
  readonly owner: string;
  /** Epoch milliseconds. The run waits for at most half of the time until then. */
  readonly deadline: number;
  /** Called with `waiting` if no sandbox is free, then with `taken` when one is. */
  readonly onState?: (state: 'waiting' | 'taken') => void;
}

/** Output limit of a command that sets none. */
export const DEFAULT_MAX_OUTPUT_BYTES = 10 * 1024 * 1024;
/** Time between SIGTERM and SIGKILL for a command that exceeds its timeout. */
export const TERM_GRACE_MS = 2000;
/** Exit code (128 + SIGKILL) if no process reported one. */
export const KILLED_EXIT_CODE = 137;

export interface ExecRequest {
  /** A shell line, run by `bash -c` (`sh -c` where there is no bash). */
  readonly command: string;
  /**
   * Id of the input, for a session with {@link SandboxSpec.reuse}: `stdin` is one line of the program protocol with this
   * id, the `stdout` of the events is the answer to it, and their `exit` says that the program has answered (0, or 1 for an
   * error) or how it ended. What the program prints otherwise is `stderr`.
   */
  readonly call?: string;
  /** Absolute path inside the sandbox. @default /home/user/agent when there is a bundle, else /home/user */
  readonly cwd?: string;
  /** Written to stdin, then EOF. A command that does not read it is not an error. @default empty */
  readonly stdin?: Uint8Array;
  /** Wall-clock timeout, after which the whole process tree of the command is killed (SIGTERM, 2 s later SIGKILL). */
  readonly timeoutMs: number;
  /**
   * Limit of stdout. Output past it is dropped, and the command is killed. stderr has no such limit: the sandbox
   * forwards its beginning as it arrives and its end with the exit (`docs/interface/sandbox.md#program-protocol`).
   * @default 10 MB
   */
  readonly maxOutputBytes?: number;
  /** Kills the process tree at once. */
  readonly signal?: AbortSignal;
  /**
   * Whether everything that the command started is killed when it ends, before its `exit`.
   * @default false: background processes continue until the session is closed
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
  /** What another process needs to use the session: secret. @default - no other process can */
  readonly ref?: Json;
  /** What serves the session and why, on a host with several kinds of sandboxes. */
  readonly place?: SandboxPlace;
  /** Runs one command; the last event is `exit`. Commands of a session share its files and may run concurrently. */
  exec(request: ExecRequest): AsyncIterable<ExecEvent>;
  /** Writes a file and creates its parent folders. Throws {@link SandboxFileError} with a message for users. */
  writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void>;
  readFile(path: string): Promise<AsyncIterable<Uint8Array>>;
  listFiles(path: string, options?: { recursive?: boolean }): Promise<SandboxFile[]>;
  /** Kills everything and removes every file. Safe to call twice. */
  close(): Promise<void>;
}

export interface SandboxPlace {
  readonly kind: SandboxStatus['kind'];
  /** In words for authors and operators. */
  readonly why: string;
}

export interface SandboxFile {
  /** Relative to the listed folder. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly sizeBytes: number;
}

/** Complete output and exit of a command. */
export interface ExecOutcome {
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly exit: ExecExit;
}

/** Runs a command to completion and collects its output. */
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

/** The sandbox was lost while the session opened, before any code of the caller ran. Test the code. */
export class SandboxLostError extends Error {
  readonly code = 'SANDBOX_LOST';
}

export class SandboxFileError extends Error {
  readonly code = 'SANDBOX_FILE';
  /** Whether the failure is a lost sandbox, not a fault of the file. */
  readonly isLost: boolean;
  constructor(message: string, { isLost = false }: { readonly isLost?: boolean } = {}) {
    super(message);
    this.name = 'SandboxFileError';
    this.isLost = isLost;
  }
}
