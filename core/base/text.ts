const encoder = new TextEncoder();

/** Length of a text in bytes of UTF-8. Works in browsers, which have no `Buffer`. */
export const utf8Length = (text: string): number => encoder.encode(text).length;

/** Returns the beginning of a UTF-8 text: at most `maxBytes`, without splitting a character. */
export function startOf(bytes: Uint8Array, maxBytes: number): Uint8Array {
  let end = Math.min(maxBytes, bytes.byteLength);
  while (end > 0 && isInsideCharacter(bytes[end])) end--;
  return bytes.subarray(0, end);
}

/** Returns the end of a UTF-8 text: at most `maxBytes`, without splitting a character. */
export function endOf(bytes: Uint8Array, maxBytes: number): Uint8Array {
  let start = Math.max(0, bytes.byteLength - maxBytes);
  while (isInsideCharacter(bytes[start])) start++;
  return bytes.subarray(start);
}

/** Removes all occurrences of a character from the end of a text. Patterns such as `x+$` take quadratic time. */
export function withoutEnd(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end--;
  return text.slice(0, end);
}

/** Whether this is a continuation byte of a UTF-8 character. */
const isInsideCharacter = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;
