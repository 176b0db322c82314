import type { Json } from '#core/base/json.ts';
import type { Blobs } from './blobs.ts';

/** Longer values are kept in a blob: an item holds 400 KB at most, and each read of it costs by its size. */
export const MAX_INLINE_BYTES = 100 * 1024;

/**
 * Writes `text` to the blob `key` if it is too large for an item, and returns whether it did. Call it before the write of
 * the item, which must say where the value is: if that write fails, the blob that is left costs only storage.
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
/** Of a number or a word, with a comma; of the punctuation around anything else. */
const SCALAR_BYTES = 25;
const PUNCTUATION = 4;

/** Whether the JSON of a value has at most so many bytes. Costs a fraction of making it; false says only that it may have more. */
export const isSurelyWithin = (maxBytes: number, value: Json | undefined): boolean => roomAfter(value, maxBytes) >= 0;

/** What is left of `room` after the longest JSON that the value may have, or a negative number. */
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

/** The text that {@link putIfLarge} wrote; `undefined` if there is no such blob. */
export async function getLarge({ blobs }: { readonly blobs: Blobs }, key: string): Promise<string | undefined> {
  const bytes = await blobs.get(key);
  return bytes && Buffer.from(bytes).toString();
}
