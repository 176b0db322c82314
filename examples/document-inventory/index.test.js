// Run `npm test` in this folder.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { findPersonalData } from './personal-data.js';

const folder = mkdtempSync(join(tmpdir(), 'inventory-'));
after(() => rmSync(folder, { recursive: true, force: true }));

function run(input) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['index.js'], {
    cwd: import.meta.dirname,
    input: typeof input === 'string' ? input : JSON.stringify(input),
    encoding: 'utf8',
  });
  return { status, stderr, answer: JSON.parse(stdout) };
}

/** Stores uploads like the platform, under names that differ from the original ones. */
function inventory(uploads) {
  const files = Object.entries(uploads).map(([name, content], index) => {
    const path = join(folder, `upload-${index}`);
    writeFileSync(path, content);
    return { path, original_name: name };
  });
  const { status, stderr, answer } = run({ files });
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
  return answer;
}

const only = (name, content) => inventory({ [name]: content }).files[0];
const hex = (...parts) => Buffer.from(parts.join(''), 'hex');

/** Creates a zip with one empty stored file. */
function zipOf(name) {
  const size = Buffer.alloc(2);
  size.writeUInt16LE(name.length);
  const [length, at] = [size.toString('hex'), Buffer.from(name).toString('hex')];
  const local = `504b03040a000000000000000000${'0'.repeat(24)}${length}0000${at}`;
  const central = `504b01020a000a000000000000000000${'0'.repeat(24)}${length}${'0'.repeat(32)}${at}`;
  const sizes = Buffer.alloc(8);
  sizes.writeUInt32LE(central.length / 2, 0);
  sizes.writeUInt32LE(local.length / 2, 4);
  return hex(local, central, '504b05060000000001000100', sizes.toString('hex'), '0000');
}

const WORD = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';

describe('types', () => {
  const frame = 'ffc0001108000a0014';
  const cases = [
    [
      'a.png',
      hex('89504e470d0a1a0a0000000d49484452', '0000000a00000014', '49454e44ae426082'),
      'image/png',
      { width: 10, height: 20 },
    ],
    ['a.jpg', hex('ffd8ffe000044a46', frame), 'image/jpeg', { width: 20, height: 10 }],
    ['a.gif', hex('4749463839610a001400'), 'image/gif', { width: 10, height: 20 }],
    [
      'a.pdf',
      '%PDF-1.7\n<< /Type /Pages >> << /Type /Page >>\n%%EOF',
      'application/pdf',
      { version: '1.7', pages: 1, encrypted: false },
    ],
    ['a.zip', zipOf('b.txt'), 'application/zip', { entries: 1, expanded_bytes: 0, encrypted: false, names: ['b.txt'] }],
    [
      'a.docx',
      zipOf('word/document.xml'),
      WORD,
      { entries: 1, expanded_bytes: 0, encrypted: false, names: ['word/document.xml'] },
    ],
    ['a.json', '\ufeff{"b": 1}', 'application/json', { kind: 'object', members: ['b'] }],
    ['b.json', '[1, 2]', 'application/json', { kind: 'array', items: 2 }],
    ['c.json', 'null', 'application/json', { kind: 'null' }],
    ['a.csv', 'a;b\n"x;y";2\n', 'text/csv', { delimiter: ';', columns: 2 }],
    ['a.html', '<!doctype html><p>', 'text/html', undefined],
    ['a.svg', '<?xml version="1.0"?><svg/>', 'image/svg+xml', undefined],
    ['a.txt', 'MZ is how this text begins', 'text/plain', undefined],
    ['a.bin', hex('00010203'), 'application/octet-stream', undefined],
  ];
  for (const [name, content, type, details] of cases) {
    test(name, () => {
      const file = only(name, content);
      assert.equal(file.type, type);
      assert.deepEqual(file.details, details);
      assert.deepEqual(file.problems, []);
    });
  }
});

describe('problems', () => {
  const cases = [
    ['empty.pdf', '', /^is empty$/],
    ['a.pdf', 'just text', /named \.pdf, but its content is text\/plain/],
    ['a.xlsx', zipOf('word/document.xml'), /named \.xlsx, but its content is .*wordprocessingml/],
    ['a.txt', hex('00ff'), /named \.txt, but is not text/],
    ['a.json', '{"a": ', /not valid JSON/],
    ['cut.png', hex('89504e470d0a1a0a'), /damaged: the image has no header/],
    ['cut.jpg', hex('ffd8ffe0ffff'), /damaged: the image has no size/],
    ['cut.gif', hex('474946383961'), /damaged: the image has no header/],
    ['cut.pdf', '%PDF-1.7\n', /damaged: the document has no end/],
    ['cut.zip', zipOf('b.txt').subarray(0, 40), /damaged: the archive has no table of contents/],
    [
      'wrong.zip',
      hex('504b0304', '504b05060000000001000100', 'ffffffff', 'ffffffff', '0000'),
      /table of contents .* cannot be read/,
    ],
  ];
  for (const [name, content, problem] of cases) {
    test(name, () => {
      const { problems } = only(name, content);
      assert.equal(problems.length, 1);
      assert.match(problems[0], problem);
    });
  }

  test('uploads that cannot be read do not hide the others', () => {
    const path = join(folder, 'a.txt');
    writeFileSync(path, 'a');
    const { status, answer } = run({ files: [{ path: join(folder, 'missing') }, { path: folder }, { path }] });
    assert.equal(status, 0);
    assert.deepEqual(
      answer.files.map((file) => file.type),
      ['unreadable', 'unreadable', 'text/plain'],
    );
  });

  test('random bytes behind a known beginning never end in a crash', () => {
    const beginnings = ['89504e470d0a1a0a', 'ffd8ff', '474946383961', '255044462d', '504b0304', '504b0506', '1f8b08'];
    const uploads = {};
    for (let index = 0; index < 200; index++) {
      const noise = Buffer.from(Array.from({ length: index % 64 }, (_, at) => (index * 31 + at * at * 7) % 256));
      uploads[`${index}.bin`] = Buffer.concat([
        hex(beginnings[index % beginnings.length]),
        noise,
        hex('504b0506'),
        noise,
      ]);
    }
    assert.equal(inventory(uploads).files.length, 200);
  });
});

