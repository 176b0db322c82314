import { describe, expect, test } from 'vitest';
import { executable, gif, heic, jpeg, mp3, pdf, png, wav, webp } from '#test/helpers/sample-files.ts';
import { decodeText, fileTypeOf, imageSizeOf, pdfPagesOf, signedTypeOf } from './file-type.ts';

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

describe('fileTypeOf', () => {
  test.each<[string, string, Buffer]>([
    ['image/png', 'image', png()],
    ['image/jpeg', 'image', jpeg()],
    ['image/gif', 'image', gif()],
    ['image/gif', 'image', latin1('GIF87a')],
    ['image/webp', 'image', webp()],
    ['image/heic', 'image', heic()],
    ['application/pdf', 'pdf', pdf()],
    ['audio/wav', 'audio', wav()],
    ['audio/mpeg', 'audio', mp3()],
    ['audio/mpeg', 'audio', latin1('\xff\xfb\x90\x64')],
    ['audio/flac', 'audio', latin1('fLaC\0\0\0\x22')],
    ['audio/ogg', 'audio', latin1('OggS\0\x02')],
    ['audio/aiff', 'audio', latin1('FORM\0\0\0\0AIFF')],
    ['audio/aac', 'audio', latin1('\xff\xf1\x50\x80')],
    ['audio/mp4', 'audio', latin1('\0\0\0\x20ftypM4A \0\0\0\0')],
    ['application/zip', 'other', latin1('PK\x03\x04\x14\0')],
    ['application/gzip', 'other', latin1('\x1f\x8b\x08\0')],
    ['application/x-elf', 'other', executable()],
    ['application/x-msdownload', 'other', latin1('MZ\x90\0\x03\0')],
    ['application/octet-stream', 'other', Buffer.from([1, 2, 3, 0])],
    ['application/octet-stream', 'other', latin1('\0\0\0\x20ftypisom')],
    ['application/octet-stream', 'other', latin1('RIFF\x24\0\0\0AVI ')],
  ])('%s is told by its first bytes', (mediaType, kind, bytes) => {
    expect(fileTypeOf(bytes)).toEqual({ mediaType, kind });
  });

  test.each<[string, Buffer, string]>([
    ['utf-8', Buffer.from('name,städte\nAda,Köln\n'), 'name,städte\nAda,Köln\n'],
    ['utf-8', Buffer.from('\uFEFFa\tb\r\n'), 'a\tb\r\n'],
    ['utf-16le', Buffer.from('\uFEFFKöln', 'utf16le'), 'Köln'],
    ['utf-16be', Buffer.from('\uFEFFKöln', 'utf16le').swap16(), 'Köln'],
    ['windows-1252', latin1('K\xf6ln \x80'), 'Köln €'],
    ['utf-8', Buffer.from('MZ is short for Mainz'), 'MZ is short for Mainz'],
    ['utf-8', Buffer.from('PNG, %PDF- and GIF89a are signatures.'), 'PNG, %PDF- and GIF89a are signatures.'],
  ])('text in %s', (encoding, bytes, text) => {
    const type = fileTypeOf(bytes);
    expect(type).toEqual({ mediaType: 'text/plain', kind: 'text', encoding });
    expect(decodeText(bytes, type)).toBe(text);
  });

  test('no file ends too early for it', () => {
    for (const whole of [png(), jpeg(), gif(), webp(), heic(), pdf(), wav(), executable()]) {
      for (let length = 1; length < 40; length++) {
        const bytes = whole.subarray(0, length);
        expect(fileTypeOf(bytes).mediaType).toBeTypeOf('string');
        expect(() => imageSizeOf(bytes, fileTypeOf(whole).mediaType)).not.toThrow();
      }
    }
  });

  test('a text has no signature', () => {
    expect(signedTypeOf(Buffer.from('Hello, world'))).toBeUndefined();
  });
});

describe('imageSizeOf', () => {
  test.each<[string, Buffer]>([
    ['image/png', png(300, 200)],
    ['image/jpeg', jpeg(300, 200)],
    ['image/gif', gif(300, 200)],
    ['image/webp', webp(300, 200)],
    // The lossy format (VP8) and the lossless one, which has 14 bits for each side.
    ['image/webp', latin1('RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x2c\x01\xc8\0')],
    ['image/webp', latin1('RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x2b\xc1\x31\0')],
  ])('%s', (mediaType, bytes) => {
    expect(imageSizeOf(bytes, mediaType)).toEqual({ width: 300, height: 200 });
  });

  test.each<[string, Buffer]>([
    ['image/png', png().subarray(0, 10)],
    ['image/png', Buffer.concat([png().subarray(0, 12), Buffer.alloc(20)])],
    ['image/jpeg', latin1('\xff\xd8\xff\xd9')],
    ['image/jpeg', latin1('\xff\xd8\xff\xe0\0\0\0\0\0\0\0\0')],
    ['image/jpeg', Buffer.concat([latin1('\xff\xd8'), Buffer.alloc(1_000_000, 0xff)])],
    ['image/webp', latin1('RIFF\0\0\0\0WEBPVP8Z')],
    ['image/heic', heic()],
  ])('a damaged %s has none', (mediaType, bytes) => {
    expect(imageSizeOf(bytes, mediaType)).toBeUndefined();
  });
});

test('pages of a PDF are counted, without the list of them', () => {
  expect(pdfPagesOf(pdf(3))).toBe(3);
  expect(pdfPagesOf(Buffer.from('%PDF-1.7 /Type/Page>>/Type  /Page /Type /Pages'))).toBe(2);
  expect(pdfPagesOf(Buffer.from('%PDF-1.7'))).toBe(0);
  expect(pdfPagesOf(Buffer.from('%PDF-1.7'.concat('/Type/Page '.repeat(20_000))))).toBe(10_000);
});
