import { createHash } from 'node:crypto';
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib';
import type { Entry, ZipFile } from 'yauzl';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { quote } from '../field-error.ts';
import { pathProblem } from './safe-path.ts';

const MB = 1024 * 1024;
const MAX_FILES = 10_000;
/** Includes folders that only file paths imply: each costs an inode. */
const MAX_FOLDERS = 10_000;
const MAX_EXPANDED_BYTES = 250 * MB;
const MAX_TEXT_BYTES = 8 * MB;

const STORED = 0;
const DEFLATED = 8;
const FLAG_ENCRYPTED = 1;
const FLAG_SIZES_FOLLOW = 8;
/** Placeholder that means "see the zip64 field". */
const ZIP64 = 0xffffffff;
const FILE_TYPE = 0o170000;
const REGULAR_FILE = 0o100000;
const FOLDER = 0o040000;

interface BundleFile {
  /** Relative to the root, separated by `/`; safe to join to a folder (see {@link pathProblem}). */
  readonly path: string;
  /** Bytes, expanded. */
  readonly size: number;
  readonly executable: boolean;
}

export interface BundleReport {
  /** In the order of the archive. */
  readonly files: readonly BundleFile[];
  /** All folders, including those that only file paths imply; parents first. */
  readonly folders: readonly string[];
  /** Expanded size of all files. */
  readonly totalBytes: number;
  /** SHA-256 of the zip in hex. */
  readonly sha256: string;
  /** The zip. */
  readonly bytes: Uint8Array;
  /**
   * Returns the text of the file at exactly that path; `undefined` if it does not exist. Throws INVALID_INPUT if it is
   * not UTF-8 or larger than 8 MB.
   */
  textOf(path: string): string | undefined;
}

/** Receives the files and folders that {@link expandBundle} reads. */
export interface BundleTarget {
  /** Called for every folder, parents first, before any file. */
  onFolder(path: string): Promise<void> | void;
  /** Must read `content` to the end. */
  onFile(file: BundleFile, content: AsyncIterable<Uint8Array>): Promise<void>;
}

interface ZipMember extends BundleFile {
  readonly method: number;
  readonly crc: number;
  readonly compressed: Uint8Array;
}

const refused = (reason: string): PlatformError => new PlatformError('INVALID_INPUT', `The bundle ${reason}.`);
const refusedEntry = (path: string, reason: string): PlatformError =>
  refused(`has the entry ${quote(path)}, ${reason}`);

/**
 * Checks a code bundle: a zip of plain files and folders that expands to the declared sizes, within limits. Throws
 * INVALID_INPUT with the first problem. Code that unpacks the bundle later must use {@link expandBundle}: other readers
 * may see other files in the same archive.
 */
export const inspectBundle = (bytes: Uint8Array): Promise<BundleReport> =>
  expandBundle(bytes, {
    onFolder() {},
    async onFile(_file, content) {
      for await (const _ of content);
    },
  });

/**
 * Expands a bundle, with all checks of {@link inspectBundle}. Names and structure are checked before the first call of
 * `target`, sizes and checksums while a file is read: after an error the target must discard what it received. Memory:
 * the zip itself and some chunks.
 */
