import { MAX_LAYER_BYTES } from '#core/base/plans.ts';
import { quote } from '../field-error.ts';
import { INTERPRETER_PATHS, INTERPRETERS } from './interpreters.ts';

const MB = 1024 * 1024;
const MAX_ENTRIES = 100_000;
const MAX_PATH_BYTES = 1024;
const MAX_NAME_BYTES = 255;
const MAX_DEPTH = 64;
/** Packages compress to a third of their size, zeros to a thousandth. */
const MAX_RATIO = 50;
const RATIO_COUNTS_FROM_BYTES = 64 * MB;
const PAGE_BYTES = 4096;
/** Files that the bundle's build wrote. Runs find them in the working folder, over those of the bundle. */
export const BUILT = 'agent';
/** Folders of programs, which come first on the PATH of a run, in this order. */
export const PROGRAM_FOLDERS = ['venv/bin', 'python/bin', 'node_modules/.bin', ...INTERPRETER_PATHS] as const;
/** Folders in which a run finds packages of Python and Node. Earlier layers have `python` instead of `venv`. */
const ROOTS = ['venv', 'node_modules', 'python', BUILT, INTERPRETERS];

/** The format of GNU tar: https://www.gnu.org/software/tar/manual/html_node/Standard.html */
const BLOCK_BYTES = 512;
const FIELD = { mode: 100, size: 124, time: 136, checksum: 148, type: 156, target: 157, magic: 257, prefix: 345 };
const NAME_BYTES = 100;
const LONG_PATH = 'L';
const LONG_TARGET = 'K';
const TYPES: Readonly<Record<string, Member['type'] | undefined>> = {
  '\0': 'file',
  '0': 'file',
  '1': 'hard link',
  '2': 'link',
  '5': 'folder',
};
const TYPE_OF = { file: '0', 'hard link': '1', link: '2', folder: '5' } as const;

/**
 * The result of an installation is not a valid layer. The message for users says why; its subject is "they", the
 * installed dependencies.
 */
export class LayerError extends Error {
  readonly code = 'SANDBOX_LAYER';
}

export interface LayerSize {
  readonly entries: number;
  /** On disk. */
  readonly bytes: number;
}

/** A member of the archive. Names are bytes as Latin-1, because file names in packages may be invalid UTF-8. */
interface Member {
  readonly path: string;
  readonly type: 'file' | 'folder' | 'link' | 'hard link';
  readonly size: number;
  readonly isExecutable: boolean;
  /** Epoch seconds. Python compares them with the times of compiled files. */
  readonly modifiedAt: number;
  /** Target of a link. */
  readonly target: string;
}

const refused = (path: string, why: string): LayerError =>
  new LayerError(`they hold ${quote(Buffer.from(path, 'latin1').toString())}, ${why}`);

/**
 * Reads a tar and writes its content as a normalized tar that is safe to unpack. It contains the folders `venv`,
 * `node_modules`, `python`, `agent` and `interpreters`, and in them plain files, folders, and links that stay inside; each path once and none below a link,
 * parents first; no owners, the modes 755 and 644 (`docs/interface/installations.md#layers`).
 *
 * Throws {@link LayerError} for anything else, and if it is too large: a sparse file counts with its full size.
 */
export class LayerReader {
  readonly #paths = new Map<string, Member['type']>();
  #bytes = 0;
  #read = 0;
  #block: Buffer = Buffer.alloc(0);
  /** Remaining bytes of the content of the current member, and of the padding after it. */
  #content = 0;
  #padding = 0;
  /** Long name that is being read, or that belongs to the next member. */
  #long: { readonly type: string; text: string } | undefined;
  #longPath: string | undefined;
  #longTarget: string | undefined;
  #isAtEnd = false;

  readonly #maxBytes: number;

