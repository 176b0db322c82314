import { createHash } from 'node:crypto';

/**
 * POSIX (pax) archives with regular files only: paths and contents, no other metadata. Own code, because tar-stream accepts
 * archives that a restore must refuse (`tar.test.ts`), and writes long paths and large sizes in forms that earlier versions of the
 * platform misread.
 */

const BLOCK = 512;
/** Largest value of eleven octal digits. */
const MAX_OCTAL_SIZE = 8 ** 11 - 1;
/** Maximum size of a file's pax header. */
const MAX_PAX_BYTES = 64 * 1024;

/** Thrown for a file that is not an archive or is incomplete. `message` is the end of a sentence about it. */
export class ArchiveError extends Error {
  readonly code = 'ARCHIVE';
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ArchiveError';
  }
}

/** Returns the header of a file. `padding` follows the file's bytes. */
export function fileHeader(path: string, size: number): Buffer {
  const isShort = Buffer.byteLength(path) <= 100 && size <= MAX_OCTAL_SIZE;
  if (isShort) return header(path, size, '0');
  const records = Buffer.from(paxRecord('path', path) + paxRecord('size', String(size)));
  const pax = [header('pax', records.length, 'x'), records, padding(records.length)];
  // Readers take path and size from the pax records.
  return Buffer.concat([...pax, header('long', Math.min(size, MAX_OCTAL_SIZE), '0')]);
}

export const padding = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
export const ARCHIVE_END = Buffer.alloc(2 * BLOCK);

function header(name: string, size: number, type: string): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1');
  block.write(name, 0);
  octal(0o600, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.write(type, 156, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  block.write(`${checksum(block).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

/** Sum of the bytes, with spaces in place of the checksum itself. */
function checksum(block: Buffer): number {
  let sum = 8 * 0x20;
  for (const [index, byte] of block.entries()) if (index < 148 || index >= 156) sum += byte;
  return sum;
}

/** `LENGTH name=value\n`, where the length counts its own digits. */
function paxRecord(name: string, value: string): string {
  const rest = ` ${name}=${value}\n`;
  const bytes = Buffer.byteLength(rest);
  let length = bytes + 1;
  while (String(length).length + bytes !== length) length = String(length).length + bytes;
  return `${length}${rest}`;
}

export interface ArchivedFile {
  readonly path: string;
  readonly size: number;
  /** SHA-256 of all bytes of the archive before this file's header, hex. */
  sha256Before(): string;
  /** Must be read to its end before the next file. */
  body(): AsyncGenerator<Buffer>;
}

/**
 * Yields the files of an archive in order. Throws {@link ArchiveError} at an entry that is not a regular file, or if
 * the end marker is missing.
 */
export async function* readTar(chunks: AsyncIterable<Buffer>): AsyncGenerator<ArchivedFile> {
  const bytes = new ByteReader(chunks);
  for (;;) {
    const before = bytes.digest.copy();
    let block = await bytes.take(BLOCK);
    if (block.every((byte) => byte === 0)) break;
    let pax: ReadonlyMap<string, string> = new Map();
    if (typeOf(block) === 'x') {
      const size = sizeOf(block);
      if (size > MAX_PAX_BYTES) throw new ArchiveError('has a header that is too long');
      pax = paxRecords(await bytes.take(size));
      await bytes.take(padding(size).length);
      block = await bytes.take(BLOCK);
    }
    const path = pax.get('path') ?? textOf(block, 0, 100);
    const type = typeOf(block);
    if (type !== '0')
      throw new ArchiveError(`has ${JSON.stringify(path)}, which is not a regular file (type "${type}")`);
    const size = pax.has('size') ? Number(pax.get('size')) : sizeOf(block);
    if (!Number.isSafeInteger(size) || size < 0) throw new ArchiveError(`has a wrong size for ${JSON.stringify(path)}`);
    const end = bytes.position + size;
    yield { path, size, sha256Before: () => before.digest('hex'), body: () => bytes.upTo(end) };
    for await (const _ of bytes.upTo(end));
    await bytes.take(padding(size).length);
  }
  const last = await bytes.take(BLOCK);
  if (!last.every((byte) => byte === 0) || !(await bytes.isAtEnd())) throw new ArchiveError('continues after its end');
}

function typeOf(block: Buffer): string {
  const stored = Number.parseInt(textOf(block, 148, 8), 8);
  if (stored !== checksum(block)) throw new ArchiveError('is damaged: a header has a wrong checksum');
  return String.fromCharCode(block[156]!);
}

const textOf = (block: Buffer, start: number, length: number): string => {
  const field = block.subarray(start, start + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end < 0 ? length : end);
};

const sizeOf = (block: Buffer): number => {
  const digits = textOf(block, 124, 12).trim();
  if (!/^[0-7]+$/.test(digits)) throw new ArchiveError('is damaged: a header has no size');
  return Number.parseInt(digits, 8);
};

function paxRecords(text: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < text.length; ) {
    const length = Number(/^(\d{1,6}) /.exec(text.toString('latin1', at, at + 7))?.[1]);
    const record = text.toString('utf8', at, at + length);
    const match = /^\d+ ([^=]+)=(.*)\n$/s.exec(record);
    if (!(length > 0) || at + length > text.length || match === null)
      throw new ArchiveError('is damaged: a pax header');
    records.set(match[1]!, match[2]!);
    at += length;
  }
  return records;
}

/** Reads pieces of any size from chunks of any size. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);
  position = 0;
  /** Digest of everything before the current position. */
  readonly digest = createHash('sha256');

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async take(length: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this.upTo(this.position + length)) parts.push(part);
    return Buffer.concat(parts);
  }

  /** Yields the bytes from the current position to `end`. */
  async *upTo(end: number): AsyncGenerator<Buffer> {
    while (this.position < end) {
      if (this.#rest.length === 0 && !(await this.#next())) throw new ArchiveError('ends too early: it is incomplete');
      const part = this.#rest.subarray(0, end - this.position);
      this.#rest = this.#rest.subarray(part.length);
      this.position += part.length;
      this.digest.update(part);
      yield part;
    }
  }

  async isAtEnd(): Promise<boolean> {
    return this.#rest.length === 0 && !(await this.#next());
  }

  async #next(): Promise<boolean> {
    const { done, value } = await this.#chunks.next();
    if (done) return false;
    this.#rest = value;
    return value.length > 0 || this.#next();
  }
}
