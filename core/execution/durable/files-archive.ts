import { MAX_ENTRIES } from './files-program.ts';

/**
 * Archives of snapshots: tar with pax headers (POSIX 1003.1-2001), which GNU tar and bsdtar read too. The platform
 * reads only what it writes itself: a pax header before each member, and files, folders and links of both kinds.
 * Strings are bytes as Latin-1, because names of files may be invalid UTF-8.
 */
export interface ArchiveEntry {
  readonly type: 'file' | 'folder' | 'link' | 'hard link';
  /** Begins with `home/user/` or `tmp/tool_output`. */
  readonly path: string;
  /** Permissions, at most 777. */
  readonly mode: number;
  /** Epoch seconds, with a fraction. */
  readonly modifiedAt: string;
  /** 0 unless it is a file. */
  readonly size: number;
  /** What a link leads to. For a hard link, the path of an earlier file. */
  readonly target?: string;
  /** What a folder of the bundle holds now, as `/` and the names joined by `/`. Anything else in it was deleted. */
  readonly names?: string;
}

/** An archive that is not sound. The message is a clause about it. */
export class ArchiveError extends Error {
  readonly code = 'ARCHIVE';
}

const BLOCK = 512;
const FIELD = { mode: 100, uid: 108, gid: 116, size: 124, time: 136, checksum: 148, type: 156, magic: 257 };
const TYPES = { file: '0', 'hard link': '1', link: '2', folder: '5' } as const;
const PAX = 'x';
/** Name of a pax header for {@link ArchiveEntry.names}, which other programs ignore. */
const NAMES = 'PLATFORM.names';
const MAX_OCTAL = 8 ** 11 - 1;
const MAX_PATH_BYTES = 4096;
const MAX_NAME_BYTES = 255;
/** Maximum size of a pax header, which may have all names of a folder. */
const MAX_PAX_BYTES = MAX_ENTRIES * (MAX_NAME_BYTES + 1);
const TIME = /^\d{1,10}(\.\d{1,9})?$/;
const ROOTS = /^(home\/user\/|tmp\/tool_output(\/|$))/;

/** Returns the headers of an entry. The content of a file follows, and {@link padding} after it. */
export function entryHeader({ type, path, mode, modifiedAt, size, target, names }: ArchiveEntry): Buffer {
  const records = [
    paxRecord('path', path),
    paxRecord('mtime', modifiedAt),
    target === undefined ? '' : paxRecord('linkpath', target),
    size > MAX_OCTAL ? paxRecord('size', String(size)) : '',
    names === undefined ? '' : paxRecord(NAMES, names),
  ].join('');
  const pax = Buffer.from(records, 'latin1');
  const time = Math.min(Math.floor(Number(modifiedAt)), MAX_OCTAL);
  return Buffer.concat([
    header({ type: PAX, path: 'pax', mode: 0o644, time: 0, size: pax.length }),
    pax,
    padding(pax.length),
    header({ type: TYPES[type], path, mode, time, size: Math.min(size, MAX_OCTAL) }),
  ]);
}

export const padding = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
export const ARCHIVE_END = Buffer.alloc(2 * BLOCK);

interface Header {
  readonly type: string;
  readonly path: string;
  readonly mode: number;
  readonly time: number;
  readonly size: number;
}

function header({ type, path, mode, time, size }: Header): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1');
  block.write(path.slice(0, FIELD.mode), 0, 'latin1');
  octal(mode, FIELD.mode, 8);
  octal(0, FIELD.uid, 8);
  octal(0, FIELD.gid, 8);
  octal(size, FIELD.size, 12);
  octal(time, FIELD.time, 12);
  block.write(type, FIELD.type, 'latin1');
  block.write('ustar\x0000', FIELD.magic, 'latin1');
  block.write(`${checksumOf(block).toString(8).padStart(6, '0')}\0 `, FIELD.checksum, 'latin1');
  return block;
}

/** Sum of the bytes, with spaces in place of the checksum itself. */
function checksumOf(block: Buffer): number {
  let sum = 8 * 0x20;
  for (const [index, byte] of block.entries()) if (index < FIELD.checksum || index >= FIELD.type) sum += byte;
  return sum;
}

/** `LENGTH name=value\n`, where the length counts its own digits. */
function paxRecord(name: string, value: string): string {
  const rest = ` ${name}=${value}\n`;
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return `${length}${rest}`;
}

/**
 * Reads an archive that anybody may have made. Yields its entries, each with its content, which must be read to its end
 * before the next entry. Throws {@link ArchiveError} for an archive that is damaged or incomplete, or whose entries would
 * not stay inside their two folders: each path comes once, none of its parents is anything but a folder, and a hard link follows its file.
 * What a symbolic link names is not checked: nothing is written through it.
 */
