import { createHash } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { zipSync } from 'fflate';
import { describe, expect, test, vi } from 'vitest';
import { isPlatformError } from '#core/base/errors.ts';
import { type ZipEntry, type ZipOptions, zip } from '#test/helpers/zip.ts';
import { expandBundle, inspectBundle, newFolders } from './bundle.ts';

const text = (content: string) => new TextEncoder().encode(content);
const MB = 1024 * 1024;
const good: ZipEntry = { name: 'main.py', content: 'print("{}")' };

describe('a sound bundle', () => {
  test('is reported', async () => {
    const bytes = zip([
      good,
      { name: 'src/lib/tool.sh', content: 'echo', mode: 0o100755 },
      { name: 'data/empty/', mode: 0o040755, method: 0 },
      { name: 'größe.txt', content: 'ü', flags: 0 },
      { name: 'stored.bin', content: 'abc', method: 0 },
      { name: 'nothing', mode: 0 },
    ]);
    const report = await inspectBundle(bytes);
    expect(report).toMatchObject({
      files: [
        { path: 'main.py', size: 11, executable: false },
        { path: 'src/lib/tool.sh', size: 4, executable: true },
        { path: 'größe.txt', size: 2, executable: false },
        { path: 'stored.bin', size: 3, executable: false },
        { path: 'nothing', size: 0, executable: false },
      ],
      folders: ['data', 'data/empty', 'src', 'src/lib'],
      totalBytes: 20,
      sha256: createHash('sha256').update(bytes).digest('hex'),
      bytes,
    });
    expect(report.textOf('größe.txt')).toBe('ü');
    expect(report.textOf('stored.bin')).toBe('abc');
    expect(report.textOf('absent')).toBeUndefined();
  });

  test.each<[string, Uint8Array]>([
    ['of another writer', zipSync({ 'main.py': text('1'), src: { 'a.py': text('2'.repeat(100)) } })],
    ['with a comment', zip([good], { comment: 'made by hand' })],
    ['with zip64 records', zip([good], { zip64: { entryCount: 1n } })],
    ['with something in front', zip([good], { prefix: text('PK of a self-extracting archive') })],
    ['with names that differ by case only', zip([good, { name: 'Main.py', content: '' }])],
    ['with a folder entry after its files', zip([{ name: 'a/b' }, { name: 'a/', mode: 0o040755 }])],
    ['as a view into a larger buffer', Buffer.concat([Buffer.alloc(7), zip([good])]).subarray(7)],
  ])('%s is accepted', async (_, bytes) => {
    expect((await inspectBundle(bytes)).files.length).toBeGreaterThan(0);
  });

  test('is expanded, folders first', async () => {
    const seen: string[] = [];
    const bytes = zip([{ name: 'a/b/c', content: 'x'.repeat(200_000) }, good]);
    await expandBundle(bytes, {
      onFolder(path) {
        seen.push(`${path}/`);
      },
      async onFile(file, content) {
        const chunks = await Array.fromAsync(content);
        seen.push(`${file.path} ${Buffer.concat(chunks).byteLength}`);
      },
    });
    expect(seen).toEqual(['a/', 'a/b/', 'a/b/c 200000', 'main.py 11']);
  });

  test('must be read to its end', async () => {
    const ignore = { onFolder() {}, async onFile() {} };
    await expect(expandBundle(zip([good]), ignore)).rejects.toThrow('not read to its end');
  });
});

