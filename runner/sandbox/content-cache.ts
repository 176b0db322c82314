import { randomBytes } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { LayerError } from '#core/manifest/bundle/layer-reader.ts';
import { checkSpace, endlessSpace, type Space } from '#core/ports/space.ts';
import { isOwnerAlive, ownerName } from './owner-process.ts';
import { addBuilt, type BundlesAndLayers, hasBuilt, type OnBytes, unpackBundle, unpackLayer } from './unpack.ts';

const GB = 1024 ** 3;
const WAIT_SECONDS = 10;

export interface ContentCacheOptions {
  /** @default 5 GB */
  readonly maxBytes?: number;
  /** Free space on the folder's disk. @default - unlimited */
  readonly space?: Space;
}

/** A folder that stays cached at least until it is released. */
export interface CachedFolder {
  readonly path: string;
  /** Size, rounded up to pages for each file. */
  readonly bytes: number;
  release(): void;
}

/** A bundle or layer that is cached or being unpacked. */
interface Entry {
  bytes: number;
  /** Number of uses by each owner. */
  readonly users: Map<string, number>;
}

/**
 * Bundles and layers, each unpacked once and shown read-only to any number of sandboxes. The least recently used
 * folders are evicted when the total, including folders being unpacked, exceeds the maximum. Folders in use stay. If
 * those alone exceed the maximum, owners who use more than an equal share of it cannot unpack anything further, while
 * all others can (`docs/interface/limits.md#unpacked-code`).
 *
 * Only one process uses the folder. Sandboxes run under other uids, so every file here is readable for all; the folder
 * around the cache is not. Nothing writes to an unpacked folder, also where a sandbox shows it writable.
 */
export class ContentCache {
  readonly #folder: string;
  readonly #blobs: BundlesAndLayers;
  readonly #maxBytes: number;
  readonly #space: Space;
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>();
  /** Total size of all entries. */
  #bytes = 0;
  readonly #expanding = new Map<string, Promise<string>>();
  readonly #removing = new Map<string, Promise<void>>();

  private constructor(folder: string, blobs: BundlesAndLayers, options: ContentCacheOptions) {
    this.#folder = folder;
    this.#blobs = blobs;
    this.#maxBytes = options.maxBytes ?? 5 * GB;
    this.#space = options.space ?? endlessSpace;
  }

  /** Creates the folder and removes contents that a crash left half unpacked. */
  static async open(folder: string, blobs: BundlesAndLayers, options: ContentCacheOptions = {}): Promise<ContentCache> {
    await mkdir(join(folder, 'expanded'), { recursive: true });
    await mkdir(join(folder, 'tmp'), { recursive: true });
    for (const name of await readdir(join(folder, 'tmp'))) {
      if (!isOwnerAlive(name)) await rm(join(folder, 'tmp', name), { recursive: true, force: true });
    }
    const cache = new ContentCache(folder, blobs, options);
    await cache.#readEntries();
    return cache;
  }

  /** Counts the content against `owner` while it is in use. Throws RATE_LIMITED if the cache has no space for it. */
  bundle(key: string, owner = ''): Promise<CachedFolder> {
    return this.#open({ name: `bundle-${basename(key)}`, owner }, (target, onBytes) =>
      unpackBundle(this.#blobs, key, target, onBytes),
    );
  }

