import type { Socket } from 'node:net';

/**
 * The encodings between the platform, a runner and the Perl programs. Lengths are 32-bit big-endian.
 *
 * - A frame: one letter for its type, the length of its data, the data.
 * - A record: the length of its text, its fields joined by NUL.
 */
const LENGTH_BYTES = 4;
const TYPE_BYTES = 1;

export interface Frame {
  readonly type: string;
  readonly data: Buffer;
}

export function encodeFrame(type: string, data: Uint8Array): Buffer {
  const head = Buffer.alloc(TYPE_BYTES + LENGTH_BYTES);
  head.write(type, 'latin1');
  head.writeUInt32BE(data.byteLength, TYPE_BYTES);
  return Buffer.concat([head, data]);
}

export async function* decodeFrames(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Frame> {
  for await (const { prefix, data } of decode(chunks, TYPE_BYTES)) yield { type: prefix.toString('latin1'), data };
}

export function encodeRecord(...fields: (string | number)[]): Buffer {
  const text = Buffer.from(fields.join('\0'));
  const head = Buffer.alloc(LENGTH_BYTES);
  head.writeUInt32BE(text.byteLength);
  return Buffer.concat([head, text]);
}

export async function* decodeRecords(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string[]> {
  for await (const { data } of decode(chunks, 0)) yield data.toString().split('\0');
}

/**
 * Reads the frames of a socket. Does not use the socket's iterator, which creates an error with a stack trace for each
 * socket that is destroyed before its end.
 */
export class FrameReader {
  readonly #socket: Socket;
  readonly #take: (frame: Frame) => boolean;
  readonly #blocks = new Blocks(TYPE_BYTES);
  #hasRoom = true;

  /** @param take Gets each frame. If it returns false, the socket is paused until {@link goOn}. */
  constructor(socket: Socket, take: (frame: Frame) => boolean) {
    this.#socket = socket;
    this.#take = take;
    socket.on('readable', () => {
      if (this.#hasRoom) this.goOn();
    });
    this.goOn();
  }

  goOn(): void {
    this.#hasRoom = true;
    for (let chunk = this.#socket.read(); chunk !== null; chunk = this.#socket.read()) {
      for (const { prefix, data } of this.#blocks.add(chunk)) {
        this.#hasRoom = this.#take({ type: prefix.toString('latin1'), data });
      }
      if (!this.#hasRoom) return;
    }
  }
}

/** An incomplete block at the end of `chunks` is dropped. */
async function* decode(chunks: AsyncIterable<Uint8Array>, prefixBytes: number): AsyncGenerator<Block> {
  const blocks = new Blocks(prefixBytes);
  for await (const chunk of chunks) yield* blocks.add(chunk);
}

interface Block {
  readonly prefix: Buffer;
  readonly data: Buffer;
}

class Blocks {
  readonly #prefixBytes: number;
  #rest: Buffer = Buffer.alloc(0);

  constructor(prefixBytes: number) {
    this.#prefixBytes = prefixBytes;
  }

  /** Returns the blocks that this chunk completes. */
  add(chunk: Uint8Array): Block[] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const headBytes = this.#prefixBytes + LENGTH_BYTES;
    const blocks: Block[] = [];
    while (this.#rest.length >= headBytes) {
      const end = headBytes + this.#rest.readUInt32BE(this.#prefixBytes);
      if (this.#rest.length < end) break;
      blocks.push({
        prefix: this.#rest.subarray(0, this.#prefixBytes),
        data: this.#rest.subarray(headBytes, end),
      });
      this.#rest = this.#rest.subarray(end);
    }
    return blocks;
  }
}