describe('text', () => {
  const measured = (content) => only('a.txt', content).text;

  test('lines, words and the longest line', () => {
    assert.deepEqual(measured('one two\r\n\r\nthree'), { encoding: 'utf-8', lines: 3, words: 3, longest_line: 7 });
    assert.deepEqual(measured('\n\n'), { encoding: 'utf-8', lines: 2, words: 0, longest_line: 0 });
  });

  test('encodings', () => {
    assert.equal(measured(Buffer.from('gr\xf6\xdfe', 'latin1')).encoding, 'windows-1252');
    assert.equal(measured(Buffer.from('\ufeffa', 'utf16le')).encoding, 'utf-16le');
    assert.equal(measured('größe').encoding, 'utf-8');
    assert.equal(measured(hex('610062')), undefined);
  });

  test('huge lines and many lines', () => {
    const [long, many] = inventory({ long: 'a'.repeat(10_000_000), many: '\n'.repeat(5_000_000) }).files;
    assert.deepEqual([long.text.longest_line, long.text.words], [10_000_000, 1]);
    assert.equal(many.text.lines, 5_000_000);
  });
});

describe('personal data', () => {
  const shown = (content) => findPersonalData(content).places.map((place) => place.shown);

  const found = [
    ['mail ada.b+c@mail.example.co.uk.', 'a***@***.uk'],
    ['DE89 3704 0044 0532 0130 00 AND MORE', 'DE***00'],
    ['(GB29NWBK60161331926819)', 'GB***19'],
    ['NO9386011117947', 'NO***47'],
    ['4242 4242 4242 4242', '***4242'],
    ['3782-822463-10005', '***0005'],
    ['cards:5555555555554444,', '***4444'],
  ];
  for (const [content, expected] of found) {
    test(`in ${content}`, () => assert.deepEqual(shown(content), [expected]));
  }

  const notFound = [
    'a@b',
    '@ada',
    'DE89 3704 0044 0532 0130 01',
    'XX89370400440532013000',
    '4242 4242 4242 4241',
    '0.4242424242424242',
    '1'.repeat(16),
    '42424242424242424242424242424242',
    'a'.repeat(100_000),
  ];
  for (const content of notFound) {
    test(`none in ${content.slice(0, 40)}`, () => assert.deepEqual(shown(content), []));
  }

  test('with the line, in the order of the text', () => {
    const { places, ...counts } = findPersonalData('x\n4242424242424242 a@b.org\r\n\nc@d.org');
    assert.deepEqual(counts, { total: 3, email: 2, iban: 0, card: 1 });
    assert.deepEqual(
      places.map(({ kind, line }) => [kind, line]),
      [
        ['card', 2],
        ['email', 2],
        ['email', 4],
      ],
    );
  });

  test('all are counted, the first are listed', () => {
    const { email, places } = findPersonalData('a@b.org\n'.repeat(1000));
    assert.deepEqual([email, places.length, places.at(-1).line], [1000, 20, 20]);
  });

  test('is never passed on', () => {
    const secrets = ['ada@example.com', 'DE89370400440532013000', '4242424242424242'];
    const printed = JSON.stringify(inventory({ 'a.txt': secrets.join('\n') }));
    for (const secret of secrets) assert.ok(!printed.includes(secret));
  });
});

test('copies are found, empty files are none', () => {
  const { copies, summary } = inventory({ a: 'same', b: 'other', c: 'same', d: '', e: '' });
  assert.deepEqual(copies, [['a', 'c']]);
  assert.equal(summary, '5 files, 1 group of copies, 2 files with problems');
});

describe('bad input is refused in words', () => {
  const cases = [
    ['', /cannot be read as JSON/],
    ['null', /^files: upload at least one/],
    ['{"files": {}}', /^files: upload at least one/],
    ['{"files": []}', /^files: upload at least one/],
    ['{"files": [null]}', /^files\[0\]: must be an object/],
    ['{"files": [{"path": 5}]}', /^files\[0\]: must be an object/],
  ];
  for (const [input, message] of cases) {
    test(input, () => {
      const { status, stderr, answer } = run(input);
      assert.deepEqual({ status, stderr }, { status: 1, stderr: '' });
      assert.match(answer.error, message);
    });
  }
});
