import type { Socket } from 'node:net';
import { type Frame, FrameReader } from './frames.ts';

/** Buffer for the frames of a command whose reader is slower. When it is full, the connection is not read. */
const ROOM_BYTES = 1024 * 1024;

/** Terminates (`T`) or kills (`K`) a command. */
export type Order = 'T' | 'K';

/**
 * A command in a sandbox: its frames, and orders to it. A command that init itself watches sends over init's
 * connection, any other one over its own connection (`init.pl`).
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
  /** Reader of the connection that carries its frames. */
  #reader: FrameReader | undefined;
  /** Its own connection, if it has one. */
  #socket: Socket | undefined;
  #order: Order | undefined;

  /**
   * @param options.orderInit Init obeys the order if it watches the command.
   * @param options.onBegin Called once the connection of its frames is known, or that none will come.
   * @param options.onEnd Called after the last frame.
   */
  constructor(options: { orderInit: (order: Order) => void; onBegin: () => void; onEnd: () => void }) {
    this.#orderInit = options.orderInit;
    this.#onBegin = options.onBegin;
    this.#onEnd = options.onEnd;
  }

  /** Returns the next frame, or `undefined` after the last one. */
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

  /** Releases the command. Kills it unless it has ended. */
  close(): void {
    this.#isClosed = true;
    const wasFull = this.#isFull;
    this.#frames.length = 0;
    this.#bytes = 0;
    // The end of its connection makes its supervisor kill it.
    if (this.#socket) this.#socket.destroy();
    else if (!this.#hasEnded) this.#orderInit('K');
    if (wasFull) this.#reader?.goOn();
  }

  /** Called if the command has its own connection. */
  connect(socket: Socket): void {
    this.#begin();
    this.#socket = socket;
    if (this.#order !== undefined) socket.write(this.#order);
    const end = (): void => this.#end();
    socket.on('end', end).on('close', end);
    if (this.#isClosed) socket.destroy();
    else this.#reader = new FrameReader(socket, (frame) => this.take(frame));
  }

  /** Called if init watches the command, whose frames come over the connection of `reader`. */
  begin(reader: FrameReader): void {
    this.#begin();
    this.#reader = reader;
  }

  /** Buffers a frame. Returns whether the buffer can take more. */
  take(frame: Frame): boolean {
    if (!this.#isClosed) {
      this.#frames.push(frame);
      this.#bytes += frame.data.byteLength;
    }
    if (frame.type === 'x' || frame.type === 'f') this.#end();
    else this.#wake();
    return !this.#isFull;
  }

  /** Called when the sandbox is lost. */
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
