import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  DEFAULT_MAX_OUTPUT_BYTES,
  type ExecEvent,
  type ExecExit,
  type ExecRequest,
  KILLED_EXIT_CODE,
  type SandboxFile,
  SandboxFileError,
  type SandboxSession,
  type SandboxSpec,
  TERM_GRACE_MS,
} from '#core/ports/sandbox.ts';
import type { SandboxProcess } from './launcher.ts';

/** Time that a supervisor has to kill its command before the whole sandbox is killed. */
const KILL_GRACE_MS = 2000;
const FILE_TIMEOUT_MS = 120_000;
/** One page, for users with many pipes. https://man7.org/linux/man-pages/man7/pipe.7.html */
const SMALLEST_PIPE_BYTES = 4096;
const MAX_LISTING_BYTES = 8 * 1024 * 1024;

export interface SessionOptions {
  readonly sandbox: SandboxProcess;
  readonly spec: SandboxSpec;
  /** All variables, including PATH. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * Number of the platform's own processes and threads that count against the same limit. @default 2, init and one
   * supervisor
   */
  readonly ownProcesses?: number;
  /** Connects to a program inside. @default {@link SandboxProcess.connect} */
  readonly connect?: (port: number) => Promise<Socket | undefined>;
  /** Called with each command that starts. @default - not called */
  readonly onExec?: (command: string) => void;
  onClose(): void;
}

/** A long-running program. */
export interface ServeRequest {
  /** Shell command, as in {@link ExecRequest}. It runs in the bundle's folder. */
  readonly command: string;
  /** Inputs of a warm program. @default - the program has no stdin and is a service, whose output is limited */
  readonly inputs?: AsyncIterable<Uint8Array>;
  /** Ends the program: SIGTERM to the whole process tree, then SIGKILL after `graceMs`. */
  readonly stop: AbortSignal;
  readonly graceMs: number;
}

interface Run {
  /**
   * - `job`: like `sh`, but when the command ends, all processes that it has started are killed
   * - `service`: like `job`, but stderr is forwarded like stdout; each at most a megabyte a second, in whole lines
   * - `warm`: like `job`, but all of stderr is forwarded, and what was printed to it before stdout comes before that
   */
  readonly kind: 'sh' | 'job' | 'service' | 'warm' | 'write' | 'read' | 'list' | 'tree';
  readonly argument: string;
  readonly cwd: string;
  readonly stdin?: Uint8Array | AsyncIterable<Uint8Array>;
  /** May be infinite. */
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  readonly signal?: AbortSignal;
  /** Grace period between SIGTERM and SIGKILL once `signal` is aborted. @default 0, no SIGTERM */
  readonly graceMs?: number;
}

/** Returns the folder in which the commands of a session run. */
export const homeOf = ({ bundle }: Pick<SandboxSpec, 'bundle'>): string =>
  bundle === undefined ? '/home/user' : '/home/user/agent';

/** Returns variables in the format of `init.pl`. */
export const variablesOf = (env: Readonly<Record<string, string>>): string[] =>
  Object.entries(env).map(([name, value]) => `${name}=${value}`);

/** Runs commands in a sandbox of this machine, watched by its init or by a supervisor (`init.pl`). */
export class ProcessSession implements SandboxSession {
  readonly #sandbox: SandboxProcess;
  readonly #home: string;
  readonly #limits: string;
  readonly #env: readonly string[];
  readonly #connect: (port: number) => Promise<Socket | undefined>;
  readonly #onExec: SessionOptions['onExec'];
  readonly #onClose: () => void;
  #closing: Promise<void> | undefined;

  constructor({ sandbox, spec, env, ownProcesses = 2, connect, onExec, onClose }: SessionOptions) {
    this.#sandbox = sandbox;
    this.#home = homeOf(spec);
    const { cpuSeconds, fileBytes, processes, memoryBytes } = spec.limits;
    this.#limits = [Math.ceil(cpuSeconds), fileBytes, processes + ownProcesses, memoryBytes].join(',');
    this.#env = variablesOf(env);
    this.#connect = connect ?? ((port) => sandbox.connect(port));
    this.#onExec = onExec;
    this.#onClose = onClose;
  }

