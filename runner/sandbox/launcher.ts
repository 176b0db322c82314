import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import type { SandboxLimits } from '#core/ports/sandbox.ts';
import { Command } from './command.ts';
import { decodeRecords, encodeRecord, type Frame, FrameReader } from './frames.ts';
import { HostSocket } from './host-socket.ts';

export interface SandboxProcessSpec {
  /**
   * Ports on which init accepts connections for the platform: `egress=3128,target-0=5432=127.80.0.1=db.example.com`,
   * or empty. Without an address it is 127.0.0.1; a name resolves to the address inside.
   */
  readonly ports: string;
  readonly diskBytes: number;
  /** Size of the bundle, for which the sandbox's files get additional space if it must be copied. @default 0 */
  readonly bundleBytes?: number;
  /** A plan with own folders, bubblewrap's command line, or `container`, in the format of `launcher.pl`. */
  setup(token: string): readonly string[];
}

/** A started sandbox: its init process and all descendants. */
export class SandboxProcess {
  readonly token: string;
  readonly hostSocket: HostSocket;
  /** Resolves when the last process of the sandbox has ended. */
  readonly gone: Promise<void>;
  /** Whether the sandbox's memory has exceeded its limit. */
  isOverMemory = false;
  /** Number of times that the memory has exceeded its limit. */
  memoryEvents = 0;
  readonly #launcher: Writable;
  readonly #bundleBytes: number;
  readonly #control: Socket;
  readonly #events: EventEmitter;
  readonly #reader: FrameReader;
  /** Commands in progress by their token. */
  readonly #commands = new Map<string, Command>();
  /** Command whose frames come over the control connection. */
  #current: Command | undefined;
  /** Number of commands that may start on the control connection after the current one. */
  #unbegun = 0;
  #isGone = false;

