import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type ExecEvent,
  type ExecExit,
  type ExecRequest,
  type SandboxFile,
  SandboxFileError,
  type SandboxSession,
  type SandboxSpec,
} from '#core/ports/sandbox.ts';
import type { Box } from './launcher.ts';

const DEFAULT_MAX_OUTPUT_BYTES = 10 * 1024 * 1024;
const TERM_GRACE_MS = 2000;
/** How long a supervisor may take to end what it was told to kill, before the whole sandbox is ended instead. */
const KILL_GRACE_MS = 2000;
const FILE_TIMEOUT_MS = 120_000;
const MAX_LISTING_BYTES = 8 * 1024 * 1024;
const KILLED = 137;
/** Frames from a supervisor: type, length, data (see `inside.pl`). */
const FRAME_HEAD_BYTES = 5;

export interface SessionOptions {
  readonly box: Box;
  readonly spec: SandboxSpec;
  /** Complete, with PATH and all. */
  readonly env: Readonly<Record<string, string>>;
  /** Processes and threads of ours that count against the same limit. @default 2, init and one supervisor */
  readonly ownProcesses?: number;
  onClose(): void;
}

interface Run {
  readonly kind: 'sh' | 'write' | 'read' | 'list' | 'tree';
  readonly argument: string;
  readonly cwd: string;
  readonly stdin?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  readonly signal?: AbortSignal;
}

export class BoxSession implements SandboxSession {
  readonly #box: Box;
  readonly #home: string;
  readonly #limits: string;
  readonly #env: readonly string[];
  readonly #onClose: () => void;
  #closing: Promise<void> | undefined;

  constructor({ box, spec, env, ownProcesses = 2, onClose }: SessionOptions) {
    this.#box = box;
    this.#home = spec.bundle === undefined ? '/home/user' : '/home/user/agent';
    const { cpuSeconds, fileBytes, processes, memoryBytes } = spec.limits;
    this.#limits = [Math.ceil(cpuSeconds), fileBytes, processes + ownProcesses, memoryBytes].join(',');
    this.#env = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    this.#onClose = onClose;
  }

