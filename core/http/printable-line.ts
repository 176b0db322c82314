import * as z from 'zod';
import { CONTROLS } from '#core/base/control-characters.ts';

/** Control characters and ends of lines. */
const UNPRINTABLE = String.raw`${CONTROLS}\t\n\u2028\u2029`;
const LINE = new RegExp(`^ *[^${UNPRINTABLE}\\s][^${UNPRINTABLE}]*$`, 'u');
const UNPRINTABLES = new RegExp(`[${UNPRINTABLE}]`, 'g');
const REFUSED = 'must be one line of printable text: leave out line breaks, tabs and other control characters';

/**
 * A name or title that people read, of at most `max` characters, without space around it. It may stand in a subject of an
 * e-mail, a line of a log or a column of a terminal, so it is one line (`docs/interface/identifiers.md#names`).
 */
export const printableLine = (max: number) =>
  z
    .string()
    .trim()
    .min(1, { error: 'must not be empty', abort: true })
    .max(max, `must have at most ${max} characters`)
    .regex(LINE, REFUSED)
    .refine((text) => text.isWellFormed(), REFUSED);

/** A text that others chose, such as a name at a sign-in provider, as such a line; it may be empty. */
export const asPrintableLine = (text: string, max: number): string =>
  text.replaceAll(UNPRINTABLES, ' ').trim().slice(0, max).toWellFormed();