  /**
   * Like {@link ContentCache.bundle}, with the files that the build in its unpacked layer wrote, if there are any.
   *
   * @param layer key of the layer, and its folder
   */
  async builtBundle(
    key: string,
    layer: { readonly key: string; readonly path: string },
    owner = '',
  ): Promise<CachedFolder> {
    if (!(await hasBuilt(layer.path))) return this.bundle(key, owner);
    return this.#open({ name: `built-${basename(layer.key)}-${basename(key)}`, owner }, async (target, onBytes) => {
      const bytes = await unpackBundle(this.#blobs, key, target, onBytes);
      return bytes + (await addBuilt(layer.path, target, (built) => onBytes(bytes + built)));
    });
  }

  /**
   * Like {@link ContentCache.bundle}. Throws {@link LayerError} for an invalid layer, or one without the hash `sha256`.
   * Layers that were unpacked before this check existed have other names.
   */
  layer(key: string, sha256?: string, owner = ''): Promise<CachedFolder> {
    const name = ['checked-layer', ...(sha256 === undefined ? [] : [sha256]), basename(key)].join('-');
    return this.#open({ name, owner }, (target, onBytes) => unpackLayer(this.#blobs, { key, sha256 }, target, onBytes));
  }

  async #readEntries(): Promise<void> {
    const root = join(this.#folder, 'expanded');
    const found = await Promise.all(
      (await readdir(root)).map(async (name) => {
        const bytes = Number(await readFile(join(root, name, 'size'), 'utf8').catch(() => '0')) || 0;
        // An unreadable entry is useless and is evicted first.
        const usedAt = await lstat(join(root, name)).then(
          ({ mtimeMs }) => mtimeMs,
          () => 0,
        );
        return { name, bytes, usedAt };
      }),
    );
    for (const { name, bytes } of found.sort((a, b) => a.usedAt - b.usedAt)) this.#resize(this.#entry(name), bytes);
  }

  /** Returns the entry and marks it as most recently used. */
  #entry(name: string): Entry {
    const entry = this.#entries.get(name) ?? { bytes: 0, users: new Map() };
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    return entry;
  }

  #resize(entry: Entry, bytes: number): void {
    this.#bytes += bytes - entry.bytes;
    entry.bytes = bytes;
  }

  async #open(
    { name, owner }: { readonly name: string; readonly owner: string },
    fill: (folder: string, onBytes: OnBytes) => Promise<number>,
  ): Promise<CachedFolder> {
    const entry = this.#entry(name);
    entry.users.set(owner, (entry.users.get(owner) ?? 0) + 1);
    const release = onlyOnce(() => {
      const left = entry.users.get(owner)! - 1;
      if (left === 0) entry.users.delete(owner);
      else entry.users.set(owner, left);
    });
    try {
      let path = this.#expanding.get(name);
      if (!path) {
        path = this.#find(name, entry, fill).finally(() => this.#expanding.delete(name));
        this.#expanding.set(name, path);
      }
      return { path: await path, bytes: entry.bytes, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #find(
    name: string,
    entry: Entry,
    fill: (folder: string, onBytes: OnBytes) => Promise<number>,
  ): Promise<string> {
    await this.#removing.get(name);
    const place = join(this.#folder, 'expanded', name);
    const content = join(place, 'content');
    const now = new Date();
    try {
      await utimes(place, now, now);
      return content;
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
    }
    const temporary = this.#temporary();
    await mkdir(join(temporary, 'content'), { recursive: true });
    try {
      const onBytes = (bytes: number) => this.#grow(entry, bytes);
      const bytes = await fill(join(temporary, 'content'), onBytes);
      await onBytes(bytes);
      await writeFile(join(temporary, 'size'), String(bytes));
      await rename(temporary, place);
    } catch (error) {
      this.#resize(entry, 0);
      this.#entries.delete(name);
      throw error;
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    return content;
  }

  /** Frees space for an entry that is being unpacked. Throws RATE_LIMITED if that is impossible. */
  async #grow(entry: Entry, bytes: number): Promise<void> {
    this.#resize(entry, bytes);
    if ((await this.#space.problem()) !== undefined) {
      await this.#evict(0);
      await checkSpace({ space: this.#space });
    }
    if (this.#bytes > this.#maxBytes) await this.#evict(this.#maxBytes);
    if (this.#bytes <= this.#maxBytes || !this.#isOverShare(entry)) return;
    throw new PlatformError(
      'RATE_LIMITED',
      `The agents that run at the moment use all of the ${Math.round(this.#maxBytes / GB)} GB for unpacked code and dependencies, and this workspace uses more than its share.`,
      { suggested_wait_time: WAIT_SECONDS },
    );
  }

  /** Whether every owner who uses the entry uses more than an equal share of the maximum. */
  #isOverShare(entry: Entry): boolean {
    const used = new Map<string, number>();
    for (const { bytes, users } of this.#entries.values()) {
      for (const owner of users.keys()) used.set(owner, (used.get(owner) ?? 0) + bytes);
    }
    return [...entry.users.keys()].every((owner) => used.get(owner)! > this.#maxBytes / used.size);
  }

  /** Never throws: opening a folder must not fail because of another one. */
  async #evict(maxBytes: number): Promise<void> {
    for (const [name, entry] of this.#entries) {
      if (this.#bytes <= maxBytes) return;
      if (entry.users.size > 0) continue;
      this.#resize(entry, 0);
      this.#entries.delete(name);
      const removal = this.#remove(name).finally(() => this.#removing.delete(name));
      // Later `open` calls for the same folder wait for the removal.
      this.#removing.set(name, removal);
      await removal;
    }
  }

  async #remove(name: string): Promise<void> {
    const removed = this.#temporary();
    // Renamed first, so that a crash cannot leave a half-removed folder under this name.
    await rename(join(this.#folder, 'expanded', name), removed)
      .then(() => rm(removed, { recursive: true, force: true }))
      .catch(() => {});
  }

  #temporary(): string {
    return join(this.#folder, 'tmp', `${ownerName()}-${randomBytes(6).toString('hex')}`);
  }
}

function onlyOnce(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}
