import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventReader } from './event-reader.ts';

const read = (chunks: readonly Buffer[]): string[] => {
  const reader = new EventReader();
  return chunks.flatMap((chunk) => reader.push(chunk));
};

test('data, on one line or more, without names, ids and comments', () => {
  const text =
    '\ufeff: hello\n\nevent: a\ndata: {"x":1}\nid: 7\n\ndata:{"y":\r\ndata: 2}\r\n\r\ndata\ndata:\n\ndata: last\r\rdata: cut';
  expect(read([Buffer.from(text)])).toEqual(['{"x":1}', '{"y":\n2}', 'last']);
});

test('wherever the chunks are cut, also inside a character or a line end', () => {
  const line = fc.constantFrom('data: {"ä":"🍾"}', 'data:x', 'event: e', ': c', '', '');
  const end = fc.constantFrom('\n', '\r\n', '\r');
  fc.assert(
    fc.property(fc.array(fc.tuple(line, end)), fc.array(fc.nat()), (lines, cuts) => {
      const bytes = Buffer.from(lines.flat().join(''));
      const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
      const chunks = places.slice(1).map((place, index) => bytes.subarray(places[index], place));
      expect(read(chunks)).toEqual(read([bytes]));
    }),
  );
});

test('a long line in many chunks is joined once', () => {
  const reader = new EventReader();
  const piece = Buffer.alloc(1000, 'x');
  reader.push(Buffer.from('data: '));
  for (let count = 0; count < 20_000; count++) expect(reader.push(piece)).toEqual([]);
  const [data] = reader.push(Buffer.from('\n\n'));
  expect(data).toHaveLength(20_000_000);
});
