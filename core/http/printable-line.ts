import * as z from 'zod';
import { CONTROLS } from '#core/base/control-characters.ts';

/** Control characters and ends of lines. */
const UNPRINTABLE = String.raw`${CONTROLS}\t\n\u2028\u2029`;
const LINE = new RegExp(`^ *[^${UNPRINTABLE}\\s][^${UNPRINTABLE}]*$`, 'u');
const UNPRINTABLES = new RegExp(`[${UNPRINTABLE}]`, 'g');
const REFUSED = 'must be one line of printable text: leave out line breaks, tabs and other control characters';

/**
 * Schema of a name or title for people, of at most `max` characters, without surrounding space. It may appear in the
 * subject of an e-mail, in a log or in a column of a terminal, so it is one line
 * (`docs/interface/identifiers.md#names`).
 */
export const printableLine = (max: number) =>
  z
    .string()
    .trim()
    .min(1, { error: 'must not be empty', abort: true })
    .max(max, `must be at most ${max} characters`)
    .regex(LINE, REFUSED)
    .refine((text) => text.isWellFormed(), REFUSED);

/** Converts an external text, such as a name from a sign-in provider, to a printable line; the result may be empty. */
export const asPrintableLine = (text: string, max: number): string =>
  text.replaceAll(UNPRINTABLES, ' ').trim().slice(0, max).toWellFormed();
