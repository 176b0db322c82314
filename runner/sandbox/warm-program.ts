import {
  DEFAULT_MAX_OUTPUT_BYTES,
  type ExecEvent,
  type ExecExit,
  type ExecRequest,
  KILLED_EXIT_CODE,
  type SandboxLimits,
  type SandboxReuse,
  type SandboxSession,
  TERM_GRACE_MS,
} from '#core/ports/sandbox.ts';
import { KeptStderr } from './kept-stderr.ts';
import type { ServeRequest } from './session.ts';

/** Shares of its limits. A program that uses more of them after an input gets no further one. */
const MAX_MEMORY_SHARE = 0.8;
const MAX_PROCESSES_SHARE = 0.5;
/** A program is checked and paused this long after its last answer, and checked at most this often while it works. */
const PAUSE_MS = 100;
/** Time that a program with several inputs has to stop working on one that was cancelled. */
const CANCEL_MS = 2000;
/** Bytes of a line of stdout besides the output in it. */
const FRAME_BYTES = 1024;
const LINE_END = 10;

/** The session of a warm program. */
export interface WarmHost extends Pick<SandboxSession, 'readFile' | 'listFiles' | 'close'> {
  serve(request: ServeRequest): AsyncIterable<ExecEvent>;
  /** See `SandboxProcess.use`. */
  use(): Promise<{ readonly processes: number; readonly bytes: number } | undefined>;
  /** Stops all processes of the program until {@link resume}. */
  pause(): void;
  resume(): void;
  /** Whether the session is open and has never exceeded its memory limit. */
  readonly isSound: boolean;
}

/** An input that the program works on. */
interface Call {
  readonly push: (event: ExecEvent) => void;
  readonly stderr: KeptStderr;
  readonly maxOutputBytes: number;
  readonly startedAt: number;
  /** Why the program was stopped while it worked on this input. */
  reason?: ExecExit['reason'];
}

/**
 * A program that answers one input after another in one sandbox (`docs/interface/warm-programs.md#protocol`): each is a
 * line of JSON on its stdin, each answer a line on its stdout.
 */
export class WarmProgram {
  readonly #session: WarmHost;
  readonly #reuse: SandboxReuse;
  readonly #limits: SandboxLimits;
  readonly #inputs = new Queue<Uint8Array>();
  readonly #stop = new AbortController();
  readonly #calls = new Map<string, Call>();
  /** Inputs that were cancelled and not answered yet. */
  readonly #cancelled = new Map<string, NodeJS.Timeout>();
  /** Parts of the line of stdout that is not complete yet. */
  #line: Uint8Array[] = [];
  #lineBytes = 0;
  #uses = 0;
  #isSpent = false;
  #hasEnded = false;
  #isPaused = false;
  #lookedAt = 0;
  #pauseTimer: NodeJS.Timeout | undefined;
  /** Resolves when its last process has ended. Its session is still open then, unless it had to be killed. */
  readonly ended: Promise<void>;

  /** Starts the program. */
  constructor(
    session: WarmHost,
    { command, reuse, limits }: { command: string; reuse: SandboxReuse; limits: SandboxLimits },
  ) {
    this.#session = session;
    this.#reuse = reuse;
    this.#limits = limits;
    this.ended = this.#follow(command);
  }

  /** Whether it can take another input now. */
  get hasRoom(): boolean {
    return !this.isSpent && this.#calls.size + this.#cancelled.size < this.#reuse.concurrency;
  }

  /** Whether it takes no further input. */
  get isSpent(): boolean {
    return this.#isSpent || this.#uses >= this.#reuse.maxUses || !this.#session.isSound;
  }

  get isIdle(): boolean {
    return this.#calls.size === 0;
  }