  /** @param maxBytes maximum size on disk, where each file takes whole pages (`docs/interface/installations.md#layers`) */
  constructor(maxBytes: number = MAX_LAYER_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get size(): LayerSize {
    return { entries: this.#paths.size, bytes: this.#bytes };
  }

  /** @param compressedBytes number of bytes of the archive read so far */
  *take(chunk: Buffer, compressedBytes: number): Generator<Uint8Array> {
    this.#read += chunk.length;
    if (this.#read > RATIO_COUNTS_FROM_BYTES && this.#read > compressedBytes * MAX_RATIO) {
      throw new LayerError(`they are compressed to less than a ${MAX_RATIO}th: packages do not compress that well`);
    }
    let rest = chunk;
    while (rest.length > 0 && !this.#isAtEnd) {
      if (this.#content > 0) {
        const piece = rest.subarray(0, this.#content);
        this.#content -= piece.length;
        rest = rest.subarray(piece.length);
        if (this.#long !== undefined) this.#addToLongName(piece);
        else {
          yield piece;
          if (this.#content === 0) yield Buffer.alloc(this.#padding);
        }
      } else if (this.#padding > 0) {
        const skipped = Math.min(rest.length, this.#padding);
        this.#padding -= skipped;
        rest = rest.subarray(skipped);
      } else {
        const piece = rest.subarray(0, BLOCK_BYTES - this.#block.length);
        rest = rest.subarray(piece.length);
        this.#block = this.#block.length === 0 ? piece : Buffer.concat([this.#block, piece]);
        if (this.#block.length < BLOCK_BYTES) return;
        const block = this.#block;
        this.#block = Buffer.alloc(0);
        yield* this.#takeHeader(block);
      }
    }
  }

  *end(): Generator<Uint8Array> {
    if (!this.#isAtEnd) throw new LayerError('their archive is truncated');
    yield Buffer.alloc(2 * BLOCK_BYTES);
  }

  #addToLongName(piece: Buffer): void {
    this.#long!.text += piece.toString('latin1');
    if (this.#content > 0) return;
    const { type, text } = this.#long!;
    const [name] = text.split('\0', 1);
    if (type === LONG_PATH) this.#longPath = name;
    else this.#longTarget = name;
    this.#long = undefined;
  }

  *#takeHeader(block: Buffer): Generator<Uint8Array> {
    if (block.every((byte) => byte === 0)) {
      this.#isAtEnd = true;
      return;
    }
    const type = block.toString('latin1', FIELD.type, FIELD.type + 1);
    const size = octalAt(block, FIELD.size, 12);
    const sum = octalAt(block, FIELD.checksum, 8);
    if (sum !== checksumOf(block) || block.toString('latin1', FIELD.magic, FIELD.magic + 5) !== 'ustar') {
      throw new LayerError('their archive is damaged: it has an invalid header');
    }
    if (size === undefined) throw refused(textAt(block, 0, NAME_BYTES), 'whose size cannot be read');
    if (type === LONG_PATH || type === LONG_TARGET) {
      if (size > 2 * MAX_PATH_BYTES) throw new LayerError(`they hold a path of more than ${MAX_PATH_BYTES} bytes`);
      this.#long = { type, text: '' };
      this.#expect(size);
      return;
    }
    const member = this.#memberOf(block, TYPES[type], size);
    this.#longPath = undefined;
    this.#longTarget = undefined;
    yield* this.#add(member);
    if (member.type === 'file') this.#expect(member.size);
    else if (size > 0) throw refused(member.path, 'which is not a file but has content');
  }

  #expect(size: number): void {
    this.#content = size;
    this.#padding = paddingOf(size);
  }

  #memberOf(block: Buffer, type: Member['type'] | undefined, size: number): Member {
    // GNU's own format has a space after the magic, and other fields at the position of the POSIX prefix.
    const prefix = block[FIELD.magic + 5] === 0 ? textAt(block, FIELD.prefix, 155) : '';
    const name = textAt(block, 0, NAME_BYTES);
    const path = (this.#longPath ?? (prefix === '' ? name : `${prefix}/${name}`)).replace(/^(\.\/+)+/, '');
    if (type === undefined) {
      throw refused(path, 'which is not a plain file, folder or link: a device, or a named pipe');
    }
    return {
      path: path.endsWith('/') ? path.slice(0, -1) : path,
      type,
      size,
      isExecutable: ((octalAt(block, FIELD.mode, 8) ?? 0) & 0o100) !== 0,
      modifiedAt: octalAt(block, FIELD.time, 12) ?? 0,
      target: this.#longTarget ?? textAt(block, FIELD.target, NAME_BYTES),
    };
  }

  /** Yields the member's header, after headers of folders that only its path implies. */
  *#add(member: Member): Generator<Uint8Array> {
    const { path, type } = member;
    // The root itself.
    if (type === 'folder' && (path === '' || path === '.')) return;
    const names = checkPath(path);
    if (names.length === 1 && type !== 'folder') throw refused(path, `which must be a folder, and is a ${type}`);
    for (let depth = 1; depth < names.length; depth++) {
      const parent = names.slice(0, depth).join('/');
      const known = this.#paths.get(parent);
      if (known === undefined) {
        yield* this.#write({ ...member, path: parent, type: 'folder', size: 0, target: '' });
      } else if (known !== 'folder') throw refused(path, `below a ${known}`);
    }
    const known = this.#paths.get(path);
    if (known === 'folder' && type === 'folder') return;
    if (known !== undefined) throw refused(path, 'twice');
    // What was built is copied elsewhere, so that its links may not lead to packages.
    if (type === 'link') checkLink(member, names.length - (names[0] === BUILT ? 2 : 1));
    if (type === 'hard link') {
      const target = member.target.replace(/^(\.\/+)+/, '');
      if (this.#paths.get(target) !== 'file') throw refused(path, 'a hard link that leaves it');
      yield* this.#write({ ...member, target, size: 0 });
    } else yield* this.#write(type === 'file' ? member : { ...member, size: 0 });
  }

  *#write(member: Member): Generator<Uint8Array> {
    this.#paths.set(member.path, member.type);
    this.#bytes += Math.max(PAGE_BYTES, Math.ceil(member.size / PAGE_BYTES) * PAGE_BYTES);
    if (this.#bytes > this.#maxBytes) {
      throw refused(
        member.path,
        `with which they take more than ${Math.round(this.#maxBytes / MB)} MB: a file counts with its full size`,
      );
    }
    if (this.#paths.size > MAX_ENTRIES) {
      throw new LayerError(`they are more than ${MAX_ENTRIES} files and folders`);
    }
    if (member.target.length > NAME_BYTES) yield* longName(LONG_TARGET, member.target);
    if (member.path.length > NAME_BYTES) yield* longName(LONG_PATH, member.path);
    yield headerOf(member.path, TYPE_OF[member.type], member);
  }
}

/** Checks a path and returns its names. */
function checkPath(path: string): string[] {
  if (path.startsWith('/')) throw refused(path.slice(0, MAX_PATH_BYTES), 'an absolute path');
  const names = path.split('/', MAX_DEPTH + 1);
  if (path.length > MAX_PATH_BYTES) throw new LayerError(`they hold a path of more than ${MAX_PATH_BYTES} bytes`);
  if (names.length > MAX_DEPTH) throw refused(path, `which is more than ${MAX_DEPTH} folders deep`);
  if (!ROOTS.includes(names[0]!)) throw refused(path, `which is neither in ${ROOTS.join(' nor in ')}`);
  for (const name of names) {
    if (name === '' || name === '.' || name === '..')
      throw refused(path, 'a path with "..", "." or an empty name in it');
    if (name.length > MAX_NAME_BYTES) throw refused(path, `with a name of more than ${MAX_NAME_BYTES} bytes`);
  }
  return names;
}

/**
 * Checks a link. It may have `..` only at the beginning: after another name, `..` may mean a different folder, because
 * that name may itself be a link. Every folder above the link is real, so leading `..` cannot leave the layer.
 */
function checkLink({ path, target }: Member, depth: number): void {
  const shown = quote(Buffer.from(target.slice(0, 200), 'latin1').toString());
  if (target === '' || target.length > MAX_PATH_BYTES) throw refused(path, 'a link without a usable target');
  const names = target.split('/').filter((name, index) => index === 0 || (name !== '' && name !== '.'));
  const down = names.findIndex((name) => name !== '..' && name !== '.');
  const ups = (down < 0 ? names : names.slice(0, down)).filter((name) => name === '..').length;
  const climbsLater = down >= 0 && names.slice(down).includes('..');
  if (target.startsWith('/') || ups > depth || climbsLater) throw refused(path, `a link to ${shown}, which leaves it`);
}

const paddingOf = (size: number): number => (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;

/** Reads text up to the first NUL. */
function textAt(block: Buffer, start: number, length: number): string {
  const text = block.toString('latin1', start, start + length);
  const end = text.indexOf('\0');
  return end < 0 ? text : text.slice(0, end);
}

/** Reads an octal number; `undefined` if there is none, as for numbers that are too large to be octal. */
function octalAt(block: Buffer, start: number, length: number): number | undefined {
  const text = textAt(block, start, length).trim();
  return /^[0-7]{1,12}$/.test(text) ? Number.parseInt(text, 8) : undefined;
}

/** Sums all bytes of the block, with the checksum field itself counted as spaces. */
function checksumOf(block: Buffer): number {
  let sum = 0;
  for (let index = 0; index < BLOCK_BYTES; index++) {
    sum += index >= FIELD.checksum && index < FIELD.checksum + 8 ? 0x20 : block[index]!;
  }
  return sum;
}

function* longName(type: string, name: string): Generator<Uint8Array> {
  const text = Buffer.from(`${name}\0`, 'latin1');
  yield headerOf('././@LongLink', type, { size: text.length });
  yield text;
  yield Buffer.alloc(paddingOf(text.length));
}

function headerOf(
  path: string,
  type: string,
  { size = 0, isExecutable = true, modifiedAt = 0, target = '' }: Partial<Member>,
): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, length: number) =>
    block.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
  block.write(path.slice(0, NAME_BYTES), 0, 'latin1');
  octal(type === TYPE_OF.folder || isExecutable ? 0o755 : 0o644, FIELD.mode, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, FIELD.size, 12);
  octal(modifiedAt, FIELD.time, 12);
  block.write(type, FIELD.type, 'latin1');
  block.write(target.slice(0, NAME_BYTES), FIELD.target, 'latin1');
  block.write('ustar  \0', FIELD.magic, 'latin1');
  octal(checksumOf(block), FIELD.checksum, 7);
  return block;
}
