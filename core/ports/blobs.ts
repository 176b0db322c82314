/**
 * Bytes under a key: bundles, layers, bodies over 100 KB.
 *
 * Keys are `/`-separated segments of 1 to 200 of `[A-Za-z0-9._-]`, none of them `.` or `..`, at most 512 characters in
 * all; anything else throws, so no key can leave its folder or bucket. A key may be the beginning of another (`a`, `a/b`).
 */
export interface Blobs {
  /**
   * Atomic: a reader never sees part of a blob, not even after a crash. Replaces an existing blob, unless `body` throws.
   */
  put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>): Promise<void>;
  /** `undefined` when there is no such blob. */
  get(key: string): Promise<Uint8Array | undefined>;
  /**
   * Like {@link Blobs.get}, in chunks, for large blobs. A blob that is replaced or deleted meanwhile is still read to its
   * end. Iterate it, or call `return` on its iterator: it holds an open file.
   */
  stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** Size in bytes, or `undefined` when there is no such blob. */
  size(key: string): Promise<number | undefined>;
  /** Deleting a missing blob succeeds. */
  delete(key: string): Promise<void>;
  /** Keys that begin with `prefix`, ascending. A prefix is empty or the beginning of a key; anything else throws. */
  list(prefix: string): AsyncIterable<string>;
}

/** Makes addresses by which a program without rights of its own reads a blob, for some minutes. */
export interface BlobLinks {
  /** Whoever has the address may read the blob: it is a secret. */
  get(key: string): Promise<string>;
}

const SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}$/;
const MAX_KEY_LENGTH = 512;

const isBlobKey = (key: string): boolean =>
  key.length <= MAX_KEY_LENGTH && key.split('/').every((segment) => SEGMENT.test(segment));

/** Throws when `key` is not a valid blob key. Every adapter calls it first. */
export function assertBlobKey(key: string): void {
  if (!isBlobKey(key)) throw invalid('key', key);
}

/** Throws when no blob key can begin with `prefix`. */
export function assertBlobPrefix(prefix: string): void {
  // A prefix may end after a slash or a dot, which a key may not.
  if (prefix !== '' && !isBlobKey(prefix) && !isBlobKey(`${prefix}x`)) throw invalid('prefix', prefix);
}

const invalid = (what: string, given: string): Error =>
  new Error(
    `a blob ${what} has segments of 1 to 200 of A-Z a-z 0-9 . _ - between slashes, at most ${MAX_KEY_LENGTH} characters in all; not ${JSON.stringify(given.slice(0, 100))}`,
  );
