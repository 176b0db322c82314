/** One line of visible text, for a comment. */
export function lineOf(text: string): string {
  const visible = text.toWellFormed().replaceAll(/[\p{C}\p{Z}]+/gu, ' ');
  return visible.trim().slice(0, 1000).toWellFormed();
}

/** A string literal of one line. `escapeOf` gives the escape of a code point that is not visible. */
export function quoted(text: string, escapeOf: (codePoint: number) => string): string {
  const safe = Array.from(text, (character) =>
    /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character) && !'"\\'.includes(character)
      ? character
      : escapeOf(character.codePointAt(0)!),
  );
  return `"${safe.join('')}"`;
}

export const hex = (codePoint: number, digits: number): string => codePoint.toString(16).padStart(digits, '0');
