import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { hasCode } from '#core/base/errors.ts';
import { countText, sizeText } from '#core/base/size-text.ts';
import type { ExecExit, SandboxSession } from '#core/ports/sandbox.ts';
import {
  ARCHIVE_END,
  type ArchiveEntry,
  ArchiveError,
  ByteReader,
  entryChecker,
  entryHeader,
  padding,
  readArchive,
} from './files-archive.ts';
import { FILES_PROGRAM, MAX_ENTRIES } from './files-program.ts';

/** What the files of a sandbox were like at one moment. Means nothing to another sandbox. Can be stored as JSON. */
export interface SnapshotMark {
  /** Latest change of the bundle's own files. */
  readonly base: string;
  readonly state: string;
}

export interface SnapshotOptions {
  /** Maximum size of the archive, both before and after its compression. */
  readonly maxBytes: number;
  /** @default 120,000, for each command in the sandbox */
  readonly timeoutMs?: number;
  /** When it is aborted, the call throws its reason. */
  readonly signal?: AbortSignal;
}

/** Why a snapshot could not be taken or restored. */
export interface SnapshotProblem {
  /** Whole sentences with cause and size. */
  readonly problem: string;
  /** Whether the sandbox itself is gone. */
  readonly isLost: boolean;
}

export interface Snapshot {
  /** A tar, compressed with zstd. */
  readonly content: Uint8Array;
  /** For the next snapshot of the same sandbox. */
  readonly mark: SnapshotMark;
  /** A sentence about files that could not be read, if there are any. */
  readonly leftOut?: string;
}

const TIMEOUT_MS = 120_000;
/** Bytes that one command gets: hosts of sandboxes limit a request. */
const BATCH_BYTES = 8 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;
/** Maximum size of a record, which may have all names of a folder. */
const MAX_RECORD_BYTES = 64 * 1024 * 1024;
const NEVER: SnapshotMark = { base: '0', state: '' };

/**
 * Returns a mark of a sandbox that no tool has worked in yet. By it, {@link takeSnapshot} knows the files of the bundle,
 * which a snapshot leaves out as long as they are unchanged.
 */
export const markFiles = (
  session: SandboxSession,
  options: Omit<SnapshotOptions, 'maxBytes'> = {},
): Promise<{ readonly mark: SnapshotMark } | SnapshotProblem> =>
  orProblem(options, async () => ({ mark: await askForMark(session, ['mark'], options) }));

/**
 * Takes a snapshot of what tools have written: `/home/user`, without the files of the bundle that are unchanged, and
 * `/tmp/tool_output`. Processes of tools keep running meanwhile, so that a file that one of them writes may be half written.
 * Sockets, pipes and devices are not kept.
 *
 * @param options.since Mark of the last snapshot or restoration, or of {@link markFiles}. @default - none: the files of
 * the bundle are taken too
 */
export const takeSnapshot = (
  session: SandboxSession,
  { since = NEVER, ...options }: SnapshotOptions & { readonly since?: SnapshotMark },
): Promise<Snapshot | { readonly unchanged: true } | SnapshotProblem> =>
  orProblem(options, async () => {
    const { maxBytes } = options;
    const reader = program(session, ['take', since.base, since.state, String(maxBytes)], options);
    try {
      const first = await reader.next();
      if (first[0] === 'same') return { unchanged: true };
      const mark = markOf(first);
      let end: readonly string[] = [];
      const archive = async function* (): AsyncGenerator<Buffer> {
        end = yield* entriesOf(reader);
        yield ARCHIVE_END;
      };
      const content: Uint8Array[] = [];
      await pipeline(
        () => gathered(bounded(archive(), maxBytes)),
        createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } }),
        async (compressed) => {
          for await (const chunk of bounded(compressed, maxBytes)) content.push(chunk);
        },
      );
      return { content: Buffer.concat(content), mark, leftOut: leftOutText(Number(end[1]), end[2] ?? '') };
    } finally {
      await reader.close();
    }
  });

/**
 * Writes the files of a snapshot into a new sandbox with the same bundle. Whatever the archive holds, nothing is written
 * outside `/home/user` and `/tmp/tool_output`. An archive that is damaged or too large changes nothing.
 *
 * Permissions, times and links are as they were; set-user-id and the like are not. Files of the bundle that were deleted
 * are deleted again. Other files that are in the sandbox already stay, unless the snapshot has them too.
 *
 * Returns a mark, so that a later snapshot is taken only if something has changed.
 *
 * @param options.isOtherBundle Whether the sandbox has another bundle than that of the snapshot: the files of the sandbox's
 * bundle then stay as they are. @default false
 */
