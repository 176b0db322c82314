/**
 * Bytes under a key: bundles, layers, bodies over 100 KB.
 *
 * Keys are `/`-separated segments of `[A-Za-z0-9._-]`, none of them `.` or `..`, at most 512 characters in all; anything
 * else throws, so no key can leave its folder or bucket.
 */
export interface Blobs {
  /** Whole or not at all: a reader never sees half a blob, also after a crash. Replaces what was there. */
  put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>): Promise<void>;
  /** `undefined` when there is no such blob. */
  get(key: string): Promise<Uint8Array | undefined>;
  /** As {@link Blobs.get}, in chunks, for what should not lie in memory whole. */
  stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** Size in bytes, or `undefined` when there is no such blob. */
  size(key: string): Promise<number | undefined>;
  /** Deleting what is not there succeeds. */
  delete(key: string): Promise<void>;
  /** Keys that begin with `prefix`, ascending. */
  list(prefix: string): AsyncIterable<string>;
}

const SEGMENT = /^[A-Za-z0-9._-]+$/;

/** Throws when `key` is not a valid blob key. Every adapter calls it first. */
export function assertBlobKey(key: string): void {
  const valid =
    key.length <= 512 && key.split('/').every((segment) => SEGMENT.test(segment) && segment !== '.' && segment !== '..');
  if (!valid) throw new Error(`not a blob key: ${JSON.stringify(key.slice(0, 100))}`);
}
