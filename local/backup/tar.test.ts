import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { ARCHIVE_END, fileHeader, padding, readTar } from './tar.ts';

const padded = (body: string): Buffer => Buffer.concat([Buffer.from(body), padding(Buffer.byteLength(body))]);
const entry = (path: string, body: string): Buffer =>
  Buffer.concat([fileHeader(path, Buffer.byteLength(body)), padded(body)]);

/** An entry whose header is changed and has a right checksum. */
function changedEntry(path: string, body: string, change: (header: Buffer) => void): Buffer {
  const header = fileHeader(path, Buffer.byteLength(body));
  change(header);
  header.write('        ', 148);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, padded(body)]);
}
const typed = (type: string, body: string): Buffer => changedEntry('x', body, (header) => void header.write(type, 156));

async function read(archive: Buffer): Promise<(readonly [path: string, body: string])[]> {
  const files: (readonly [string, string])[] = [];
  const chunks = (async function* () {
    yield archive;
  })();
  for await (const { path, body } of readTar(chunks)) {
    files.push([path, Buffer.concat(await Array.fromAsync(body())).toString()]);
  }
  return files;
}

const FILE = entry('blobs/a', 'one');
const LONG = `blobs/${'a-long-segment-of-a-key/'.repeat(6)}end`;

test('the bytes of an archive stay as they are: earlier versions of the platform read them', async () => {
  const archive = Buffer.concat([FILE, entry(LONG, ''), fileHeader('platform.sqlite', 9 * 2 ** 30)]);
  expect(hash('sha256', archive)).toBe('17cea0db9b99955694a7947d339a07ef24d237d81949c667bfb58e3375bc0617');
  expect(await read(Buffer.concat([FILE, entry(LONG, 'long'), ARCHIVE_END]))).toEqual([
    ['blobs/a', 'one'],
    [LONG, 'long'],
  ]);
});

describe('refused is what common readers of tar accept:', () => {
  test.each<[name: string, archive: readonly Buffer[], words: string]>([
    ['no end', [FILE], 'ends too early'],
    ['half an end', [FILE, Buffer.alloc(512)], 'ends too early'],
    ['a second archive behind the end', [FILE, ARCHIVE_END, FILE, ARCHIVE_END], 'after its end'],
    ['a file behind a block of zeros', [Buffer.alloc(512), FILE, ARCHIVE_END], 'after its end'],
    ['a long name of GNU', [typed('L', 'blobs/../../outside\0'), FILE, ARCHIVE_END], 'not a regular file'],
    ['a global pax header', [typed('g', '16 path=blobs/b\n'), FILE, ARCHIVE_END], 'not a regular file'],
    ['a contiguous file', [typed('7', 'one'), ARCHIVE_END], 'not a regular file'],
    ['a damaged pax record', [typed('x', 'nonsense'), FILE, ARCHIVE_END], 'a pax header'],
    ['a size that is no number', [typed('x', '12 size=3xy\n'), FILE, ARCHIVE_END], 'wrong size'],
    [
      'a long pax header',
      [typed('x', `100009 a=${'y'.repeat(100_000 - 1)}\n`), FILE, ARCHIVE_END],
      'header that is too long',
    ],
    [
      'a binary size',
      [changedEntry('blobs/a', 'one', (header) => header.fill(0, 124, 136).writeUInt8(0x80, 124)), ARCHIVE_END],
      'no size',
    ],
    ['no size', [changedEntry('blobs/a', '', (header) => header.fill(0, 124, 136)), ARCHIVE_END], 'no size'],
  ])('%s', async (_, archive, words) => {
    await expect(read(Buffer.concat(archive))).rejects.toMatchObject({
      code: 'ARCHIVE',
      message: expect.stringContaining(words),
    });
  });
});