export const restoreSnapshot = (
  session: SandboxSession,
  content: Uint8Array,
  { isOtherBundle = false, ...options }: SnapshotOptions & { readonly isOtherBundle?: boolean },
): Promise<{ readonly mark: SnapshotMark } | SnapshotProblem> =>
  orProblem(options, async () => {
    try {
      for await (const entry of readArchive(decompressed(content, options.maxBytes))) {
        for await (const _ of entry.content);
      }
    } catch (error) {
      if (!hasCode(error, 'ARCHIVE')) throw error;
      throw new Problem(`The snapshot is damaged: ${(error as Error).message}. Nothing of it was restored.`);
    }
    let mark = NEVER;
    let isFirst = true;
    const put = async (stdin: Uint8Array, isLast: boolean): Promise<void> => {
      const words = ['put', mark.base, isFirst ? '1' : '', isLast ? '1' : '', isOtherBundle ? '1' : ''];
      mark = await askForMark(session, words, { ...options, stdin });
      isFirst = false;
    };
    let batch: Buffer[] = [];
    let bytes = 0;
    for await (const piece of records(readArchive(decompressed(content, options.maxBytes)))) {
      if (bytes + piece.length > BATCH_BYTES && bytes > 0) {
        await put(Buffer.concat(batch), false);
        [batch, bytes] = [[], 0];
      }
      batch.push(piece);
      bytes += piece.length;
    }
    await put(Buffer.concat(batch), true);
    return { mark };
  });

class Problem extends Error {
  readonly isLost: boolean;
  constructor(message: string, isLost = false) {
    super(message);
    this.isLost = isLost;
  }
}

async function orProblem<T>(
  { signal }: { readonly signal?: AbortSignal },
  work: () => Promise<T>,
): Promise<T | SnapshotProblem> {
  signal?.throwIfAborted();
  try {
    return await work();
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof Problem) return { problem: error.message, isLost: error.isLost };
    if (hasCode(error, 'ARCHIVE'))
      return { problem: `The sandbox gave no sound list of its files: ${(error as Error).message}.`, isLost: false };
    throw error;
  }
}

const unfinished = (cause: string, isLost = false): Problem =>
  new Problem(`The sandbox did not finish its work on a snapshot: ${cause}.`, isLost);

const tooLarge = (bytes: string, maxBytes: number): Problem =>
  new Problem(
    `The files that tools have written take ${bytes}, and a snapshot holds at most ${sizeText(maxBytes)}. Delete files that are not needed any more, such as downloads and caches.`,
  );

async function* bounded<T extends Uint8Array>(chunks: AsyncIterable<T>, maxBytes: number): AsyncGenerator<T> {
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw tooLarge(`more than ${sizeText(maxBytes)}`, maxBytes);
    yield chunk;
  }
}

/** Joins small chunks: each write to a compressor costs a switch of threads. */
async function* gathered(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    parts.push(chunk);
    bytes += chunk.length;
    if (bytes < CHUNK_BYTES) continue;
    yield Buffer.concat(parts);
    [parts, bytes] = [[], 0];
  }
  yield Buffer.concat(parts);
}

/** Throws {@link ArchiveError} for anything that is not compressed, or too large. */
async function* decompressed(content: Uint8Array, maxBytes: number): AsyncGenerator<Uint8Array> {
  const stream = createZstdDecompress();
  stream.end(content);
  let bytes = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw new ArchiveError(`it holds more than ${sizeText(maxBytes)}`);
      yield chunk;
    }
  } catch (error) {
    throw hasCode(error, 'ARCHIVE')
      ? error
      : new ArchiveError(`it cannot be decompressed (${(error as Error).message})`);
  }
}

const leftOutText = (count: number, path: string): string | undefined =>
  count > 0
    ? `${countText(count)} ${count === 1 ? 'file or folder is' : 'files and folders are'} not in the snapshot, because the sandbox's user cannot read them or their paths are too long. The first one is ${JSON.stringify(Buffer.from(path, 'latin1').toString())}.`
    : undefined;

/** Yields the archive of the program's entries, and returns its last record. */
async function* entriesOf(reader: RecordReader): AsyncGenerator<Buffer, readonly string[]> {
  const check = entryChecker();
  for (;;) {
    const fields = await reader.next();
    if (fields[0] === 'end') {
      await reader.end();
      return fields;
    }
    const entry = entryOf(fields);
    check(entry);
    yield entryHeader(entry);
    yield* reader.content(entry.size);
    yield padding(entry.size);
  }
}

function entryOf([type, mode, modifiedAt, size, path, more]: readonly string[]): ArchiveEntry {
  const isLink = type === 'link' || type === 'hard link';
  if (!(type === 'file' || type === 'folder' || isLink)) throw new ArchiveError('a record is damaged');
  return {
    type,
    path: path ?? '',
    mode: Number(mode) & 0o777,
    modifiedAt: modifiedAt ?? '',
    size: Number(size),
    ...(isLink ? { target: more } : type === 'folder' && more ? { names: more } : {}),
  };
}

type ReadEntry = ReturnType<typeof readArchive> extends AsyncIterable<infer Entry> ? Entry : never;

