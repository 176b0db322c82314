import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { chmod, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { expandBundle } from '#core/agents/bundle/bundle.ts';
import { hasCode } from '#core/base/errors.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import { SDK, SDK_NODE_MODULES } from './host-runtime.ts';
import { isOwnerAlive } from './owner-process.ts';

const MAX_BYTES = 5 * 1024 ** 3;

type Source = Pick<Blobs, 'get' | 'stream'>;

/** A folder that stays at least until it is released. */
export interface CachedFolder {
  readonly path: string;
  release(): void;
}

/**
 * Bundles and layers, each expanded once and shown read-only to any number of sandboxes. The least recently used folders
 * go when all together pass 5 GB.
 *
 * Sandboxes run under other uids, so every file here is readable for all; the folder around the cache is not.
 */
export class ContentCache {
  readonly #folder: string;
  readonly #blobs: Source;
  readonly #inUse = new Map<string, number>();
  readonly #expanding = new Map<string, Promise<string>>();

  private constructor(folder: string, blobs: Source) {
    this.#folder = folder;
    this.#blobs = blobs;
  }

  /** Creates the folder and removes contents that a crash left half expanded. */
  static async open(folder: string, blobs: Source): Promise<ContentCache> {
    await mkdir(join(folder, 'expanded'), { recursive: true });
    await mkdir(join(folder, 'tmp'), { recursive: true });
    for (const name of await readdir(join(folder, 'tmp'))) {
      if (!isOwnerAlive(name)) await rm(join(folder, 'tmp', name), { recursive: true, force: true });
    }
    return new ContentCache(folder, blobs);
  }

  bundle(key: string): Promise<CachedFolder> {
    return this.#open(`bundle-${basename(key)}`, (target) => unpackBundle(this.#blobs, key, target));
  }

  layer(key: string): Promise<CachedFolder> {
    return this.#open(`layer-${basename(key)}`, (target) => unpackLayer(this.#blobs, key, target));
  }

  async #open(name: string, fill: (folder: string) => Promise<number>): Promise<CachedFolder> {
    this.#inUse.set(name, (this.#inUse.get(name) ?? 0) + 1);
    const release = once(() => {
      const left = this.#inUse.get(name)! - 1;
      if (left === 0) this.#inUse.delete(name);
      else this.#inUse.set(name, left);
    });
    try {
      let path = this.#expanding.get(name);
      if (!path) {
        path = this.#find(name, fill).finally(() => this.#expanding.delete(name));
        this.#expanding.set(name, path);
      }
      return { path: await path, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #find(name: string, fill: (folder: string) => Promise<number>): Promise<string> {
    const entry = join(this.#folder, 'expanded', name);
    const content = join(entry, 'content');
    const now = new Date();
    try {
      await utimes(entry, now, now);
      return content;
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
    }
    const temporary = join(this.#folder, 'tmp', `${process.pid}-${randomBytes(6).toString('hex')}`);
    await mkdir(join(temporary, 'content'), { recursive: true });
    try {
      const size = await fill(join(temporary, 'content'));
      await writeFile(join(temporary, 'size'), String(size));
      await rename(temporary, entry).catch((error) => {
        // Another process was faster, with the same content.
        if (!hasCode(error, 'ENOTEMPTY') && !hasCode(error, 'EEXIST')) throw error;
      });
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    await this.#evict();
    return content;
  }

  async #evict(): Promise<void> {
    const root = join(this.#folder, 'expanded');
    const entries = await Promise.all(
      (await readdir(root)).map(async (name) => {
        const size = Number(await readFile(join(root, name, 'size'), 'utf8').catch(() => '0'));
        return { name, size, usedAt: (await stat(join(root, name))).mtimeMs };
      }),
    );
    let total = entries.reduce((sum, { size }) => sum + size, 0);
    for (const { name, size } of entries.sort((a, b) => a.usedAt - b.usedAt)) {
      if (total <= MAX_BYTES) return;
      if (this.#inUse.has(name)) continue;
      // Renamed first, so that no half-removed folder is found under this name.
      const removed = join(this.#folder, 'tmp', `${process.pid}-${randomBytes(6).toString('hex')}`);
      await rename(join(root, name), removed);
      await rm(removed, { recursive: true, force: true });
      total -= size;
    }
  }
}

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}

/** Unpacks into the existing folder `target`. Returns the size in bytes. Throws when there is no such bundle. */
export async function unpackBundle(blobs: Source, key: string, target: string): Promise<number> {
  const bytes = await blobs.get(key);
  if (!bytes) throw new Error(`there is no bundle ${key}`);
  let size = 0;
  await expandBundle(bytes, {
    async onFolder(path) {
      await mkdir(join(target, path));
    },
    async onFile({ path, size: bytes, executable }, content) {
      size += bytes;
      await pipeline(content, createWriteStream(join(target, path), { mode: executable ? 0o755 : 0o644 }));
    },
  });
  return size;
}

/** Unpacks into the existing folder `target`. Returns the size in bytes. Throws when there is no such layer. */
export async function unpackLayer(blobs: Source, key: string, target: string): Promise<number> {
  const archive = await blobs.stream(key);
  if (!archive) throw new Error(`there is no layer ${key}`);
  await extractTar(archive, target);
  const size = await tidy(target);
  await linkSdk(target);
  return size;
}

/** Links the platform's packages into the layer, the only folder that Node searches besides the bundle's own. */
export async function linkSdk(layer: string): Promise<void> {
  const { name } = SDK.node;
  await mkdir(join(layer, 'node_modules'), { recursive: true });
  await symlink(`${SDK_NODE_MODULES}/${name}`, join(layer, 'node_modules', name)).catch((error) => {
    // The agent brings its own.
    if (!hasCode(error, 'EEXIST')) throw error;
  });
}

/** GNU tar keeps members inside `target`, even against links in the archive. */
async function extractTar(archive: AsyncIterable<Uint8Array>, target: string): Promise<void> {
  const tar = spawn('tar', ['-xz', '--no-same-owner', '--no-same-permissions', '-C', target], {
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  let stderr = '';
  tar.stderr.on('data', (chunk) => {
    stderr = (stderr + chunk).slice(-2000);
  });
  const ended = new Promise<number | null>((resolve, reject) => tar.on('error', reject).on('close', resolve));
  const [code] = await Promise.all([ended, pipeline(Readable.from(archive), tar.stdin).catch(() => {})]);
  if (code !== 0) throw new Error(`a layer cannot be unpacked: ${stderr.trim()}`);
}

/** Makes everything readable for other uids and refuses devices. Returns the size in bytes. */
async function tidy(folder: string): Promise<number> {
  let size = 0;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink()) continue;
    const { mode, size: bytes } = await lstat(path);
    if (entry.isDirectory()) {
      if ((mode & 0o755) !== 0o755) await chmod(path, 0o755);
      size += 4096 + (await tidy(path));
    } else if (entry.isFile()) {
      const wanted = mode & 0o100 ? 0o755 : 0o644;
      if ((mode & wanted) !== wanted) await chmod(path, wanted);
      size += bytes;
    } else {
      throw new Error(`a layer holds ${entry.name}, which is neither file, folder nor link`);
    }
  }
  return size;
}
