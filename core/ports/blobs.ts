/**
 * Binary objects by key: bundles, layers, bodies over 100 KB.
 *
 * Keys are `/`-separated segments of 1 to 200 of `[A-Za-z0-9._-]`, none of them `.` or `..`, at most 512 characters in
 * total. Other keys throw, so no key can leave its folder or bucket. A key may be a prefix of another (`a`, `a/b`).
 */
export interface Blobs {
  /**
   * Atomic: a reader never sees part of a blob, not even after a crash. Replaces an existing blob, unless `body` throws.
   */
  put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>): Promise<void>;
  /** Returns `undefined` if the blob does not exist. */
  get(key: string): Promise<Uint8Array | undefined>;
  /**
   * Like {@link Blobs.get}, in chunks, for large blobs. If the blob is replaced or deleted during the read, the old
   * content is still read to the end. Iterate the result, or call `return` on its iterator: it holds an open file.
   */
  stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** Returns the size in bytes, or `undefined` if the blob does not exist. */
  size(key: string): Promise<number | undefined>;
  /** Deleting a missing blob succeeds. */
  delete(key: string): Promise<void>;
  /**
   * Lists keys that begin with `prefix`, ascending. Throws if the prefix is neither empty nor the beginning of a valid
   * key.
   */
  list(prefix: string): AsyncIterable<string>;
}

/** Creates signed URLs with which a program without credentials can read a blob for some minutes. */
export interface BlobLinks {
  /** The URL grants access to the blob: treat it as a secret. */
  get(key: string): Promise<string>;
}

const SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}$/;
const MAX_KEY_LENGTH = 512;

const isBlobKey = (key: string): boolean =>
  key.length <= MAX_KEY_LENGTH && key.split('/').every((segment) => SEGMENT.test(segment));

/** Throws if `key` is not a valid blob key. Every adapter calls it first. */
export function assertBlobKey(key: string): void {
  if (!isBlobKey(key)) throw invalid('key', key);
}

/** Throws if `prefix` cannot begin a valid blob key. */
export function assertBlobPrefix(prefix: string): void {
  // A prefix may end after a slash or a dot, which a key may not.
  if (prefix !== '' && !isBlobKey(prefix) && !isBlobKey(`${prefix}x`)) throw invalid('prefix', prefix);
}

const invalid = (what: string, given: string): Error =>
  new Error(
    `a blob ${what} has segments of 1 to 200 of A-Z a-z 0-9 . _ - between slashes, at most ${MAX_KEY_LENGTH} characters in all; not ${JSON.stringify(given.slice(0, 100))}`,
  );