  exec(request: ExecRequest): AsyncIterable<ExecEvent> {
    this.#onExec?.(request.command);
    return this.#run({
      kind: request.endsAll ? 'job' : 'sh',
      argument: request.command,
      cwd: request.cwd ?? this.#home,
      stdin: request.stdin?.byteLength ? request.stdin : undefined,
      timeoutMs: request.timeoutMs,
      maxOutputBytes: request.maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES,
      signal: request.signal,
    });
  }

  /**
   * Runs a program without limits of time and output. The last event is `exit`, after which all its processes have
   * ended.
   */
  serve({ command, inputs, stop, graceMs }: ServeRequest): AsyncIterable<ExecEvent> {
    return this.#run({
      kind: inputs === undefined ? 'service' : 'warm',
      argument: command,
      cwd: this.#home,
      stdin: inputs,
      timeoutMs: Number.POSITIVE_INFINITY,
      maxOutputBytes: Number.POSITIVE_INFINITY,
      signal: stop,
      graceMs,
    });
  }

  /** See {@link SandboxProcess.connect}. */
  connect(port: number): Promise<Socket | undefined> {
    return this.#connect(port);
  }

  /** Whether the session is open and has never exceeded its memory limit. */
  get isSound(): boolean {
    return this.#closing === undefined && this.#sandbox.isAlive && !this.#sandbox.isOverMemory;
  }

  /** Stops all processes of the program that {@link serve} runs, until {@link resume}. */
  pause(): void {
    this.#sandbox.request('pause');
  }

  resume(): void {
    this.#sandbox.request('resume');
  }

  /** See {@link SandboxProcess.use}. */
  use(): ReturnType<SandboxProcess['use']> {
    return this.#sandbox.use();
  }

  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Resolves when all processes of the session have ended, whether it was closed or lost. */
  get gone(): Promise<void> {
    return this.#sandbox.gone;
  }

  async writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    let sourceError: { error: unknown } | undefined;
    async function* source() {
      try {
        yield* content as AsyncIterable<Uint8Array>;
      } catch (error) {
        sourceError = { error };
      }
    }
    const stdin = content instanceof Uint8Array ? (content.byteLength > 0 ? content : undefined) : source();
    await gather(this.#fileRun('write', path, { stdin }), (reason) => `cannot write ${path}: ${reason}`);
    if (sourceError) throw sourceError.error;
  }

  async readFile(path: string): Promise<AsyncIterable<Uint8Array>> {
    const events = this.#fileRun('read', path)[Symbol.asyncIterator]();
    const failed = (reason: string) => `cannot read ${path}: ${reason}`;
    // The first chunk shows whether the file can be read at all.
    const first = await events.next();
    const rest = (async function* () {
      if (!first.done) yield first.value;
      yield* { [Symbol.asyncIterator]: () => events };
    })();
    if (!first.done && first.value.type === 'stdout') return stdoutOf(rest, failed);
    return Readable.from([await gather(rest, failed)].filter((chunk) => chunk.byteLength > 0));
  }

  async listFiles(path: string, options: { recursive?: boolean } = {}): Promise<SandboxFile[]> {
    const run = this.#fileRun(options.recursive ? 'tree' : 'list', path, { maxOutputBytes: MAX_LISTING_BYTES });
    const output = await gather(run, (reason) => `cannot list ${path}: ${reason}`);
    const fields = Buffer.from(output).toString().split('\0');
    const files: SandboxFile[] = [];
    for (let index = 0; index + 2 < fields.length; index += 3) {
      const [type, size, name] = fields.slice(index, index + 3);
      files.push({ path: name!, isFolder: type === 'd', sizeBytes: type === 'd' ? 0 : Number(size) });
    }
    return files.sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  close(): Promise<void> {
    this.#closing ??= this.#sandbox.kill().then(this.#onClose);
    return this.#closing;
  }

  #fileRun(
    kind: Exclude<Run['kind'], 'sh' | 'job' | 'service' | 'warm'>,
    path: string,
    more: Partial<Run> = {},
  ): AsyncIterable<ExecEvent> {
    if (path.includes('\0')) throw new SandboxFileError('a path cannot hold a NUL character');
    return this.#run({
      kind,
      argument: posix.resolve('/home/user', path),
      cwd: '/home/user',
      timeoutMs: FILE_TIMEOUT_MS,
      maxOutputBytes: Number.POSITIVE_INFINITY,
      ...more,
    });
  }

  async *#run(run: Run): AsyncGenerator<ExecEvent> {
    const sandbox = this.#sandbox;
    const startedAt = performance.now();
    const memoryEvents = sandbox.memoryEvents;
    let reason: ExecExit['reason'] | undefined;
    const timers = new Set<NodeJS.Timeout>();
    const after = (ms: number, action: () => void) => {
      if (ms !== Number.POSITIVE_INFINITY) timers.add(setTimeout(action, Math.min(ms, 2 ** 31 - 1)));
    };
    const exit = (exitCode: number, otherwise: ExecExit['reason']): ExecEvent => ({
      type: 'exit',
      exit: { reason: reason ?? otherwise, exitCode, durationMs: performance.now() - startedAt },
    });

    const killNow = () => {
      command.order('K');
      after(KILL_GRACE_MS, () => void sandbox.kill());
    };
    const stop = (why: ExecExit['reason'], graceMs = 0) => {
      if (reason !== undefined) return;
      reason = why;
      if (graceMs === 0) return killNow();
      command.order('T');
      after(graceMs, killNow);
    };
    const onAbort = () => stop('aborted', run.graceMs);
    if (run.signal?.aborted) return void (yield exit(KILLED_EXIT_CODE, 'aborted'));
    const token = randomUUID();
    const inline = inlineStdin(run.stdin);
    const stdin = inline === undefined ? (run.stdin ? 'dial' : '') : `=${inline}`;
    const command = sandbox.exec(token, stdin, this.#limits, run.kind, run.cwd, run.argument, ...this.#env);
    run.signal?.addEventListener('abort', onAbort);
    after(run.timeoutMs, () => stop('timeout', TERM_GRACE_MS));
    const stopListening =
      run.stdin === undefined || inline !== undefined
        ? () => {}
        : sandbox.hostSocket.on(`stdin ${token}`, (stdin) => {
            // A command that does not read its input closes this connection, which is not an error.
            pipeline(Readable.from(run.stdin instanceof Uint8Array ? [run.stdin] : run.stdin!), stdin).catch(() => {});
          });

    try {
      let stdoutBytes = 0;
      for (let frame = await command.next(); frame !== undefined; frame = await command.next()) {
        const { type, data } = frame;
        if (type === 'x') {
          const code = data.readUInt32BE();
          if (code === KILLED_EXIT_CODE && reason === undefined) await sandbox.look();
          if (sandbox.memoryEvents > memoryEvents) return void (yield exit(code, 'memory_limit'));
          // Closing the session kills its commands, whose supervisor may still report the exit.
          return void (yield exit(code, this.isClosing && code === KILLED_EXIT_CODE ? 'sandbox_lost' : 'exited'));
        }
        if (type === 'f') {
          yield { type: 'stderr', data };
          return void (yield exit(126, 'exited'));
        }
        if (type === 'e') {
          yield { type: 'stderr', data };
          continue;
        }
        const room = run.maxOutputBytes - stdoutBytes;
        stdoutBytes += data.byteLength;
        if (room > 0) yield { type: 'stdout', data: data.subarray(0, room) };
        if (stdoutBytes > run.maxOutputBytes) stop('output_limit');
      }
      // The supervisor died with its command, or the command killed it. No other process watches the command's
      // processes.
      await sandbox.look();
      if (!sandbox.isOverMemory) void sandbox.kill();
      yield exit(KILLED_EXIT_CODE, this.#lossReason());
    } finally {
      stopListening();
      run.signal?.removeEventListener('abort', onAbort);
      for (const timer of timers) clearTimeout(timer);
      command.close();
    }
  }

  #lossReason(): ExecExit['reason'] {
    return this.#sandbox.isOverMemory ? 'memory_limit' : 'sandbox_lost';
  }
}

