import type { Socket } from 'node:net';
import { type Frame, FrameReader } from './frames.ts';

/** What is kept of a command's frames for a reader that is slower; then its connection is read no more. */
const ROOM_BYTES = 1024 * 1024;

/** To end a command, or to kill it. */
export type Order = 'T' | 'K';

/**
 * A command in a sandbox: the frames that it sends, and orders to it. One that init itself watches sends by init's connection, any
 * other one by a connection of its own (`init.pl`).
 */
export class Command {
  readonly #orderInit: (order: Order) => void;
  readonly #onBegin: () => void;
  readonly #onEnd: () => void;
  readonly #frames: Frame[] = [];
  #bytes = 0;
  #hasBegun = false;
  #hasEnded = false;
  #isClosed = false;
  #wake = (): void => {};
  /** Of the connection by which its frames come. */
  #reader: FrameReader | undefined;
  /** Its own connection. */
  #socket: Socket | undefined;
  #order: Order | undefined;

  /**
   * @param options.orderInit Init obeys it if it watches the command.
   * @param options.onBegin Called once it is known by which connection its frames come, or that none come.
   * @param options.onEnd Called once no frame follows.
   */
  constructor(options: { orderInit: (order: Order) => void; onBegin: () => void; onEnd: () => void }) {
    this.#orderInit = options.orderInit;
    this.#onBegin = options.onBegin;
    this.#onEnd = options.onEnd;
  }

  /** The next frame; `undefined` when none follows. */
  async next(): Promise<Frame | undefined> {
    while (this.#frames.length === 0 && !this.#hasEnded) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const frame = this.#frames.shift();
    const wasFull = this.#isFull;
    this.#bytes -= frame?.data.byteLength ?? 0;
    if (wasFull && !this.#isFull) this.#reader?.goOn();
    return frame;
  }

  order(order: Order): void {
    this.#order = order;
    if (this.#socket) this.#socket.write(order);
    else this.#orderInit(order);
  }

  /** Lets go of it. Kills it unless it has ended. */
  close(): void {
    this.#isClosed = true;
    const wasFull = this.#isFull;
    this.#frames.length = 0;
    this.#bytes = 0;
    // The end of its connection tells its supervisor to kill.
    if (this.#socket) this.#socket.destroy();
    else if (!this.#hasEnded) this.#orderInit('K');
    if (wasFull) this.#reader?.goOn();
  }

  /** It has a connection of its own. */
  connect(socket: Socket): void {
    this.#begin();
    this.#socket = socket;
    if (this.#order !== undefined) socket.write(this.#order);
    const end = (): void => this.#end();
    socket.on('end', end).on('close', end);
    if (this.#isClosed) socket.destroy();
    else this.#reader = new FrameReader(socket, (frame) => this.take(frame));
  }

  /** Init watches it, and its frames come by the connection of `reader`. */
  begin(reader: FrameReader): void {
    this.#begin();
    this.#reader = reader;
  }

  /** Returns whether there is room for more. */
  take(frame: Frame): boolean {
    if (!this.#isClosed) {
      this.#frames.push(frame);
      this.#bytes += frame.data.byteLength;
    }
    if (frame.type === 'x' || frame.type === 'f') this.#end();
    else this.#wake();
    return !this.#isFull;
  }

  /** The sandbox is lost. */
  lose(): void {
    this.#end();
  }

  get #isFull(): boolean {
    return this.#bytes > ROOM_BYTES;
  }

  #begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#onBegin();
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#begin();
    this.#hasEnded = true;
    this.#onEnd();
    this.#wake();
  }
}