export async function* readArchive(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<ArchiveEntry & { readonly content: AsyncIterable<Uint8Array> }> {
  const bytes = new ByteReader(chunks);
  const check = entryChecker();
  for (;;) {
    const block = await bytes.take(BLOCK);
    if (block.every((byte) => byte === 0)) break;
    const { type, size } = readHeader(block);
    if (type !== PAX) throw new ArchiveError('a member has no pax header');
    if (size > MAX_PAX_BYTES) throw new ArchiveError('a pax header is too long');
    const pax = paxRecords((await bytes.take(size)).toString('latin1'));
    await bytes.take(padding(size).length);
    const entry = entryOf(readHeader(await bytes.take(BLOCK)), pax);
    check(entry);
    const end = bytes.position + entry.size;
    yield { ...entry, content: bytes.upTo(end) };
    if (bytes.position !== end) throw new Error('the content of an entry was not read');
    await bytes.take(padding(entry.size).length);
  }
  const last = await bytes.take(BLOCK);
  if (!last.every((byte) => byte === 0) || !(await bytes.isAtEnd()))
    throw new ArchiveError('it has bytes after its end');
}

function readHeader(block: Buffer): Omit<Header, 'path' | 'time'> {
  if (octalAt(block, FIELD.checksum, 8) !== checksumOf(block)) throw new ArchiveError('a header has a wrong checksum');
  return {
    type: block.toString('latin1', FIELD.type, FIELD.type + 1),
    mode: octalAt(block, FIELD.mode, 8),
    size: octalAt(block, FIELD.size, 12),
  };
}

function octalAt(block: Buffer, start: number, length: number): number {
  const digits = /^([0-7]+)[\0 ]/.exec(block.toString('latin1', start, start + length))?.[1];
  if (digits === undefined) throw new ArchiveError('a header has no number where one belongs');
  return Number.parseInt(digits, 8);
}

function paxRecords(text: string): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < text.length; ) {
    const length = Number(/^(\d{1,9}) /.exec(text.slice(at, at + 10))?.[1]);
    const record = text.slice(at, at + length);
    const match = /^\d+ ([^=]+)=(.*)\n$/s.exec(record);
    if (!(length > 0) || record.length !== length || match === null) throw new ArchiveError('a pax header is damaged');
    records.set(match[1]!, match[2]!);
    at += length;
  }
  return records;
}

function entryOf(head: Omit<Header, 'path' | 'time'>, pax: ReadonlyMap<string, string>): ArchiveEntry {
  const type = (Object.keys(TYPES) as ArchiveEntry['type'][]).find((type) => TYPES[type] === head.type);
  if (type === undefined) throw new ArchiveError('a member is neither a file, a folder nor a link');
  return {
    type,
    path: pax.get('path') ?? '',
    mode: head.mode & 0o777,
    modifiedAt: pax.get('mtime') ?? '',
    size: pax.has('size') ? Number(pax.get('size')) : head.size,
    target: pax.get('linkpath'),
    names: pax.get(NAMES),
  };
}

const ROOT_FOLDER = 'tmp/tool_output';
const shown = (path: string): string => JSON.stringify(Buffer.from(path.slice(0, 200), 'latin1').toString());

const isName = (name: string): boolean =>
  name !== '' && name !== '.' && name !== '..' && name.length <= MAX_NAME_BYTES && !name.includes('\0');
const isPath = (path: string): boolean =>
  path.length <= MAX_PATH_BYTES && ROOTS.test(path) && path.split('/').every(isName);
const isTarget = (target = ''): boolean =>
  target.length > 0 && target.length <= MAX_PATH_BYTES && !target.includes('\0');
const areNames = (names: string): boolean =>
  names === '/' || (names[0] === '/' && names.slice(1).split('/').every(isName));

/** Returns what is wrong with an entry for itself. */
function problemOf({ type, path, modifiedAt, size, target, names }: ArchiveEntry): string | undefined {
  const isLink = type === 'link' || type === 'hard link';
  if (!isPath(path)) return 'has a path that is not allowed';
  if (path === ROOT_FOLDER && type !== 'folder') return 'must be a folder';
  if (!TIME.test(modifiedAt)) return 'has no time';
  if (!Number.isSafeInteger(size) || size < 0 || (size > 0 && type !== 'file')) return 'has a wrong size';
  if (isLink ? !isTarget(target) : target !== undefined) return 'has a wrong target';
  if (names !== undefined && !(type === 'folder' && areNames(names))) return 'has wrong names';
  return undefined;
}

/**
 * Returns a function that checks one entry after the other, for itself and against those before it. It throws {@link
 * ArchiveError}.
 */
export function entryChecker(): (entry: ArchiveEntry) => void {
  const types = new Map<string, ArchiveEntry['type']>();
  /** Parents of entries. */
  const parents = new Set<string>();
  return (entry) => {
    const { type, path, target } = entry;
    const refused = (why: string) => new ArchiveError(`the entry ${shown(path)} ${why}`);
    const problem = problemOf(entry);
    if (problem !== undefined) throw refused(problem);
    if (types.size >= MAX_ENTRIES) throw new ArchiveError('it has too many entries');
    if (types.has(path)) throw refused('is there twice');
    if (type !== 'folder' && parents.has(path)) throw refused('is the folder of an earlier entry');
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      const parent = path.slice(0, end);
      if (parents.has(parent)) break;
      if (types.has(parent) && types.get(parent) !== 'folder') throw refused('lies below an entry that is no folder');
      parents.add(parent);
    }
    if (type === 'hard link' && types.get(target!) !== 'file') throw refused('is a link to no earlier file');
    types.set(path, type);
  };
}

/** Reads pieces of any size from chunks of any size. Throws {@link ArchiveError} at an early end. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);
  position = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async take(length: number): Promise<Buffer> {
    if (this.#rest.length >= length) return this.#cut(length);
    const parts: Buffer[] = [];
    for await (const part of this.upTo(this.position + length)) parts.push(part);
    return Buffer.concat(parts);
  }

  /** Yields the bytes from the current position to `end`. */
  async *upTo(end: number): AsyncGenerator<Buffer> {
    while (this.position < end) {
      if (this.#rest.length === 0 && !(await this.#next())) throw new ArchiveError('it ends too early');
      yield this.#cut(end - this.position);
    }
  }

  async isAtEnd(): Promise<boolean> {
    return this.#rest.length === 0 && !(await this.#next());
  }

  /** Ends the source. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  #cut(length: number): Buffer {
    const part = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(part.length);
    this.position += part.length;
    return part;
  }

  async #next(): Promise<boolean> {
    for (;;) {
      const { done, value } = await this.#chunks.next();
      if (done) return false;
      if (value.byteLength === 0) continue;
      this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      return true;
    }
  }
}
