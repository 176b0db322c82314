import { closeSync, fstatSync, ftruncateSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { TABLE_NAMES, type TableName } from '#core/ports/table-rules.ts';
import { nameOf, Row } from './rows.ts';

/**
 * Writes that may not be in the database file yet: files `FILE.journal-N`, in the order of N. Each is a sequence of
 * groups, which apply completely or not at all:
 *
 *     LENGTH CRC32\n          of the following lines, in bytes; eight hexadecimal digits each
 *     [table, pk, sk, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk]\n
 *     JSON of the item, or nothing if it was deleted\n
 *     ...                     two lines a row
 *
 * A row is the full state of its key, so applying a file twice changes nothing.
 */
export class Journal {
  readonly #path: string;
  #number: number;
  #file: number | undefined;
  #bytes = 0;

  /** @param number Number of the first file, which must not exist. */
  constructor(path: string, number: number) {
    this.#path = path;
    this.#number = number;
  }

  /** Size of the current file. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Hands the group to the operating system, where it survives the end of this process. If this throws, nothing was
   * written.
   */
  append(rows: readonly Row[]): void {
    const group = encodeGroup(rows);
    this.#file ??= this.#open();
    try {
      for (let at = 0; at < group.length; ) at += writeSync(this.#file, group, at);
      this.#bytes += group.length;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Closes the current file and returns its path, or `undefined` if it is empty. */
  next(): string | undefined {
    if (this.#bytes === 0) return undefined;
    this.close();
    this.#number += 1;
    this.#bytes = 0;
    return fileOf(this.#path, this.#number - 1);
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #open(): number {
    const file = openSync(fileOf(this.#path, this.#number), 'a', 0o600);
    try {
      // Truncates the partial group of a failed write: the next group must not follow it.
      if (fstatSync(file).size > this.#bytes) ftruncateSync(file, this.#bytes);
      return file;
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }
}

const HEAD_BYTES = '00000000 00000000\n'.length;
const hex = (value: number): string => value.toString(16).padStart(8, '0');

function encodeGroup(rows: readonly Row[]): Buffer {
  let text = ' '.repeat(HEAD_BYTES);
  for (const { table, pk, sk, text: item, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk } of rows) {
    text += `${JSON.stringify([table, pk, sk, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk])}\n${item ?? ''}\n`;
  }
  const group = Buffer.from(text);
  const body = group.subarray(HEAD_BYTES);
  group.write(`${hex(body.length)} ${hex(crc32(body))}\n`, 'latin1');
  return group;
}

const fileOf = (path: string, number: number): string => `${path}.journal-${number}`;

/** The files of a journal, oldest first. */
export function journalFiles(path: string): { readonly file: string; readonly number: number }[] {
  const prefix = basename(fileOf(path, 0)).slice(0, -1);
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length)))
    .map((name) => ({ file: join(dirname(path), name), number: Number(name.slice(prefix.length)) }))
    .sort((a, b) => a.number - b.number);
}

export interface JournalFile {
  /** The last state of each key, up to the end of the file or the first incomplete group. */
  readonly rows: Iterable<Row>;
  /** `cut`: the file ends inside a group, as after a crash during a write. */
  readonly end: 'whole' | 'cut' | 'damaged';
}

export function readJournal(file: string): JournalFile {
  const bytes = readFileSync(file);
  const rows = new Map<string, Row>();
  let at = 0;
  let end: JournalFile['end'] = 'whole';
  while (at < bytes.length && end === 'whole') {
    const start = at + HEAD_BYTES;
    const head = /^([0-9a-f]{8}) ([0-9a-f]{8})\n$/.exec(bytes.toString('latin1', at, start));
    at = start + (head ? Number.parseInt(head[1]!, 16) : 0);
    const body = bytes.subarray(start, at);
    if (at > bytes.length) end = 'cut';
    else if (!head || hex(crc32(body)) !== head[2]) end = 'damaged';
    else for (const row of decodeGroup(body)) rows.set(row.table + row.name, row);
  }
  return { rows: rows.values(), end };
}

type Head = [TableName, string, string, number | null, ...indexes: (string | null)[]];

function* decodeGroup(body: Buffer): Generator<Row> {
  const lines = body.toString().split('\n');
  for (let line = 0; line + 1 < lines.length; line += 2) {
    const [table, pk, sk, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk] = JSON.parse(lines[line]!) as Head;
    if (!TABLE_NAMES.includes(table))
      throw new Error(`a journal contains the unknown table ${table}: a newer version wrote it`);
    const columns = { pk, sk, ttl, gsi1pk, gsi1sk, gsi2pk, gsi2sk };
    yield new Row(table, nameOf(columns), lines[line + 1] || undefined, columns);
  }
}
