import { type FileType, SIGNATURE_BYTES, signedTypeOf } from '#core/base/file-type.ts';
import { startOf } from '#core/base/text.ts';
import { type ModelFile, modelFileOf } from '#core/models/file-limits.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import { MAX_SHOWN_BYTES } from './loop-files.ts';
import { ERROR } from './tool-outcome.ts';
import { MAX_RESULT_BYTES } from './tool-output.ts';

/** Length of the prefix of a file that is searched for a NUL byte, which indicates a binary file. */
const SNIFFED_BYTES = 8192;

/** Length of the prefix that is searched for a line. Result files are shorter (`docs/interface/loops.md#bounds`). */
const MAX_READ_BYTES = 16 * 1024 * 1024;
const NEWLINE = 0x0a;
/** Space for the line about how to continue. */
const NOTE_BYTES = 100;

export interface ReadPlace {
  /** First line to read, from 1. */
  readonly offset?: number;
  /** First character of that line to read, from 1. */
  readonly column?: number;
  /** Maximum number of lines to read. */
  readonly limit?: number;
}

/** Reads the text of a file, or an image or PDF as a file for the model. */
export async function readFile(session: SandboxSession, path: string, place: ReadPlace): Promise<string | ModelFile> {
  const { beginning, chunks } = await peek(await session.readFile(path));
  const type = signedTypeOf(beginning);
  const isShown = type?.kind === 'image' || type?.kind === 'pdf';
  return isShown ? readWhole(chunks, type, path) : readText(chunks, path, place);
}

/** Returns the chunks of a file, and a prefix that is long enough to detect any file signature. */
async function peek(file: AsyncIterable<Uint8Array>) {
  const rest = file[Symbol.asyncIterator]();
  let beginning = Buffer.alloc(0);
  while (beginning.byteLength < SIGNATURE_BYTES) {
    const { done, value } = await rest.next();
    if (done) break;
    beginning = Buffer.concat([beginning, value]);
  }
  async function* chunks() {
    try {
      if (beginning.byteLength > 0) yield beginning;
      yield* { [Symbol.asyncIterator]: () => rest };
    } finally {
      await rest.return?.();
    }
  }
  return { beginning, chunks: chunks() };
}

/** Reads a file for display by the model; returns a sentence instead if it is too large. */
async function readWhole(chunks: AsyncIterable<Uint8Array>, type: FileType, path: string): Promise<string | ModelFile> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    parts.push(chunk);
    size += chunk.byteLength;
    if (size <= MAX_SHOWN_BYTES) continue;
    return `${path} is ${type.mediaType} of more than ${MAX_SHOWN_BYTES / 1024 ** 2} MB.\n[It is not shown: make a smaller one of it.]`;
  }
  return modelFileOf(Buffer.concat(parts), type, { title: path, path })!;
}

/** Reads at most the size limit of a result, even from endless files, and says where to continue. */
async function readText(chunks: AsyncIterable<Uint8Array>, path: string, place: ReadPlace): Promise<string> {
  const { offset = 1, column = 1, limit = Number.POSITIVE_INFINITY } = place;
  const decoder = new TextDecoder();
  let size = 0;
  let line = 1;
  let endsLine = false;
  /** Text from the start of line `offset`. */
  let found = '';
  for await (const chunk of chunks) {
    if (size < SNIFFED_BYTES && chunk.subarray(0, SNIFFED_BYTES - size).includes(0)) {
      return `${ERROR} ${path} is not a text file.`;
    }
    size += chunk.byteLength;
    endsLine = chunk.at(-1) === NEWLINE;
    const text = decoder.decode(chunk, { stream: true });
    let at = 0;
    while (line < offset) {
      const end = text.indexOf('\n', at);
      at = end + 1;
      if (end < 0) break;
      line++;
    }
    if (line === offset) found += text.slice(at);
    if (found.length > column + MAX_RESULT_BYTES) break;
    if (size > MAX_READ_BYTES) {
      return `${ERROR} Line ${offset}, column ${column} is not in the first ${MAX_READ_BYTES / 1024 / 1024} MB of ${path}.`;
    }
  }
  if (size === 0) return '(empty file)';
  if (found === '') return `${ERROR} ${path} has ${endsLine ? line - 1 : line} lines, no line ${offset}.`;
  return shownFrom(found, { offset, column, limit }, MAX_RESULT_BYTES);
}

/** Returns a part of a text of at most `maxBytes`, which says where to continue; `problem` if there is nothing at the place. */
export function pageOf(
  text: string,
  { offset = 1, column = 1, limit = Number.POSITIVE_INFINITY }: ReadPlace,
  maxBytes: number,
): { readonly page: string } | { readonly problem: string } {
  let at = 0;
  for (let line = 1; line < offset; line++) {
    at = text.indexOf('\n', at) + 1;
    if (at === 0) return { problem: `It has ${line} lines, no line ${offset}.` };
  }
  const page = shownFrom(text.slice(at), { offset, column, limit }, maxBytes);
  const end = text.indexOf('\n', at);
  const length = (end < 0 ? text.length : end) - at;
  return column > length + 1 ? { problem: `Line ${offset} has ${length} characters.` } : { page };
}

/** @param text Text from the start of line `offset`. */
function shownFrom(text: string, { offset, column, limit }: Required<ReadPlace>, maxBytes: number): string {
  const lineEnd = text.indexOf('\n');
  const length = lineEnd < 0 ? text.length : lineEnd;
  if (column > length + 1) return `${ERROR} Line ${offset} has ${length} characters.`;
  const rest = firstLines(text.slice(column - 1).toWellFormed(), limit);
  const isCut = Buffer.byteLength(rest) > maxBytes;
  const shown = isCut ? wholeLines(Buffer.from(startOf(Buffer.from(rest), maxBytes - NOTE_BYTES)).toString()) : rest;
  if (column - 1 + shown.length === text.length) return shown;
  const lines = shown.split('\n');
  const next = offset + lines.length - 1;
  const inLine = lines.at(-1)!.length + (lines.length === 1 ? column - 1 : 0);
  const goOn = inLine === 0 ? `offset ${next}` : `offset ${next}, column ${inLine + 1}`;
  return `${shown.replace(/\n$/, '')}\n[... the file goes on: ${goOn} ...]`;
}

function firstLines(text: string, count: number): string {
  let end = 0;
  for (let lines = 0; lines < count; lines++) {
    end = text.indexOf('\n', end) + 1;
    if (end === 0) return text;
  }
  return text.slice(0, end);
}

/** Drops an incomplete last line unless it is the only one. */
const wholeLines = (text: string): string => text.slice(0, text.lastIndexOf('\n') + 1) || text;

export async function writeFile(session: SandboxSession, path: string, content: string): Promise<string> {
  const bytes = Buffer.from(content);
  await session.writeFile(path, bytes);
  return `Wrote ${bytes.byteLength} bytes to ${path}.`;
}

export async function listFiles(session: SandboxSession, path: string, recursive: boolean): Promise<string> {
  const files = await session.listFiles(path, { recursive });
  const shown = files.filter((file) => !recursive || !file.path.split('/').some((name) => name.startsWith('.')));
  const lines = shown.map((file) => (file.isFolder ? `${file.path}/` : file.path));
  return lines.length === 0 ? '(empty folder)' : lines.join('\n');
}