describe('a refused bundle', () => {
  const entries = (...list: ZipEntry[]) => zip([good, ...list]);
  const options = (given: ZipOptions) => zip([good], given);
  const damaged = (change: (bytes: Buffer) => Buffer | undefined) => {
    const bytes = zip([good, { name: 'b', content: 'x'.repeat(1000) }]);
    return change(bytes) ?? bytes;
  };
  const many = (count: number, name: (index: number) => string) =>
    zip(Array.from({ length: count }, (_, index) => ({ name: name(index), method: 0 })));
  const deflatedZeros = (megabytes: number) => deflateRawSync(Buffer.alloc(megabytes * MB));

  test.each<[string, () => Uint8Array, string]>([
    ['nothing', () => new Uint8Array(), 'not a zip'],
    ['text', () => text('#!/usr/bin/env python3'), 'not a zip'],
    ['only the beginning of a zip', () => text('PK\u0003\u0004'), 'truncated'],
    ['a truncated zip', () => damaged((bytes) => bytes.subarray(0, -30)), 'truncated'],
    ['a zip without files', () => zip([]), 'no file'],
    ['a zip with folders only', () => zip([{ name: 'a/', method: 0, mode: 0o040755 }]), 'no file'],

    ['..', () => entries({ name: '../x' }), '".."'],
    ['.. within', () => entries({ name: 'a/../../x' }), '".."'],
    ['.', () => entries({ name: './x' }), '"."'],
    ['an empty name', () => entries({ name: '' }), 'empty'],
    ['an empty folder name', () => entries({ name: 'a//x' }), 'empty name'],
    ['the root', () => entries({ name: '/' }), 'empty'],
    ['a backslash', () => entries({ name: '..\\x' }), 'backslash'],
    ['an absolute path', () => entries({ name: '/etc/passwd' }), 'absolute'],
    ['a drive letter', () => entries({ name: 'C:x' }), 'absolute'],
    ['NUL', () => entries({ name: 'x\0.py' }), 'control character'],
    ['a line end', () => entries({ name: 'a\nb' }), 'control character'],
    ['a long name', () => entries({ name: 'x'.repeat(256) }), '255 bytes'],
    ['a long path', () => entries({ name: `${'x/'.repeat(600)}x` }), '1024 bytes'],
    ['a name that is not UTF-8', () => entries({ name: Uint8Array.of(0xff, 0x2e) }), 'not UTF-8'],

    ['a symbolic link', () => entries({ name: 'x', content: '/etc', mode: 0o120777 }), 'link or a special file'],
    ['a FIFO', () => entries({ name: 'x', mode: 0o010644 }), 'special file'],
    ['a device', () => entries({ name: 'x', mode: 0o020644 }), 'special file'],
    ['a block device', () => entries({ name: 'x', mode: 0o060644 }), 'special file'],
    ['a socket', () => entries({ name: 'x', mode: 0o140644 }), 'special file'],
    ['a folder in disguise', () => entries({ name: 'x', mode: 0o040755 }), 'special file'],
    ['a folder with content', () => entries({ name: 'x/', content: 'x', mode: 0o040755 }), 'content of its own'],

    ['an encrypted entry', () => entries({ name: 'x', flags: 1 }), 'encrypted'],
    ['strong encryption', () => entries({ name: 'x', flags: 0x41 }), 'encryption'],
    ['bzip2', () => entries({ name: 'x', method: 12 }), 'method 12'],
    ['a wrong checksum', () => entries({ name: 'x', content: 'x', crc: 1 }), 'checksum'],
    ['more than it declares', () => entries({ name: 'x', content: 'xyz', size: 2 }), 'more than the 2 bytes'],
    ['less than it declares', () => entries({ name: 'x', content: 'xyz', size: 4 }), 'expands to 3 bytes'],
    ['a stored file of another size', () => entries({ name: 'x', content: 'xyz', size: 2, method: 0 }), 'mismatch'],
    [
      'garbage for content',
      () => entries({ name: 'x', raw: Uint8Array.of(255, 255, 255), size: 9 }),
      'cannot be expanded',
    ],
    [
      'content without an end',
      () => entries({ name: 'x', content: 'xyz', raw: deflateRawSync('xyz').subarray(0, -1) }),
      'cannot be expanded',
    ],
    [
      'something after the content',
      () => entries({ name: 'x', content: 'xyz', raw: Buffer.concat([deflateRawSync('xyz'), text('hidden')]) }),
      'compressed size',
    ],
    ['a compressed size beyond the end', () => entries({ name: 'x', compressedSize: 1e9 }), 'overflows'],

    ['a name twice', () => entries({ name: 'main.py' }), 'twice'],
    ['a file and a folder', () => entries({ name: 'a' }, { name: 'a/b' }), 'as a file and as a folder'],
    ['a folder and a file', () => entries({ name: 'a/b' }, { name: 'a' }), 'as a file and as a folder'],
    ['a name twice, once as folder', () => entries({ name: 'a' }, { name: 'a/', mode: 0o040755 }), 'twice'],

    ['other names inside', () => entries({ name: 'x', localName: 'y' }), 'contradict'],
    ['an entry that points to another', () => entries({ name: 'b', content: 'print("{}")', offset: 0 }), 'contradict'],
    ['entries that share their bytes', () => quotedEntry(), 'overlaps'],
    ['an entry that reaches into the directory', () => overlappingDirectory(), 'overlaps'],
    ['fewer entries declared', () => zip([good, { name: 'x' }], { entryCount: 1 }), 'more entries than it declares'],
    ['more entries declared', () => zip([good], { entryCount: 2 }), 'EOF'],
    ['an endless zip64 count', () => options({ zip64: { entryCount: 2n ** 64n - 1n } }), 'entries; at most'],
    ['a zip64 directory nowhere', () => options({ zip64: { entryCount: 1n, directoryOffset: 2n ** 60n } }), 'EOF'],
    ['zip64 sizes without the field', () => entries({ name: 'x', size: 0xffffffff }), 'expands to more than 250 MB'],
    ['a broken extra field', () => entries({ name: 'x', extra: Uint8Array.of(1, 0, 99, 0) }), 'extra field'],

    ['too many files', () => many(10_001, (index) => `f${index}`), 'more than 10000 files'],
    ['too many entries', () => many(20_001, (index) => `f${index}`), '20001 entries'],
    ['too many folders', () => many(200, (index) => `${index}/${'x/'.repeat(99)}f`), 'more than 10000 folders'],
    [
      'too much declared',
      () => entries({ name: 'a', size: 200 * MB }, { name: 'b', size: 51 * MB }),
      'expands to more than 250 MB',
    ],
    [
      'a bomb that declares little',
      () => entries({ name: 'a', raw: deflatedZeros(300), size: 1000 }),
      'more than the 1000 bytes',
    ],
  ])('%s', async (_, make, message) => {
    const error = await inspectBundle(make()).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(message) });
  });

  /** Technique of overlapping zip bombs: the content of the first file is the second file, header included. */
  function quotedEntry(): Buffer {
    const inner = { name: 'b', content: 'x', method: 0 };
    const local = zip([inner]).subarray(0, 32);
    return zip([
      { name: 'a', content: local, method: 0 },
      { ...inner, offset: 31 },
    ]);
  }

  function overlappingDirectory(): Buffer {
    const bytes = zip([{ name: 'a', content: 'x'.repeat(50), method: 0, flags: 8 }, { name: 'b' }]);
    // The stored size of "a" is extended past the local header of "b".
    const entry = bytes.indexOf('PK\u0001\u0002');
    bytes.writeUInt32LE(60, entry + 20);
    bytes.writeUInt32LE(60, entry + 24);
    return bytes;
  }
});