/**
 * Returns input that is sent inside the request: text that fits into the smallest pipe, without NUL, which ends a
 * field.
 */
function inlineStdin(stdin: Run['stdin']): string | undefined {
  if (!(stdin instanceof Uint8Array) || stdin.byteLength > SMALLEST_PIPE_BYTES) return undefined;
  return isUtf8(stdin) && !stdin.includes(0) ? Buffer.from(stdin).toString() : undefined;
}

async function* stdoutOf(
  events: AsyncIterable<ExecEvent>,
  message: (reason: string) => string,
): AsyncGenerator<Uint8Array> {
  let stderr = '';
  for await (const event of events) {
    if (event.type === 'exit') {
      const { reason, exitCode } = event.exit;
      if (reason !== 'exited') {
        throw new SandboxFileError(message(reason.replace('_', ' ')), { isLost: reason === 'sandbox_lost' });
      }
      if (exitCode !== 0) throw new SandboxFileError(message(stderr || 'unknown reason'));
    } else if (event.type === 'stdout') yield event.data;
    else stderr += Buffer.from(event.data).toString();
  }
}

async function gather(events: AsyncIterable<ExecEvent>, message: (reason: string) => string): Promise<Uint8Array> {
  return Buffer.concat(await Array.fromAsync(stdoutOf(events, message)));
}