/** Yields the records that write these entries, each with its content. Folders get their permissions and times last. */
async function* records(entries: AsyncIterable<ReadEntry>): AsyncGenerator<Buffer> {
  const folders: Buffer[] = [];
  for await (const { type, path, mode, modifiedAt, size, target, names, content } of entries) {
    const head = (type: string, size: number, more = '', goesOn = false) =>
      record(type, mode, modifiedAt, size, path, more, goesOn ? '1' : '');
    if (type === 'folder') folders.push(head('times', 0));
    if (type !== 'file') {
      yield head(type, 0, target ?? names);
      continue;
    }
    let rest = size;
    let kind = 'file';
    for await (const part of gathered(content as AsyncIterable<Buffer>)) {
      rest -= part.length;
      yield Buffer.concat([head(kind, part.length, '', rest > 0), part]);
      kind = 'more';
    }
  }
  yield* folders.reverse();
}

function record(...fields: (string | number)[]): Buffer {
  const text = Buffer.from(fields.join('\0'), 'latin1');
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text]);
}

async function askForMark(session: SandboxSession, words: readonly string[], run: Run): Promise<SnapshotMark> {
  const reader = program(session, words, run);
  try {
    const mark = markOf(await reader.next());
    await reader.end();
    return mark;
  } finally {
    await reader.close();
  }
}

function markOf([type, base, state]: readonly string[]): SnapshotMark {
  // The mark becomes words of the next command.
  const isSound = type === 'mark' && /^\d{1,20}$/.test(base ?? '') && /^(un)?sure(:\d{1,20}){0,3}$/.test(state ?? '');
  if (!isSound) throw new ArchiveError('a record is damaged');
  return { base: base!, state: state! };
}

type Run = Omit<SnapshotOptions, 'maxBytes'> & { readonly maxBytes?: number; readonly stdin?: Uint8Array };

/** Starts the program. Its work ends with its output. */
function program(session: SandboxSession, words: readonly string[], run: Run): RecordReader {
  return new RecordReader(outputOf(session, words, run), run.maxBytes ?? 0);
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Yields what the program writes. Throws {@link Problem} if it does not end by itself. */
async function* outputOf(
  session: SandboxSession,
  words: readonly string[],
  { maxBytes = 0, timeoutMs = TIMEOUT_MS, signal, stdin }: Run,
): AsyncGenerator<Uint8Array> {
  const events = session.exec({
    command: `exec perl -e ${[FILES_PROGRAM, ...words].map(quoted).join(' ')}`,
    cwd: '/',
    timeoutMs,
    maxOutputBytes: 2 * maxBytes + MAX_RECORD_BYTES,
    stdin,
    signal,
  });
  let stderr = '';
  for await (const event of events) {
    if (event.type === 'stdout') yield event.data;
    if (event.type === 'stderr') stderr = (stderr + Buffer.from(event.data).toString()).slice(0, 500);
    if (event.type === 'exit') {
      const problem = problemOf(event.exit, timeoutMs, stderr.trim());
      if (problem) throw problem;
    }
  }
}

function problemOf({ reason, exitCode }: ExecExit, timeoutMs: number, stderr: string): Problem | undefined {
  if (reason === 'sandbox_lost') return unfinished('it is gone', true);
  if (reason === 'timeout') return unfinished(`it took longer than ${countText(timeoutMs / 1000)} seconds`);
  if (reason === 'memory_limit') return unfinished('its memory is used up');
  if (reason !== 'exited') return unfinished(`the command was ended (${reason})`);
  if (exitCode === 127) return unfinished('it has no perl');
  return exitCode === 0 ? undefined : unfinished(`the command ended with code ${exitCode}${stderr && `: ${stderr}`}`);
}

/** Reads the records that the program prints. */
class RecordReader {
  readonly #bytes: ByteReader;
  readonly #maxBytes: number;

  constructor(output: AsyncIterable<Uint8Array>, maxBytes: number) {
    this.#bytes = new ByteReader(output);
    this.#maxBytes = maxBytes;
  }

  /** Returns the fields of the next record, the first of which is its type. Throws {@link Problem} if it is one. */
  async next(): Promise<readonly string[]> {
    const length = (await this.#bytes.take(4)).readUInt32BE();
    if (length > MAX_RECORD_BYTES) throw new ArchiveError('a record is too long');
    const fields = (await this.#bytes.take(length)).toString('latin1').split('\0');
    const [type, what, value = ''] = fields;
    if (type !== 'problem') return fields;
    if (what === 'bytes') throw tooLarge(sizeText(Number(value)), this.#maxBytes);
    if (what === 'entries') {
      throw new Problem(
        `The sandbox holds more than ${countText(MAX_ENTRIES)} files and folders, which is the most that a snapshot can hold. Delete files that are not needed any more, such as downloads and caches.`,
      );
    }
    const cause = Buffer.from(value, 'latin1').toString().slice(0, 500);
    if (what !== 'written') throw unfinished(cause);
    throw new Problem(`Files of the snapshot could not be written, so that only a part of it was restored: ${cause}.`);
  }

  content(size: number): AsyncIterable<Buffer> {
    return this.#bytes.upTo(this.#bytes.position + size);
  }

  /** Waits for the program's end. Throws {@link Problem} if it failed. */
  async end(): Promise<void> {
    if (!(await this.#bytes.isAtEnd())) throw new ArchiveError('it has bytes after its end');
  }

  /** Ends the program if it has not ended. */
  close(): Promise<void> {
    return this.#bytes.close();
  }
}
