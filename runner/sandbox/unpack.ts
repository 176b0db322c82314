import { spawn } from 'node:child_process';
import { createHash, type Hash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, existsSync } from 'node:fs';
import { chown, cp, lchown, lstat, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { hasCode } from '#core/base/errors.ts';
import { expandBundle } from '#core/manifest/bundle/bundle.ts';
import { INTERPRETERS } from '#core/manifest/bundle/interpreters.ts';
import { readLayer } from '#core/manifest/bundle/layer-archive.ts';
import { BUILT, LayerError } from '#core/manifest/bundle/layer-reader.ts';
import type { Blobs } from '#core/ports/blobs.ts';
import { SDK, SDK_NODE_MODULES } from '../host-runtime.ts';

export type BundlesAndLayers = Pick<Blobs, 'get' | 'stream'>;

/** Called during unpacking with the number of bytes so far. An error that it throws aborts the unpacking. */
export type OnBytes = (bytes: number) => Promise<void>;
const anySize: OnBytes = async () => {};

const PAGE_BYTES = 4096;
/** User of programs inside a sandbox. */
const USER_ID = 1000;

/**
 * Unpacks into the existing folder `target`. Returns the size in bytes, rounded up to pages for each file. Throws if
 * the bundle does not exist, and rethrows errors of `onBytes`. Where this process is root, everything belongs to user
 * 1000: a sandbox shows its bundle as that user's own (`mount_for_user` in `launcher.pl`).
 */
export async function unpackBundle(
  blobs: BundlesAndLayers,
  key: string,
  target: string,
  onBytes: OnBytes = anySize,
): Promise<number> {
  const bytes = await blobs.get(key);
  if (!bytes) throw new Error(`there is no bundle ${key}`);
  let size = 0;
  const isRoot = process.getuid?.() === 0;
  const own = async (path: string): Promise<void> => (isRoot ? chown(path, USER_ID, USER_ID) : undefined);
  await own(target);
  await expandBundle(bytes, {
    async onFolder(path) {
      size += PAGE_BYTES;
      await mkdir(join(target, path));
      await own(join(target, path));
    },
    async onFile({ path, size: bytes, executable }, content) {
      size += Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
      await onBytes(size);
      await pipeline(content, createWriteStream(join(target, path), { mode: executable ? 0o755 : 0o644 }));
      await own(join(target, path));
    },
  });
  return size;
}

/** Whether an unpacked layer has files that belong into the working folder. */
export const hasBuilt = (layer: string): Promise<boolean> =>
  lstat(join(layer, BUILT)).then(
    (found) => found.isDirectory(),
    () => false,
  );

/**
 * Copies what a layer's build wrote over the files of an unpacked bundle. Returns the size in bytes, as {@link
 * unpackBundle} does. Throws {@link LayerError} if a file would replace a folder, or the other way round. A bundle has
 * no links, and no path in a layer leads through one, so that nothing is written elsewhere.
 */
export async function addBuilt(layer: string, target: string, onBytes: OnBytes = anySize): Promise<number> {
  const from = join(layer, BUILT);
  const isRoot = process.getuid?.() === 0;
  let size = 0;
  for (const path of await readdir(from, { recursive: true })) {
    const found = await lstat(join(from, path));
    size += Math.max(PAGE_BYTES, Math.ceil(found.size / PAGE_BYTES) * PAGE_BYTES);
    await onBytes(size);
    try {
      if (found.isDirectory()) await mkdir(join(target, path), { recursive: true });
      else await cp(join(from, path), join(target, path), { force: true, verbatimSymlinks: true });
    } catch (error) {
      if (!hasCode(error, 'EEXIST') && !hasCode(error, 'ERR_FS_CP_NON_DIR_TO_DIR')) throw error;
      throw new LayerError(
        `the build wrote ${path}, which is a folder in one of bundle and result and none in the other`,
      );
    }
    if (isRoot) await lchown(join(target, path), USER_ID, USER_ID);
  }
  return size;
}

/**
 * Unpacks into the existing folder `target`. Returns the size in bytes. Throws if the layer does not exist, and {@link
 * LayerError} if it has forbidden contents or not the hash `sha256`: then nothing in the folder may be used. Rethrows
 * errors of `onBytes`.
 */
export async function unpackLayer(
  blobs: BundlesAndLayers,
  { key, sha256 }: { readonly key: string; readonly sha256?: string },
  target: string,
  onBytes: OnBytes = anySize,
): Promise<number> {
  const archive = await blobs.stream(key);
  if (!archive) throw new Error(`there is no layer ${key}`);
  const hash = createHash('sha256');
  const size = await extractLayer(hashed(archive, hash), target, onBytes);
  if (sha256 !== undefined && hash.digest('hex') !== sha256) {
    throw new LayerError('their archive has changed since they were installed');
  }
  await linkSdk(target);
  await completePython(target);
  return size;
}

async function* hashed(archive: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Uint8Array> {
  for await (const chunk of archive) {
    hash.update(chunk);
    yield chunk;
  }
}

/** Links the platform's packages into the layer, the only folder that Node searches besides the bundle's own. */
export async function linkSdk(layer: string): Promise<void> {
  const { name } = SDK.node;
  await mkdir(join(layer, 'node_modules'), { recursive: true });
  await symlink(`${SDK_NODE_MODULES}/${name}`, join(layer, 'node_modules', name)).catch((error) => {
    // The agent has its own copy of the package.
    if (!hasCode(error, 'EEXIST')) throw error;
  });
}

/** The environment stays usable, for packages without machine code, when the machine has one of these later. */
const LATER_PYTHONS = Array.from({ length: 12 }, (_, index) => `python3.${index + 9}`);

/**
 * Adds what makes the packages in a layer an environment of Python (venv) here: its settings and its interpreter. Other
 * packages than the platform's own and those of the layer are hidden from all of them.
 * https://docs.python.org/3/library/venv.html
 */
async function completePython(layer: string): Promise<void> {
  const environment = join(layer, 'venv');
  const own = `${INTERPRETERS}/python/bin`;
  const home = existsSync(join(layer, own, 'python3')) ? `/layer/${own}` : '/runtime/bin';
  const [version, ...others] = await readdir(join(environment, 'lib')).catch(() => []);
  if (version === undefined || others.length > 0 || !LATER_PYTHONS.includes(version)) return;
  try {
    await Promise.all(
      LATER_PYTHONS.map((other) => other !== version && symlink(version, join(environment, 'lib', other))),
    );
    const bin = join(environment, 'bin');
    await mkdir(bin, { recursive: true });
    const place = async (path: string, write: () => Promise<void>) => {
      await rm(path, { recursive: true, force: true });
      await write();
    };
    await place(join(bin, 'python3'), () => symlink(`${home}/python3`, join(bin, 'python3')));
    for (const name of ['python', version]) await place(join(bin, name), () => symlink('python3', join(bin, name)));
    const settings = join(environment, 'pyvenv.cfg');
    // "System" packages are the platform's own; with them, programs may install into their home.
    await place(settings, () =>
      writeFile(settings, `home = ${home}\ninclude-system-site-packages = true\n`, { flag: 'wx' }),
    );
  } catch {
    throw new LayerError('they hold an environment of Python with other files than packages in its place');
  }
}

/** GNU tar writes faster than Node. It gets only entries that {@link readLayer} has checked. */
async function extractLayer(archive: AsyncIterable<Uint8Array>, target: string, onBytes: OnBytes): Promise<number> {
  const tar = spawn('tar', ['-x', '--no-same-owner', '--preserve-permissions', '-C', target], {
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  let stderr = '';
  tar.stderr.on('data', (chunk) => {
    stderr = (stderr + chunk).slice(-2000);
  });
  // The exit status gives the reason.
  tar.stdin.on('error', () => {});
  const ended = new Promise<number | null>((resolve, reject) => tar.on('error', reject).on('close', resolve));
  ended.catch(() => {});
  try {
    let written = 0;
    const { bytes } = await readLayer(archive, async (piece) => {
      written += piece.byteLength;
      await onBytes(written);
      if (!tar.stdin.destroyed && !tar.stdin.write(piece)) await Promise.race([once(tar.stdin, 'drain'), ended]);
    });
    tar.stdin.end();
    const code = await ended;
    if (code !== 0) throw new Error(`a layer cannot be unpacked: ${stderr.trim()}`);
    return bytes;
  } catch (error) {
    tar.kill('SIGKILL');
    await ended.catch(() => {});
    throw error;
  }
}
