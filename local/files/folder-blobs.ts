import { rmSync } from 'node:fs';
import { open, opendir, readdir, readFile, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { assertBlobKey, assertBlobPrefix, type Blobs } from '#core/ports/blobs.ts';
import { replaceFile, undefinedIfMissing } from './files.ts';

/** Not allowed in keys: distinguishes the folder of `a/b` from the file of `a`, and both from unfinished files. */
const FOLDER_MARK = '+';
export const TEMPORARY = `${FOLDER_MARK}tmp`;

/**
 * {@link Blobs} as files in one folder: key `runs/r1/input` is the file `runs+/r1+/input`.
 *
 * Create it only after `openDatabase` has succeeded: it deletes unfinished files of a crashed process.
 */
export class FolderBlobs implements Blobs {
  readonly #root: string;

  constructor(root: string) {
    this.#root = resolve(root);
    rmSync(join(this.#root, TEMPORARY), { recursive: true, force: true });
  }

  async put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    await replaceFile(this.#path(key), body, join(this.#root, TEMPORARY));
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return undefinedIfMissing(readFile(this.#path(key)));
  }

  async stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const file = await undefinedIfMissing(open(this.#path(key)));
    return file?.createReadStream();
  }

  async size(key: string): Promise<number | undefined> {
    return (await undefinedIfMissing(stat(this.#path(key))))?.size;
  }

  async delete(key: string): Promise<void> {
    const path = this.#path(key);
    await rm(path, { force: true });
    await this.#removeEmptyFolders(dirname(path));
  }

  async *list(prefix: string): AsyncGenerator<string> {
    assertBlobPrefix(prefix);
    yield* this.#walk(prefix.slice(0, prefix.lastIndexOf('/') + 1), prefix);
  }

  /** Deletes the blobs below `prefix`, which ends with a slash, that were written before `time` (epoch milliseconds). */
  async deleteWrittenBefore(prefix: string, time: number): Promise<void> {
    assertBlobPrefix(prefix);
    await this.#deleteWrittenBefore(this.#place(prefix), time);
  }

  async #deleteWrittenBefore(folder: string, time: number): Promise<void> {
    // Reads the folder in pieces: a busy workspace has very many runs.
    const entries = await undefinedIfMissing(opendir(folder));
    if (entries === undefined) return;
    for await (const entry of entries) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) await this.#deleteWrittenBefore(path, time);
      else if (((await undefinedIfMissing(stat(path)))?.mtimeMs ?? time) < time) await rm(path, { force: true });
    }
    await this.#removeEmptyFolders(folder);
  }

  #path(key: string): string {
    assertBlobKey(key);
    return this.#place(key);
  }

  /** Path of a valid key's file, or of a key prefix's folder. */
  #place(key: string): string {
    return join(this.#root, key.replaceAll('/', `${FOLDER_MARK}/`));
  }

  /** Yields the keys in `folder` (empty or ending with a slash) that begin with `prefix`, in ascending order. */
  async *#walk(folder: string, prefix: string): AsyncGenerator<string> {
    const entries = (await undefinedIfMissing(readdir(this.#place(folder), { withFileTypes: true }))) ?? [];
    // The trailing slash sorts a folder among the files as its keys sort.
    const names = entries
      .filter((entry) => entry.name !== TEMPORARY)
      .map((entry) => (entry.isDirectory() ? `${entry.name.slice(0, -FOLDER_MARK.length)}/` : entry.name))
      .sort();
    for (const name of names) {
      const key = folder + name;
      if (!key.startsWith(prefix)) continue;
      if (key.endsWith('/')) yield* this.#walk(key, prefix);
      else yield key;
    }
  }

  async #removeEmptyFolders(folder: string): Promise<void> {
    for (let path = folder; path !== this.#root; path = dirname(path)) {
      try {
        await rmdir(path);
      } catch {
        // The folder is not empty, or another delete has removed it.
        return;
      }
    }
  }
}
