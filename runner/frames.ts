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
 * What a socket sends, until it ends or is destroyed. As the socket's own iterator, which makes an error with a trace of the stack
 * for each socket that is destroyed before its end.
 */
export async function* chunksOf(socket: Socket): AsyncGenerator<Buffer> {
  let wake = () => {};
  const onEvent = () => wake();
  socket.on('readable', onEvent).on('end', onEvent).on('close', onEvent);
  try {
    while (true) {
      const changed = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const chunk: Buffer | null = socket.read();
      if (chunk !== null) yield chunk;
      else if (socket.readableEnded || socket.destroyed) return;
      else await changed;
    }
  } finally {
    socket.off('readable', onEvent).off('end', onEvent).off('close', onEvent);
  }
}

/** An incomplete block at the end of `chunks` is dropped. */
async function* decode(
  chunks: AsyncIterable<Uint8Array>,
  prefixBytes: number,
): AsyncGenerator<{ prefix: Buffer; data: Buffer }> {
  const headBytes = prefixBytes + LENGTH_BYTES;
  let buffer: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    buffer = buffer.length === 0 ? Buffer.from(chunk) : Buffer.concat([buffer, chunk]);
    while (buffer.length >= headBytes) {
      const end = headBytes + buffer.readUInt32BE(prefixBytes);
      if (buffer.length < end) break;
      yield { prefix: buffer.subarray(0, prefixBytes), data: buffer.subarray(headBytes, end) };
      buffer = buffer.subarray(end);
    }
  }
}