test('textOf refuses files that are large or not UTF-8', async () => {
  const report = await inspectBundle(
    zip([
      { name: 'requirements.txt', content: Uint8Array.of(0xff, 0xfe, 0x61, 0) },
      { name: 'package-lock.json', content: Buffer.alloc(8 * MB + 1) },
      { name: 'package.json', content: '\ufeff{}' },
    ]),
  );
  expect(() => report.textOf('requirements.txt')).toThrow('not UTF-8');
  expect(() => report.textOf('package-lock.json')).toThrow('more than 8 MB');
  expect(report.textOf('package.json')).toBe('{}');
});

describe('random uploads', () => {
  const seed = zip([
    good,
    { name: 'src/a.py', content: 'x = 1\n'.repeat(50) },
    { name: 'data/', method: 0, mode: 0o040755 },
    { name: 'stored', content: 'abc', method: 0 },
  ]);

  async function isReportedOrRefused(bytes: Uint8Array): Promise<void> {
    try {
      const report = await inspectBundle(bytes);
      for (const { path } of report.files) report.textOf(path);
    } catch (error) {
      if (!isPlatformError(error) || error.code !== 'INVALID_INPUT') throw error;
    }
  }

  test('mutated zips are reported or refused', async () => {
    const mutation = fc.record({
      at: fc.nat(seed.byteLength - 1),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }),
    });
    const edits = fc.array(mutation, { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(edits, fc.nat(seed.byteLength), fc.boolean(), async (list, cut, isCut) => {
        const bytes = Buffer.from(seed);
        for (const edit of list) bytes.set(edit.bytes.subarray(0, bytes.byteLength - edit.at), edit.at);
        await isReportedOrRefused(isCut ? bytes.subarray(cut) : bytes);
      }),
      { numRuns: 1500 },
    );
  });

  test('zips of any entries are reported or refused', async () => {
    const name = fc.oneof(
      fc.constantFrom('a', 'a/', 'a/b', '../a', '/a', 'a\\b', '.', ''),
      fc.string({ maxLength: 12, unit: 'binary' }),
    );
    const entry = fc.record(
      {
        name,
        content: fc.uint8Array({ maxLength: 64 }),
        method: fc.constantFrom(0, 8, 9, 99),
        flags: fc.nat(0xffff),
        mode: fc.nat(0xffff),
        size: fc.nat(128),
        offset: fc.nat(300),
      },
      { requiredKeys: ['name'] },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 5 }), async (list) => isReportedOrRefused(zip(list))),
      { numRuns: 500 },
    );
  });
});

test('a long path that many entries share is cut once', async () => {
  const names = Array.from({ length: 1_000 }, (_, i) => `${'a/'.repeat(500)}${i}`);
  const { folders } = await inspectBundle(zip(names.map((name) => ({ name }))));
  expect(folders).toHaveLength(500);
  const known = new Set(folders);
  const has = vi.fn((folder: string) => known.has(folder));
  expect(names.flatMap((name) => [...newFolders(name, false, { has })])).toEqual([]);
  expect(has).toHaveBeenCalledTimes(names.length);
});
