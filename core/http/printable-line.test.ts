import { analyse } from 'scslre';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { asPrintableLine, printableLine } from './printable-line.ts';

test('names in any script are taken, without the space around them', () => {
  const name = printableLine(40);
  expect(name.parse('  Ærøskøbing 東京 👩‍🚀 مرحبا \r\n')).toBe('Ærøskøbing 東京 👩‍🚀 مرحبا');
  expect(name.safeParse('\r\n').error?.issues[0]?.message).toBe('must not be empty');
  expect(name.safeParse('x'.repeat(41)).error?.issues[0]?.message).toBe('must be at most 40 characters');
  expect(name.safeParse('a\nb').error?.issues[0]?.message).toContain('must be one line of printable text');
});

test('a name that somebody else chose becomes one line', () => {
  expect(asPrintableLine('Ada\r\nBcc: x@example.com\u202e', 100)).toBe('Ada  Bcc: x@example.com');
  expect(asPrintableLine('\u001b\u2028', 100)).toBe('');
  expect(printableLine(100).safeParse(asPrintableLine('a\ud800\u0007b', 100)).success).toBe(true);
});

test('a check takes time linear in the text', () => {
  const { pattern: source } = z.toJSONSchema(printableLine(100), { io: 'input' });
  const { reports } = analyse(
    { source: source!, flags: 'u' },
    { reportTypes: { Move: true, Self: true, Trade: true } },
  );
  expect(reports).toEqual([]);
});