  /** Gives it an input, and returns what it prints, its answer, and an exit. */
  async *exec(request: ExecRequest & { readonly call: string }): AsyncGenerator<ExecEvent> {
    const { call: id, stdin = new Uint8Array(), timeoutMs, signal } = request;
    const events = new Queue<ExecEvent>();
    const call: Call = {
      push: (event) => events.push(event),
      stderr: new KeptStderr(),
      maxOutputBytes: request.maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES,
      startedAt: performance.now(),
    };
    if (this.#hasEnded) {
      yield { type: 'exit', exit: { reason: 'sandbox_lost', exitCode: KILLED_EXIT_CODE, durationMs: 0 } };
      return;
    }
    this.#uses++;
    this.#calls.set(id, call);
    this.#wake();
    this.#inputs.push(stdin);
    const timer = setTimeout(() => this.#giveUp(id, 'timeout'), Math.min(timeoutMs, 2 ** 31 - 1));
    const onAbort = () => this.#giveUp(id, 'aborted');
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
    try {
      for await (const event of events) {
        yield event;
        if (event.type === 'exit') return;
      }
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      // The reader has left before the answer.
      if (this.#calls.get(id) === call) this.#giveUp(id, 'aborted');
    }
  }

  /** Ends it, as soon as it works on no input: stdin ends, and SIGTERM, and two seconds later SIGKILL. */
  end(): void {
    this.#isSpent = true;
    if (!this.isIdle) return;
    this.#wake();
    this.#inputs.end();
    this.#stop.abort();
  }

  async #follow(command: string): Promise<void> {
    let exit: ExecExit = { reason: 'sandbox_lost', exitCode: KILLED_EXIT_CODE, durationMs: 0 };
    try {
      const stop = this.#stop.signal;
      for await (const event of this.#session.serve({ command, inputs: this.#inputs, stop, graceMs: TERM_GRACE_MS })) {
        if (event.type === 'exit') exit = event.exit;
        else if (event.type === 'stdout') this.#takeStdout(event.data);
        else this.#takeStderr(event.data);
      }
    } finally {
      this.#isSpent = true;
      this.#hasEnded = true;
      this.#inputs.end();
      clearTimeout(this.#pauseTimer);
      for (const timer of this.#cancelled.values()) clearTimeout(timer);
      for (const [id, call] of this.#calls) this.#finish(id, call, unanswered(exit, call));
    }
  }

  #takeStdout(data: Uint8Array): void {
    let from = 0;
    for (let end = data.indexOf(LINE_END); end >= 0; end = data.indexOf(LINE_END, from)) {
      const line = Buffer.concat([...this.#line, data.subarray(from, end)]);
      this.#line = [];
      this.#lineBytes = 0;
      from = end + 1;
      if (line.length > 0) this.#takeLine(line);
    }
    // Of what it prints without an input, nothing is kept.
    if (from === data.length || this.isIdle) return;
    this.#line.push(data.subarray(from));
    this.#lineBytes += data.length - from;
    const longest = Math.max(0, ...[...this.#calls.values()].map(({ maxOutputBytes }) => maxOutputBytes));
    if (this.#lineBytes > longest + FRAME_BYTES) this.#exceed();
  }

  /** A line that is no answer is one of the program's log. */
  #takeLine(line: Buffer): void {
    const answer = readAnswer(line);
    if (answer === undefined) return void this.#takeStderr(Buffer.concat([line, Buffer.of(LINE_END)]));
    const { id, output, isError } = answer;
    const call = this.#calls.get(id);
    if (call === undefined) return void this.#settle(id);
    const data = Buffer.from(output);
    if (data.length > call.maxOutputBytes) return void this.#exceed();
    call.push({ type: 'stdout', data });
    this.#finish(id, call, { reason: 'exited', exitCode: isError ? 1 : 0 });
    if (performance.now() - this.#lookedAt > PAUSE_MS) void this.#look();
  }

  /** It has stopped working on a cancelled input. */
  #settle(id: string): void {
    clearTimeout(this.#cancelled.get(id));
    if (this.#cancelled.delete(id)) this.#rest();
  }

  #takeStderr(data: Uint8Array): void {
    for (const call of this.#calls.values()) {
      const head = call.stderr.take(Buffer.from(data));
      if (head.length > 0) call.push({ type: 'stderr', data: head });
    }
  }

  /** A line without end, or an output that is too large: it is not known whose it would have been. */
  #exceed(): void {
    for (const call of this.#calls.values()) call.reason ??= 'output_limit';
    this.#line = [];
    this.#lineBytes = 0;
    void this.#session.close();
  }

  #finish(id: string, call: Call, exit: Omit<ExecExit, 'durationMs'>): void {
    this.#calls.delete(id);
    const rest = call.stderr.end();
    if (rest.length > 0) call.push({ type: 'stderr', data: rest });
    call.push({ type: 'exit', exit: { ...exit, durationMs: performance.now() - call.startedAt } });
    this.#rest();
  }

  /** Ends or pauses it if it has nothing to do. */
  #rest(): void {
    if (!this.isIdle) return;
    if (this.isSpent) this.end();
    else this.#pauseTimer ??= setTimeout(() => this.#pause(), PAUSE_MS);
  }

  /** Stops an idle program, so that it uses no processor time that no run is billed for. */
  #pause(): void {
    this.#pauseTimer = undefined;
    if (!this.isIdle || this.#cancelled.size > 0) return;
    void this.#look();
    this.#isPaused = true;
    this.#session.pause();
  }

  #wake(): void {
    clearTimeout(this.#pauseTimer);
    this.#pauseTimer = undefined;
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#session.resume();
  }

  /** A program with one input is killed; one with several may first stop working on this one. */
  #giveUp(id: string, reason: 'timeout' | 'aborted'): void {
    const call = this.#calls.get(id);
    if (call === undefined || call.reason !== undefined) return;
    call.reason = reason;
    if (this.#reuse.concurrency === 1) {
      this.#isSpent = true;
      if (reason === 'timeout') this.#stop.abort();
      else void this.#session.close();
      return;
    }
    this.#inputs.push(Buffer.from(`${JSON.stringify({ cancel: id })}\n`));
    const onLate = () => {
      this.#settle(id);
      this.end();
    };
    this.#cancelled.set(id, setTimeout(onLate, CANCEL_MS));
    this.#finish(id, call, { reason, exitCode: KILLED_EXIT_CODE });
  }

  /** Ends it early if it has come near its limits, which would end it while it works. */
  async #look(): Promise<void> {
    this.#lookedAt = performance.now();
    const use = await this.#session.use();
    if (use === undefined) return;
    const { memoryBytes, processes } = this.#limits;
    if (use.bytes > memoryBytes * MAX_MEMORY_SHARE || use.processes > processes * MAX_PROCESSES_SHARE) this.end();
  }
}

/** How the program ended counts for each input that it did not answer. Without an answer, its exit is no success. */
function unanswered({ reason, exitCode }: ExecExit, call: Call): Omit<ExecExit, 'durationMs'> {
  if (call.reason !== undefined) return { reason: call.reason, exitCode };
  if (reason !== 'exited' || exitCode !== 0) return { reason, exitCode };
  call.push({ type: 'stderr', data: Buffer.from('The program ended before it answered this input.\n') });
  return { reason, exitCode: 1 };
}

/** Reads `{"call", "output"}` or `{"call", "error"}`. */
function readAnswer(line: Buffer): { id: string; output: string; isError: boolean } | undefined {
  if (line[0] !== 0x7b) return undefined;
  let given: { call?: unknown; output?: unknown; error?: unknown };
  try {
    given = JSON.parse(line.toString());
  } catch {
    return undefined;
  }
  const { call: id, output, error } = given;
  if (typeof id !== 'string') return undefined;
  if (error !== undefined && error !== null)
    return { id, output: JSON.stringify({ error: String(error) }), isError: true };
  return { id, output: JSON.stringify(output ?? null), isError: false };
}

/** Values for one reader. */
class Queue<Value> implements AsyncIterable<Value> {
  readonly #values: Value[] = [];
  #hasEnded = false;
  #wake = (): void => {};

  push(value: Value): void {
    this.#values.push(value);
    this.#wake();
  }

  end(): void {
    this.#hasEnded = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Value> {
    for (;;) {
      while (this.#values.length > 0) yield this.#values.shift()!;
      if (this.#hasEnded) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
