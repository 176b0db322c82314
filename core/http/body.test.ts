import { describe, expect, test } from 'vitest';
import { mediaType, parseJson, readJson } from './body.ts';
import { readMultipart } from './multipart.ts';

type Body = RequestInit['body'];

const request = (body: Body, contentType?: string, headers: Record<string, string> = {}): Request =>
  new Request('http://platform.test/', {
    method: 'POST',
    body,
    headers: { ...(contentType && { 'content-type': contentType }), ...headers },
    ...{ duplex: 'half' },
  });
const json = (body: Body, headers?: Record<string, string>) => request(body, 'application/json', headers);
const LIMIT = { bytes: 10_000 };

describe('readJson', () => {
  test.each([
    ['an object', '{"a":1}', { a: 1 }],
    ['null', 'null', null],
    ['text in any script', '"ünïcødé 😀"', 'ünïcødé 😀'],
    ['a byte order mark first', '\ufeff{"a":1}', { a: 1 }],
    ['500 levels', '['.repeat(499) + ']'.repeat(499), expect.any(Array)],
  ])('reads %s', async (_, body, value) => {
    expect(await readJson(json(body), LIMIT)).toEqual(value);
  });

  test('keeps a member named __proto__ a member', async () => {
    const value = (await readJson(json('{"__proto__":{"polluted":true}}'), LIMIT)) as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(['__proto__']);
    expect(value.polluted).toBeUndefined();
  });

  test('an empty body is undefined, whatever its content type', async () => {
    expect(await readJson(request('', 'text/plain'), LIMIT)).toBeUndefined();
    expect(await readJson(new Request('http://platform.test/', { method: 'POST' }), LIMIT)).toBeUndefined();
  });

  test.each(['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/merge-patch+json'])(
    'takes %s',
    async (type) => {
      expect(await readJson(request('1', type), LIMIT)).toBe(1);
    },
  );

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx'])('refuses %s', async (type) => {
    await expect(readJson(request('{}', type), LIMIT)).rejects.toMatchObject({
      code: 'UNSUPPORTED_TYPE',
      message: `The body must be JSON, but its content type is "${type}".`,
    });
  });

  test('says where it is no JSON, and does not repeat what it is', async () => {
    const refused = readJson(json('{"password":"hunter2'), LIMIT);
    await expect(refused).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/position \d+/),
    });
    await expect(refused).rejects.not.toMatchObject({ message: expect.stringContaining('hunter2') });
  });

  test('refuses bytes that are no UTF-8', async () => {
    const bytes = Buffer.from([0x22, 0xff, 0xfe, 0x22]);
    await expect(readJson(json(bytes), LIMIT)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test.each([501, 10_000, 1_000_000])('refuses %i levels, which would overflow the stack later', async (depth) => {
    const body = '['.repeat(depth) + ']'.repeat(depth);
    await expect(readJson(json(body), { bytes: 10_000_000 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('500 levels'),
    });
  });

  test.each(['1e400', '{"a":[-1e999]}'])('refuses %s, which would be Infinity', async (body) => {
    await expect(readJson(json(body), LIMIT)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: 'The body contains a number larger than 1.8e308.',
    });
  });

  test('refuses a length over the limit before it reads', async () => {
    let pulled = 0;
    const endless = new ReadableStream(
      {
        pull(controller) {
          pulled += 1;
          controller.enqueue(new Uint8Array(1000));
        },
      },
      { highWaterMark: 0 },
    );
    const declared = request(endless, 'application/json', { 'content-length': '100000000' });
    await expect(readJson(declared, LIMIT)).rejects.toMatchObject({ code: 'DOCUMENT_TOO_LARGE' });
    expect(pulled).toBe(0);
    const undeclared = request(endless, 'application/json');
    await expect(readJson(undeclared, LIMIT)).rejects.toMatchObject({
      code: 'DOCUMENT_TOO_LARGE',
      message: 'The request body is larger than 9 KB, the maximum that is accepted here.',
    });
    expect(pulled).toBe(11);
  });
});

describe('JSON with more values than memory has room for', () => {
  const parse = (text: string) => parseJson(Buffer.from(text), 'The body');

  test('is refused before it is parsed', () => {
    const message = 'The body has more than 5,000,000 values: members of objects, elements of arrays.';
    const refused = expect.objectContaining({ code: 'DOCUMENT_TOO_LARGE', message });
    expect(() => parse(`[${'[],'.repeat(4_000_000)}0]`)).toThrow(refused);
    // The body is not even valid JSON.
    expect(() => parse('['.repeat(5_000_001))).toThrow(refused);
  });

  test('is told from long texts', () => {
    const text = '\\",[{'.repeat(3_000_000);
    expect(parse(JSON.stringify({ text }))).toEqual({ text });
    expect(() => parse(`["${'\\'.repeat(8_000_000)}`)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });

  test('may have as many as that', () => {
    expect(parse(`[${'10,'.repeat(4_999_998)}10]`)).toHaveLength(4_999_999);
  });
});

const FORM = 'multipart/form-data; boundary=B';
const openPart = (name: string, filename?: string): string =>
  `--B\r\ncontent-disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n\r\n`;
const part = (name: string, content: string, filename?: string): string => `${openPart(name, filename)}${content}\r\n`;

// Vitest fails on uncaught errors: an error of a broken body must not reach the process.
describe('readMultipart', () => {
  test('reads files and fields', async () => {
    const body = `${part('file', 'a,b', 'täble.csv')}${part('metadata', '{"a":1}')}--B--\r\n`;
    const { files, fields } = await readMultipart(request(body, FORM), LIMIT);
    expect(files.map(({ field, name, content }) => [field, name, Buffer.from(content).toString()])).toEqual([
      ['file', 'täble.csv', 'a,b'],
    ]);
    expect({ ...fields }).toEqual({ metadata: '{"a":1}' });
  });

  test('takes what fetch makes of a FormData', async () => {
    const form = new FormData();
    form.set('file', new Blob([new Uint8Array([0, 1, 255])]), 'x.bin');
    const { files } = await readMultipart(request(form), LIMIT);
    expect(files).toEqual([
      { field: 'file', name: 'x.bin', contentType: 'application/octet-stream', content: Buffer.from([0, 1, 255]) },
    ]);
  });

  test('names folders of a client do not get through', async () => {
    const body = `${part('file', 'x', '../../etc/passwd')}--B--\r\n`;
    expect((await readMultipart(request(body, FORM), LIMIT)).files[0]!.name).toBe('passwd');
  });

  test('a field may be named as a member of Object.prototype', async () => {
    const body = `${part('__proto__', 'x')}${part('constructor', 'y')}--B--\r\n`;
    expect(Object.entries((await readMultipart(request(body, FORM), LIMIT)).fields)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]);
  });

  test.each([
    ['cut off inside a file', `${openPart('file', 'a.zip')}abc`],
    ['cut off inside a field', `${openPart('metadata')}abc`],
    ['cut off inside a header', '--B\r\ncontent-dispo'],
    ['empty', ''],
    ['no multipart at all', 'hello'],
    ['a part with a header that never ends', `--B\r\nx: ${'y'.repeat(20_000)}`],
  ])('refuses a body that is %s', async (_, body) => {
    await expect(readMultipart(request(body, FORM), { bytes: 100_000 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  test('refuses a content type without a boundary', async () => {
    await expect(readMultipart(request('x', 'multipart/form-data'), LIMIT)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('Boundary'),
    });
  });

  test('stops at the limit, in the middle of a file', async () => {
    const chunks = [openPart('file', 'a.zip'), ...Array(20).fill('x'.repeat(1000))].map((c) => Buffer.from(c));
    await expect(readMultipart(request(ReadableStream.from(chunks), FORM), LIMIT)).rejects.toMatchObject({
      code: 'DOCUMENT_TOO_LARGE',
    });
  });

  test.each([
    ['files', (n: number) => part('file', 'x', `${n}.txt`)],
    ['fields', (n: number) => part(`field${n}`, 'x')],
  ])('refuses more than 100 %s', async (what, make) => {
    const body = `${Array.from({ length: 101 }, (_, n) => make(n)).join('')}--B--\r\n`;
    await expect(readMultipart(request(body, FORM), { bytes: 1_000_000 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: `The multipart body has more than 100 ${what}.`,
    });
  });
});

test('mediaType is lower case and without parameters', () => {
  expect(mediaType(request('', 'Text/HTML; charset=utf-8'))).toBe('text/html');
  expect(mediaType(new Request('http://platform.test/'))).toBe('');
});
