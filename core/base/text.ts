const encoder = new TextEncoder();

/** Bytes of a text as UTF-8; also in a browser, which has no `Buffer`. */
export const utf8Length = (text: string): number => encoder.encode(text).length;

/** The beginning of a UTF-8 text: at most `maxBytes`, and whole characters only. */
export function startOf(bytes: Uint8Array, maxBytes: number): Uint8Array {
  let end = Math.min(maxBytes, bytes.byteLength);
  while (end > 0 && isInsideCharacter(bytes[end])) end--;
  return bytes.subarray(0, end);
}

/** The end of a UTF-8 text: at most `maxBytes`, and whole characters only. */
export function endOf(bytes: Uint8Array, maxBytes: number): Uint8Array {
  let start = Math.max(0, bytes.byteLength - maxBytes);
  while (isInsideCharacter(bytes[start])) start++;
  return bytes.subarray(start);
}

/** The text without a character at its end, however often it stands there. Patterns such as `x+$` take quadratic time. */
export function withoutEnd(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end--;
  return text.slice(0, end);
}

/** Whether this is a byte of a UTF-8 character other than its first. */
const isInsideCharacter = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;