  exec(request: ExecRequest): AsyncIterable<ExecEvent> {
    return this.#run({
      kind: 'sh',
      argument: request.command,
      cwd: request.cwd ?? this.#home,
      stdin: request.stdin?.byteLength ? request.stdin : undefined,
      timeoutMs: request.timeoutMs,
      maxOutputBytes: request.maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES,
      signal: request.signal,
    });
  }

  async writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    let sourceError: { error: unknown } | undefined;
    async function* source() {
      try {
        if (content instanceof Uint8Array) yield content;
        else yield* content;
      } catch (error) {
        sourceError = { error };
      }
    }
    await gather(this.#fileRun('write', path, { stdin: source() }), (reason) => `cannot write ${path}: ${reason}`);
    if (sourceError) throw sourceError.error;
  }

  async readFile(path: string): Promise<AsyncIterable<Uint8Array>> {
    const events = this.#fileRun('read', path)[Symbol.asyncIterator]();
    const failed = (reason: string) => `cannot read ${path}: ${reason}`;
    // The first chunk tells whether the file can be read at all.
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
    this.#closing ??= this.#box.kill().then(this.#onClose);
    return this.#closing;
  }

  #fileRun(kind: Exclude<Run['kind'], 'sh'>, path: string, more: Partial<Run> = {}): AsyncIterable<ExecEvent> {
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
    const box = this.#box;
    const startedAt = performance.now();
    const token = randomBytes(16).toString('hex');
    let reason: ExecExit['reason'] | undefined;
    let socket: Socket | undefined;
    const timers = new Set<NodeJS.Timeout>();
    const after = (ms: number, action: () => void) => timers.add(setTimeout(action, Math.min(ms, 2 ** 31 - 1)));
    const exit = (exitCode: number, otherwise: ExecExit['reason']): ExecEvent => ({
      type: 'exit',
      exit: { reason: reason ?? otherwise, exitCode, durationMs: performance.now() - startedAt },
    });

    const killNow = () => {
      socket?.write('K');
      after(KILL_GRACE_MS, () => void box.kill());
    };
    const stop = (why: ExecExit['reason']) => {
      if (reason !== undefined) return;
      reason = why;
      if (why !== 'timeout') return killNow();
      socket?.write('T');
      after(TERM_GRACE_MS, killNow);
    };
    const onAbort = () => stop('aborted');
    if (run.signal?.aborted) return void (yield exit(KILLED, 'aborted'));
    run.signal?.addEventListener('abort', onAbort);
    after(run.timeoutMs, () => stop('timeout'));
    const stopListening = box.door.on(`stdin ${token}`, (stdin) => {
      // A command that does not read its input closes this connection; that is its affair.
      pipeline(Readable.from(run.stdin instanceof Uint8Array ? [run.stdin] : run.stdin!), stdin).catch(() => {});
    });

    try {
      socket = await this.#start(run, token);
      if (!socket) return void (yield exit(KILLED, this.#lossReason()));
      if (reason !== undefined) socket.write(reason === 'timeout' ? 'T' : 'K');
      let outputBytes = 0;
      for await (const { type, data } of frames(socket)) {
        if (type === 'x') return void (yield exit(data.readUInt32BE(), 'exited'));
        if (type === 'f') {
          yield { type: 'stderr', data };
          return void (yield exit(126, 'exited'));
        }
        const room = run.maxOutputBytes - outputBytes;
        outputBytes += data.byteLength;
        if (room > 0) yield { type: type === 'o' ? 'stdout' : 'stderr', data: data.subarray(0, room) };
        if (outputBytes > run.maxOutputBytes) stop('output_limit');
      }
      // The supervisor died with its command, or was killed by it; then nobody watches over that command's processes.
      if (!box.isOverMemory) void box.kill();
      yield exit(KILLED, this.#lossReason());
    } finally {
      stopListening();
      run.signal?.removeEventListener('abort', onAbort);
      for (const timer of timers) clearTimeout(timer);
      // An end before the exit event tells the supervisor to kill.
      socket?.destroy();
    }
  }

  /** Answers the supervisor's connection; `undefined` when the sandbox dies before it comes. */
  #start(run: Run, token: string): Promise<Socket | undefined> {
    const box = this.#box;
    return new Promise((resolve) => {
      const settle = (socket?: Socket) => {
        stopListening();
        forgetLoss();
        resolve(socket);
      };
      const stopListening = box.door.on(`exec ${token}`, settle);
      const forgetLoss = box.onLost(() => settle());
      if (!box.isOpen) return settle();
      box.request('exec', token, run.stdin ? 1 : 0, this.#limits, run.kind, run.cwd, run.argument, ...this.#env);
    });
  }

  #lossReason(): ExecExit['reason'] {
    return this.#box.isOverMemory ? 'memory_limit' : 'sandbox_lost';
  }
}

async function* frames(socket: Socket): AsyncGenerator<{ type: string; data: Buffer }> {
  let buffer: Buffer = Buffer.alloc(0);
  try {
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      buffer = buffer.length === 0 ? chunk : Buffer.concat([buffer, chunk]);
      while (buffer.length >= FRAME_HEAD_BYTES) {
        const end = FRAME_HEAD_BYTES + buffer.readUInt32BE(1);
        if (buffer.length < end) break;
        yield { type: String.fromCharCode(buffer[0]!), data: buffer.subarray(FRAME_HEAD_BYTES, end) };
        buffer = buffer.subarray(end);
      }
    }
  } catch {
    // Reset, or destroyed with the sandbox: the same as an end.
  }
}

async function* stdoutOf(
  events: AsyncIterable<ExecEvent>,
  message: (reason: string) => string,
): AsyncGenerator<Uint8Array> {
  let stderr = '';
  for await (const event of events) {
    if (event.type === 'exit') {
      const { reason, exitCode } = event.exit;
      if (reason !== 'exited') throw new SandboxFileError(message(reason.replace('_', ' ')));
      if (exitCode !== 0) throw new SandboxFileError(message(stderr || 'unknown reason'));
    } else if (event.type === 'stdout') yield event.data;
    else stderr += Buffer.from(event.data).toString();
  }
}

async function gather(events: AsyncIterable<ExecEvent>, message: (reason: string) => string): Promise<Uint8Array> {
  return Buffer.concat(await Array.fromAsync(stdoutOf(events, message)));
}