export async function expandBundle(bytes: Uint8Array, target: BundleTarget): Promise<BundleReport> {
  const { files, folders } = await readDirectory(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  for (const folder of folders) await target.onFolder(folder);
  for (const { path, size, executable, ...member } of files) {
    const state = { ended: false };
    await target.onFile({ path, size, executable }, contentOf({ path, size, executable, ...member }, state));
    if (!state.ended) throw new Error(`the content of ${path} was not read to its end, so that it was not checked`);
  }
  return {
    files: files.map(({ path, size, executable }) => ({ path, size, executable })),
    folders,
    totalBytes: sum(files.map((file) => file.size)),
    sha256: createHash('sha256').update(bytes).digest('hex'),
    bytes,
    textOf(path) {
      const file = files.find((candidate) => candidate.path === path);
      return file && textOf(file);
    },
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

function textOf({ path, size, method, compressed }: ZipMember): string {
  if (size > MAX_TEXT_BYTES) throw refused(`has a ${path} of more than ${MAX_TEXT_BYTES / MB} MB`);
  const content = method === STORED ? compressed : inflateRawSync(compressed, { maxOutputLength: size + 1 });
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content);
  } catch {
    throw refused(`has a ${path} that is not UTF-8 text; save it as UTF-8`);
  }
}

/** Yields the bytes of a file, and throws if their number or checksum differs from the declared one. */
async function* contentOf(file: ZipMember, state: { ended: boolean }): AsyncGenerator<Uint8Array> {
  let size = 0;
  let checksum = 0;
  for await (const chunk of file.method === STORED ? [file.compressed] : inflate(file)) {
    size += chunk.byteLength;
    if (size > file.size)
      throw refusedEntry(file.path, `which expands to more than the ${file.size} bytes it declares`);
    checksum = crc32(chunk, checksum);
    yield chunk;
  }
  if (size !== file.size) {
    throw refusedEntry(file.path, `which expands to ${size} bytes, but declares ${file.size}`);
  }
  if (checksum !== file.crc) throw refusedEntry(file.path, 'whose checksum is wrong: it was damaged in transit');
  state.ended = true;
}

async function* inflate({ path, compressed }: ZipMember): AsyncGenerator<Uint8Array> {
  const inflater = createInflateRaw();
  inflater.end(compressed);
  try {
    yield* inflater as AsyncIterable<Uint8Array>;
  } catch (error) {
    if (isPlatformError(error)) throw error;
    throw refusedEntry(path, `which cannot be expanded (${(error as Error).message})`);
  }
  if (inflater.bytesWritten !== compressed.byteLength) {
    throw refusedEntry(path, 'whose compressed size is not the one it declares');
  }
}

/** Reads and checks the directory of the zip, without expanding a file. */
async function readDirectory(zip: Buffer): Promise<{ files: ZipMember[]; folders: string[] }> {
  if (zip.toString('latin1', 0, 2) !== 'PK') throw refused('is not a zip archive');
  try {
    const { default: yauzl } = await import('yauzl');
    const archive = await yauzl.fromBufferPromise(zip, { decodeStrings: false });
    if (archive.entryCount > MAX_FILES + MAX_FOLDERS) {
      throw refused(`has ${archive.entryCount} entries; at most ${MAX_FILES} files are accepted`);
    }
    return await readEntries(archive, zip);
  } catch (error) {
    if (isPlatformError(error)) throw error;
    throw refused(`is not a valid zip archive, or is truncated (${(error as Error).message})`);
  }
}

async function readEntries(archive: ZipFile, zip: Buffer): Promise<{ files: ZipMember[]; folders: string[] }> {
  const directoryStart = archive.readEntryCursor as unknown as number;
  const paths = new Set<string>();
  const folders = new Set<string>();
  const files: ZipMember[] = [];
  const extents: { path: string; start: number; end: number }[] = [];
  let totalBytes = 0;

  for await (const entry of archive.eachEntry()) {
    const name = entryName(entry);
    const isFolder = name.endsWith('/');
    const path = isFolder ? name.slice(0, -1) : name;
    checkEntry(entry, path, isFolder);
    if (paths.has(path)) throw refusedEntry(path, 'twice');
    paths.add(path);
    for (const folder of newFolders(path, isFolder, folders)) {
      folders.add(folder);
      if (folders.size > MAX_FOLDERS) throw refused(`has more than ${MAX_FOLDERS} folders`);
    }
    const extent = await locate(archive, entry, path);
    extents.push(extent);
    if (isFolder) continue;

    totalBytes += entry.uncompressedSize;
    if (totalBytes > MAX_EXPANDED_BYTES) throw refused(`expands to more than ${MAX_EXPANDED_BYTES / MB} MB`);
    files.push({
      path,
      size: entry.uncompressedSize,
      executable: (unixMode(entry) & 0o111) !== 0,
      method: entry.compressionMethod,
      crc: entry.crc32,
      compressed: zip.subarray(extent.end - entry.compressedSize, extent.end),
    });
    if (files.length > MAX_FILES) throw refused(`has more than ${MAX_FILES} files`);
  }

  checkExtents(extents, directoryStart);
  checkEndOfDirectory(zip, archive.readEntryCursor as unknown as number);
  const clash = files.find((file) => folders.has(file.path));
  if (clash) throw refusedEntry(clash.path, 'as a file and as a folder');
  if (files.length === 0) throw refused('has no file in it');
  return { files, folders: [...folders].sort() };
}

function entryName(entry: Entry): string {
  try {
    // The encoding flag is ignored: current tools all write UTF-8, some without setting it.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(entry.fileNameRaw);
  } catch {
    throw refused(`has an entry whose name is not UTF-8 (${quote(entry.fileNameRaw.toString('latin1'))})`);
  }
}

const unixMode = (entry: Entry): number => entry.externalFileAttributes >>> 16;

function checkEntry(entry: Entry, path: string, isFolder: boolean): void {
  const problem = pathProblem(path);
  if (problem !== undefined) throw refusedEntry(path, `a path that ${problem}`);
  const type = unixMode(entry) & FILE_TYPE;
  if (type !== 0 && type !== (isFolder ? FOLDER : REGULAR_FILE)) {
    throw refusedEntry(path, 'which is a link or a special file; only plain files and folders are accepted');
  }
  if (entry.isEncrypted()) throw refusedEntry(path, 'which is encrypted');
  if (entry.compressionMethod !== STORED && entry.compressionMethod !== DEFLATED) {
    throw refusedEntry(path, `which is compressed by method ${entry.compressionMethod}; use "deflate" or none`);
  }
  if (isFolder && entry.uncompressedSize > 0) throw refusedEntry(path, 'a folder with content of its own');
}

/**
 * Yields the parent folders of the file `a/b/c`, nearest first (`a/b`, `a`), and stops at the first that is `known`:
 * its parents are known, too. So a long path that many entries share is split only once.
 */
export function* newFolders(path: string, isFolder: boolean, known: Pick<Set<string>, 'has'>): Generator<string> {
  for (let end = isFolder ? path.length : path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    const folder = path.slice(0, end);
    if (known.has(folder)) return;
    yield folder;
  }
}

/**
 * Returns the position of an entry. Its two headers must agree: otherwise another reader could see a different file
 * here.
 */
async function locate(archive: ZipFile, entry: Entry, path: string) {
  const local = await archive.readLocalFileHeaderPromise(entry);
  const same = (declared: number, central: number): boolean => declared === central || declared === ZIP64;
  const agree =
    entry.fileNameRaw.equals(local.fileName) &&
    local.compressionMethod === entry.compressionMethod &&
    (local.generalPurposeBitFlag & FLAG_ENCRYPTED) === 0 &&
    ((local.generalPurposeBitFlag & FLAG_SIZES_FOLLOW) !== 0 ||
      (local.crc32 === entry.crc32 &&
        same(local.compressedSize, entry.compressedSize) &&
        same(local.uncompressedSize, entry.uncompressedSize)));
  if (!agree) throw refusedEntry(path, 'whose headers contradict each other');
  const start = entry.relativeOffsetOfLocalHeader;
  return { path, start, end: local.fileDataStart + entry.compressedSize };
}

/** Entries that share bytes could make a small archive expand without limit. */
function checkExtents(extents: { path: string; start: number; end: number }[], directoryStart: number): void {
  let end = 0;
  for (const extent of extents.toSorted((a, b) => a.start - b.start)) {
    if (extent.start < end || extent.end > directoryStart) {
      throw refusedEntry(extent.path, 'which overlaps other parts of the archive');
    }
    end = extent.end;
  }
}

/** Checks that the directory ends after the declared number of entries: a reader that does not count would see more. */
function checkEndOfDirectory(zip: Buffer, cursor: number): void {
  const signature = cursor + 4 <= zip.byteLength ? zip.readUInt32LE(cursor) : 0;
  if (signature !== 0x06054b50 && signature !== 0x06064b50) {
    throw refused('is not a valid zip archive: its directory has more entries than it declares');
  }
}
