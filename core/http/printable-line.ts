import * as z from 'zod';

/**
 * Characters that a line of text must not have: control characters, ends of lines, halves of surrogate pairs, and the
 * controls of UAX 9 that show text in another order than it has.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
const UNPRINTABLES = new RegExp(UNPRINTABLE, 'gu');

/**
 * A name or title that people read, of at most `max` characters, without space around it. It may stand in a subject of an
 * e-mail, a line of a log or a column of a terminal, so it is one line (`docs/interface/identifiers.md#names`).
 */
export const printableLine = (max: number) =>
  z
    .string()
    .trim()
    .min(1, 'must not be empty')
    .max(max, `must have at most ${max} characters`)
    .refine(
      (text) => !UNPRINTABLE.test(text),
      'must be one line of printable text: leave out line breaks, tabs and other control characters',
    );

/** A text that others chose, such as a name at a sign-in provider, as such a line; it may be empty. */
export const asPrintableLine = (text: string, max: number): string =>
  text.replaceAll(UNPRINTABLES, ' ').trim().slice(0, max).toWellFormed();
