import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import type { SandboxLimits } from '#core/ports/sandbox.ts';
import { Door, record } from './door.ts';

export interface BoxSpec {
  /** What init listens on and dials the platform for: `egress=3128,gateway=4280`, or empty. */
  readonly ports: string;
  readonly diskBytes: number;
  /** The plan, bubblewrap's command line, or `container`, as `launcher.pl` takes it; given the token of the sandbox. */
  how(token: string): readonly string[];
}

/** A started sandbox, used or waiting. */
export class Box {
  readonly token: string;
  readonly door: Door;
  /** Resolves when no process of it is left. */
  readonly gone: Promise<void>;
  /** Set when its memory passed the limit. */
  isOverMemory = false;
  readonly #launcher: Writable;
  readonly #control: Socket;

  constructor(token: string, door: Door, control: Socket, launcher: Writable, gone: Promise<void>) {
    this.token = token;
    this.door = door;
    this.#control = control;
    this.#launcher = launcher;
    this.gone = gone;
  }

  /** False when it has died. */
  get isOpen(): boolean {
    return !this.#control.destroyed;
  }

  onLost(callback: () => void): () => void {
    this.#control.once('close', callback);
    return () => this.#control.off('close', callback);
  }

  request(...fields: (string | number)[]): void {
    this.#control.write(record(...fields));
  }

  watch({ memoryBytes, diskBytes }: Pick<SandboxLimits, 'memoryBytes' | 'diskBytes'>): void {
    this.#launcher.write(record('watch', this.token, memoryBytes, diskBytes));
  }

  async kill(): Promise<void> {
    this.#control.destroy();
    this.#launcher.write(record('kill', this.token));
    await this.gone;
  }
}

/** The one Perl process that forks sandboxes: much cheaper than a spawn from a process of Node's size. */
export class Launcher {
  readonly #process: ChildProcess;
  readonly #stdin: Writable;
  readonly #door: Door;
  readonly #events = new EventEmitter().setMaxListeners(0);
  readonly #boxes = new Map<string, Box>();

  private constructor(child: ChildProcess, door: Door) {
    this.#process = child;
    this.#stdin = child.stdin!;
    this.#door = door;
  }

  /**
   * `scratch` is a folder of the launcher's own, removed with it. As root, `sources` are laid out as /mnt/0, /mnt/1, ...
   * for it and its children alone. Throws with the reason when it cannot start.
   */
  static async start(options: {
    perl: string;
    script: string;
    scratch: string;
    sources: readonly string[];
    log: (line: string) => void;
  }): Promise<Launcher> {
    const door = await Door.open(`${options.scratch}/door`);
    const child = spawn(options.perl, [options.script, options.scratch, ...options.sources], {
      cwd: '/',
      // Nothing of the platform's environment can leak from where it never was.
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
      // A session of its own: a Ctrl-C in the platform's terminal is the platform's to handle.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const launcher = new Launcher(child, door);
    let stderr = '';
    child.stderr.on('data', (chunk) => {
      stderr = (stderr + chunk).slice(-2000);
      options.log(`sandbox launcher: ${String(chunk).trim()}`);
    });
    child.stdin.on('error', () => {});
    const started = Promise.race([
      once(launcher.#events, 'started'),
      once(child, 'exit').then(() => {
        throw new Error(stderr.trim() || 'the sandbox launcher ended');
      }),
      once(child, 'error').then(([error]) => {
        throw error;
      }),
    ]);
    launcher.#listen(child.stdout);
    await started;
    return launcher;
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  async start(spec: BoxSpec): Promise<Box> {
    const token = randomBytes(16).toString('hex');
    const greeting = `init ${token}`;
    let stopListening = () => {};
    const control = new Promise<Socket>((resolve) => {
      stopListening = this.#door.on(greeting, resolve);
    });
    const gone = new Promise<void>((resolve) => this.#events.once(`gone ${token}`, () => resolve()));
    const ready = new Promise<void>((resolve, reject) => {
      this.#events.once(`ready ${token}`, resolve);
      this.#events.once(`failed ${token}`, (reason) => reject(new Error(reason.trim() || 'the sandbox did not start')));
    });
    this.#stdin.write(record('start', token, token, spec.ports, spec.diskBytes, ...spec.how(token)));
    try {
      // It may go between the two, and then neither would ever be heard of.
      const lost = gone.then(() => {
        throw new Error('the sandbox ended while it started');
      });
      const [socket] = await Promise.race([Promise.all([control, ready]), lost]);
      socket.on('readable', () => socket.read());
      socket.on('end', () => socket.destroy());
      const box = new Box(token, this.#door, socket, this.#stdin, gone);
      this.#boxes.set(token, box);
      void gone.then(() => {
        socket.destroy();
        this.#boxes.delete(token);
      });
      return box;
    } finally {
      stopListening();
      this.#events.removeAllListeners(`ready ${token}`);
      this.#events.removeAllListeners(`failed ${token}`);
    }
  }

  /** Ends every sandbox. */
  async close(): Promise<void> {
    const exited = this.isRunning ? once(this.#process, 'exit') : undefined;
    this.#stdin.end();
    await exited;
    this.#door.close();
  }

  #listen(stdout: Readable): void {
    let buffer = Buffer.alloc(0);
    stdout.on('data', (chunk: Buffer) => {
      buffer = Buffer.concat([buffer, chunk]);
      while (buffer.length >= 4 && buffer.length >= 4 + buffer.readUInt32BE()) {
        const [event, token, detail] = buffer.toString('utf8', 4, 4 + buffer.readUInt32BE()).split('\0');
        buffer = buffer.subarray(4 + buffer.readUInt32BE());
        if (event === 'memory') this.#onMemory(token!);
        this.#events.emit(token === undefined ? event! : `${event} ${token}`, detail ?? '');
      }
    });
    stdout.on('close', () => {
      for (const name of this.#events.eventNames()) {
        const [event] = String(name).split(' ');
        if (event === 'gone' || event === 'failed') this.#events.emit(name, 'the sandbox launcher ended');
      }
    });
  }

  /** Only the commands die, at first; the launcher ends a sandbox that stays over. */
  #onMemory(token: string): void {
    const box = this.#boxes.get(token);
    if (!box) return;
    box.isOverMemory = true;
    box.request('killall');
  }
}