  constructor(
    token: string,
    hostSocket: HostSocket,
    control: Socket,
    launcher: { stdin: Writable; events: EventEmitter },
    gone: Promise<void>,
    bundleBytes: number,
  ) {
    this.#bundleBytes = bundleBytes;
    this.token = token;
    this.hostSocket = hostSocket;
    this.#control = control;
    this.#launcher = launcher.stdin;
    this.#events = launcher.events;
    this.gone = gone;
    this.#reader = new FrameReader(control, (frame) => this.#take(frame));
    control.once('close', () => {
      for (const command of this.#commands.values()) command.lose();
    });
    void gone.then(() => {
      this.#isGone = true;
      // Data sent earlier is read before the end.
      this.#reader.goOn();
    });
  }

  get isAlive(): boolean {
    return !this.#isGone && !this.#control.destroyed;
  }

  onLost(callback: () => void): () => void {
    this.#control.once('close', callback);
    return () => this.#control.off('close', callback);
  }

  /**
   * Starts a command; the fields after its token are those of `begin_command` in `init.pl`. No-op if the sandbox is
   * lost.
   */
  exec(token: string, ...fields: readonly string[]): Command {
    const stopListening = this.hostSocket.on(`exec ${token}`, (socket) => command.connect(socket));
    const command = new Command({
      orderInit: (order) => this.request('order', token, order),
      onBegin: () => this.#unbegun--,
      onEnd: () => {
        this.#commands.delete(token);
        stopListening();
      },
    });
    this.#commands.set(token, command);
    this.#unbegun++;
    this.#reader.goOn();
    if (this.isAlive) this.request('exec', token, ...fields);
    else command.lose();
    return command;
  }

  request(...fields: (string | number)[]): void {
    this.#control.write(encodeRecord(...fields));
  }

  /**
   * Connects to a program inside that listens on `port`. Resolves to `undefined` if none does or the sandbox is lost.
   * Settles within twenty seconds, even if a program listens but does not accept.
   */
  connect(port: number): Promise<Socket | undefined> {
    const name = randomUUID();
    return new Promise((resolve) => {
      const settle = (socket?: Socket) => {
        for (const stop of stops) stop();
        resolve(socket);
      };
      const refuse = (socket: Socket) => {
        socket.destroy();
        settle();
      };
      const stops = [
        this.hostSocket.on(`inbound ${name}`, settle),
        this.hostSocket.on(`refused ${name}`, refuse),
        this.onLost(() => settle()),
      ];
      if (!this.isAlive) return settle();
      this.request('connect', name, port);
    });
  }

  watch({ memoryBytes, diskBytes, processes }: SandboxLimits): void {
    const filesBytes = diskBytes + this.#bundleBytes;
    this.#launcher.write(encodeRecord('watch', this.token, memoryBytes, filesBytes, processes));
  }

  /** Resolves once {@link memoryEvents} is up to date: the kernel kills processes without notifying the launcher. */
  async look(): Promise<void> {
    const looked = once(this.#events, `looked ${this.token}`);
    this.#launcher.write(encodeRecord('look', this.token));
    await Promise.race([looked, this.gone]);
  }

  /** Returns what the sandbox uses now, shared memory counted for each process; `undefined` if it is ending. */
  async use(): Promise<{ readonly processes: number; readonly bytes: number } | undefined> {
    const used = once(this.#events, `used ${this.token}`);
    this.#launcher.write(encodeRecord('use', this.token));
    const [text = ''] = (await Promise.race([used, this.gone.then(() => [])])) as [string?];
    const [processes, bytes] = text.split(' ').map(Number);
    return processes === undefined || bytes === undefined ? undefined : { processes, bytes };
  }

  async kill(): Promise<void> {
    this.#control.destroy();
    this.#launcher.write(encodeRecord('kill', this.token));
    await this.gone;
  }

  /**
   * Returns whether more frames can be read. Always true while a command has not started: the output of the previous
   * command may stay unread until that has ended. If it does not end, the new one soon gets its own connection.
   */
  #take(frame: Frame): boolean {
    if (frame.type !== 's') return (this.#current?.take(frame) ?? true) || this.#unbegun > 0;
    this.#current = this.#commands.get(frame.data.toString('latin1'));
    this.#current?.begin(this.#reader);
    return true;
  }
}

/** The one Perl process that forks sandboxes. A fork from it is much cheaper than a spawn from Node's large process. */
export class Launcher {
  readonly #process: ChildProcess;
  readonly #stdin: Writable;
  readonly #hostSocket: HostSocket;
  readonly #events = new EventEmitter().setMaxListeners(0);
  readonly #sandboxes = new Map<string, SandboxProcess>();

  private constructor(child: ChildProcess, hostSocket: HostSocket) {
    this.#process = child;
    this.#stdin = child.stdin!;
    this.#hostSocket = hostSocket;
  }

  /**
   * Throws with the reason if the launcher cannot start.
   * @param options.scratch Folder of this launcher only, removed when it ends.
   * @param options.group Parent cgroup of the sandboxes, made for this launcher. Without it, watchers enforce the
   * limits.
   * @param options.sources As root, mounted as /mnt/0, /mnt/1, ... for the launcher and its children only.
   * @param options.plans By name: an operation, a path inside and a source, for each entry of the file system
   * (`build_common`).
   */
  static async start(options: {
    perl: string;
    script: string;
    scratch: string;
    group?: string;
    sources: readonly string[];
    plans?: Readonly<Record<string, readonly string[]>>;
    log: (line: string) => void;
  }): Promise<Launcher> {
    const hostSocket = await HostSocket.open(`${options.scratch}/host.sock`);
    const child = spawn(options.perl, [options.script, options.scratch, options.group ?? '', ...options.sources], {
      cwd: '/',
      // The launcher never gets the platform's environment, so it cannot leak it.
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
      // A separate session keeps Ctrl-C in the platform's terminal away from the launcher: the platform handles it.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const launcher = new Launcher(child, hostSocket);
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
    void launcher.#listen(child.stdout);
    await started;
    for (const [name, plan] of Object.entries(options.plans ?? {})) {
      child.stdin.write(encodeRecord('plan', name, ...plan));
    }
    return launcher;
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** Throws with the reason if the sandbox cannot start. */
  async startSandbox(spec: SandboxProcessSpec): Promise<SandboxProcess> {
    const token = randomUUID();
    const greeting = `init ${token}`;
    let stopListening = () => {};
    const control = new Promise<Socket>((resolve) => {
      stopListening = this.#hostSocket.on(greeting, resolve);
    });
    const gone = new Promise<void>((resolve) => this.#events.once(`gone ${token}`, () => resolve()));
    const ready = new Promise<void>((resolve, reject) => {
      this.#events.once(`ready ${token}`, resolve);
      this.#events.once(`failed ${token}`, (reason) => reject(new Error(reason.trim() || 'the sandbox did not start')));
    });
    this.#stdin.write(encodeRecord('start', token, token, spec.ports, spec.diskBytes, ...spec.setup(token)));
    try {
      // Stops the wait if the sandbox ends before both events arrive.
      const lost = gone.then(() => {
        throw new Error('the sandbox ended while it started');
      });
      const [socket] = await Promise.race([Promise.all([control, ready]), lost]);
      // Each starting connection adds a listener.
      socket.setMaxListeners(0);
      socket.on('end', () => socket.destroy());
      const sandbox = new SandboxProcess(
        token,
        this.#hostSocket,
        socket,
        { stdin: this.#stdin, events: this.#events },
        gone,
        spec.bundleBytes ?? 0,
      );
      this.#sandboxes.set(token, sandbox);
      void gone.then(() => this.#sandboxes.delete(token));
      return sandbox;
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
    this.#hostSocket.close();
  }

  async #listen(stdout: Readable): Promise<void> {
    try {
      for await (const [event, token, detail] of decodeRecords(stdout)) {
        if (event === 'memory') this.#onMemory(token!);
        this.#events.emit(token === undefined ? event! : `${event} ${token}`, detail ?? '');
      }
    } catch {
      // A pipe error means that the launcher has ended.
    }
    for (const name of this.#events.eventNames()) {
      const [event] = String(name).split(' ');
      if (event === 'gone' || event === 'failed') this.#events.emit(name, 'the sandbox launcher ended');
    }
  }

  /** At first only the commands are killed. The launcher kills a sandbox that stays over its limit. */
  #onMemory(token: string): void {
    const sandbox = this.#sandboxes.get(token);
    if (!sandbox) return;
    sandbox.isOverMemory = true;
    sandbox.memoryEvents++;
    sandbox.request('killall');
  }
}
