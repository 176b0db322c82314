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

/** The text that {@link putIfLarge} wrote; `undefined` if there is no such blob. */
export async function getLarge({ blobs }: { readonly blobs: Blobs }, key: string): Promise<string | undefined> {
  const bytes = await blobs.get(key);
  return bytes && Buffer.from(bytes).toString();
}
