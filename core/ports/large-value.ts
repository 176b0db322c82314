import type { Json } from '#core/base/json.ts';
import type { Blobs } from './blobs.ts';

/** Longer values are stored in a blob: an item holds at most 400 KB, and reads are charged by size. */
export const MAX_INLINE_BYTES = 100 * 1024;

/**
 * Writes `text` to the blob `key` if it is too large for an item, and returns whether it did. Call it before writing
 * the item, which must record where the value is: if that write fails, the orphaned blob costs only storage.
 */
export async function putIfLarge(
  { blobs }: { readonly blobs: Blobs },
  key: string,
  text: string,
  maxInlineBytes = MAX_INLINE_BYTES,
): Promise<boolean> {
  if (Buffer.byteLength(text) <= maxInlineBytes) return false;
  await blobs.put(key, Buffer.from(text));
  return true;
}

/** JSON escapes one character as `\u0000`. */
const MAX_CHARACTER_BYTES = 6;
/** Maximum length of a number or literal with a comma; an object or array adds only its punctuation. */
const SCALAR_BYTES = 25;
const PUNCTUATION = 4;

/**
 * Returns whether the JSON of a value certainly fits in `maxBytes`. Cheaper than encoding it; false means that it may
 * be longer.
 */
export const isSurelyWithin = (maxBytes: number, value: Json | undefined): boolean => roomAfter(value, maxBytes) >= 0;

/** Returns the bytes that remain of `room` after the longest possible JSON of the value; negative if it may not fit. */
function roomAfter(value: Json | undefined, room: number): number {
  if (typeof value === 'string') return room - value.length * MAX_CHARACTER_BYTES - PUNCTUATION;
  if (typeof value !== 'object' || value === null) return room - SCALAR_BYTES;
  let left = room - PUNCTUATION;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left >= 0; index++) left = roomAfter(value[index], left);
    return left;
  }
  for (const name in value) {
    if (left < 0) return left;
    left = roomAfter(value[name], left - name.length * MAX_CHARACTER_BYTES - PUNCTUATION);
  }
  return left;
}

/** Reads the text that {@link putIfLarge} wrote; `undefined` if the blob does not exist. */
export async function getLarge({ blobs }: { readonly blobs: Blobs }, key: string): Promise<string | undefined> {
  const bytes = await blobs.get(key);
  return bytes && Buffer.from(bytes).toString();
}
