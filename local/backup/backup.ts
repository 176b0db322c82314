import { createHash } from 'node:crypto';
import { constants, createWriteStream } from 'node:fs';
import { access, chown, mkdir, open, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip, constants as zlib } from 'node:zlib';
import { hasCode } from '#core/base/errors.ts';
import { replaceFile, undefinedIfMissing } from '../files/files.ts';
import { TEMPORARY } from '../files/folder-blobs.ts';
import { BLOBS, DATABASE, encodeManifest, MANIFEST, VAULT, VAULT_KEY } from './format.ts';
import { snapshot } from './snapshot.ts';
import { ARCHIVE_END, fileHeader, padding } from './tar.ts';

/** File in the data folder that describes the latest backup. */
const LAST_BACKUP = 'last-backup.json';

export interface BackupOrder {
  readonly dataFolder: string;
  /** Path of the key that encrypts the secrets and seals data keys. */
  readonly keyFile: string;
  /** Path of the archive. An existing archive is replaced once the new one is complete. */
  readonly file: string;
  /** Whether to include the key that encrypts the secrets. */
  readonly withKey: boolean;
  /** Version of this platform. */
  readonly version: string;
}

export interface Backup {
  readonly file: string;
  readonly created_at: string;
  /** Size of the archive. */
  readonly bytes: number;
  readonly files: number;
  readonly data_version: number;
  readonly has_secrets: boolean;
  readonly has_key: boolean;
}

/**
 * Writes a backup of a data folder, whether its platform is running or not. The platform writes a blob before the
 * record that names it, and deletes it after the record. So blobs are copied before the database, and new ones once
 * more after it.
 *
 * The archive gets its final name when it is complete and flushed to disk. Only its owner can read it.
 */
export async function writeBackup(order: BackupOrder): Promise<Backup> {
  const { dataFolder, file } = order;
  const work = `${file}.partial-${process.pid}`;
  await removeLeftovers(file);
  await mkdir(work, { recursive: true, mode: 0o700 });
  try {
    const created = new Date().toISOString();
    const archive = join(work, 'archive');
    let found: Omit<Backup, 'file' | 'bytes' | 'created_at'> | undefined;
    const contents = archiveOf(order, work, created, (result) => {
      found = result;
    });
    const gzip = createGzip({ level: zlib.Z_BEST_SPEED });
    await pipeline(contents, gzip, createWriteStream(archive, { flags: 'wx', mode: 0o600, flush: true }));
    const { size } = await stat(archive);
    await rename(archive, file);
    await syncFolder(dirname(file));
    const made = { file, created_at: created, bytes: size, ...found! };
    await noteBackup(dataFolder, made);
    return made;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Returns the latest backup of a data folder, or `undefined` if none is known. */
export async function lastBackup(dataFolder: string): Promise<Backup | undefined> {
  const file = await undefinedIfMissing(open(join(dataFolder, LAST_BACKUP)));
  if (file === undefined) return undefined;
  try {
    return JSON.parse(await file.readFile('utf8')) as Backup;
  } catch {
    return undefined;
  } finally {
    await file.close();
  }
}

async function* archiveOf(
  { dataFolder, keyFile, withKey, version }: BackupOrder,
  work: string,
  created: string,
  done: (result: Omit<Backup, 'file' | 'bytes' | 'created_at'>) => void,
): AsyncGenerator<Buffer> {
  const digest = createHash('sha256');
  let [files, bytes, secrets] = [0, 0, 0];
  const add = async function* (path: string, from: string): AsyncGenerator<Buffer> {
    const before = bytes;
    for await (const part of entryOf(path, from)) {
      digest.update(part);
      bytes += part.length;
      yield part;
    }
    if (bytes > before) files += 1;
  };
  const seen = new Set<string>();
  const addBlobs = async function* () {
    for await (const path of filesBelow(join(dataFolder, BLOBS))) {
      if (seen.has(path)) continue;
      seen.add(path);
      yield* add(`${BLOBS}/${path}`, join(dataFolder, BLOBS, path));
    }
  };

  yield* addBlobs();
  const copy = join(work, DATABASE);
  const data_version = await snapshot(join(dataFolder, DATABASE), copy, work);
  yield* add(DATABASE, copy);
  await rm(copy);
  yield* addBlobs();
  for (const name of (await undefinedIfMissing(readdir(join(dataFolder, VAULT)))) ?? []) {
    if (!name.endsWith('.vault')) continue;
    yield* add(`${VAULT}/${name}`, join(dataFolder, VAULT, name));
    secrets += 1;
  }
  // Without secrets, there may be a key that seals data keys.
  const has_key = withKey && (secrets > 0 || (await undefinedIfMissing(stat(keyFile))) !== undefined);
  if (has_key) await access(keyFile, constants.R_OK);
  if (has_key) yield* add(VAULT_KEY, keyFile);

  const result = { files, data_version, has_secrets: secrets > 0, has_key };
  const text = encodeManifest({
    ...result,
    platform: version,
    created_at: created,
    bytes,
    sha256: digest.digest('hex'),
  });
  yield Buffer.concat([fileHeader(MANIFEST, text.length), text, padding(text.length), ARCHIVE_END]);
  done(result);
}

/**
 * Yields a file's archive entry, or nothing if the file is gone: no record of the snapshot refers to a deleted file.
 */
async function* entryOf(path: string, from: string): AsyncGenerator<Buffer> {
  // Do not follow symbolic links: their targets are not part of the data.
  const file = await undefinedIfMissing(open(from, constants.O_RDONLY | constants.O_NOFOLLOW));
  if (file === undefined) return;
  try {
    const { size } = await file.stat();
    yield fileHeader(path, size);
    let rest = size;
    for await (const part of file.createReadStream({ autoClose: false, ...(size > 0 && { end: size - 1 }) })) {
      rest -= part.length;
      yield part;
    }
    if (rest !== 0) throw new Error(`${from} changed while it was copied`);
    yield padding(size);
  } finally {
    await file.close();
  }
}

/** Paths of the regular files below a folder, except unfinished ones. */
async function* filesBelow(root: string, folder = root): AsyncGenerator<string> {
  const entries = await undefinedIfMissing(opendir(folder));
  if (entries === undefined) return;
  for await (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== TEMPORARY) yield* filesBelow(root, path);
    else if (entry.isFile()) yield relative(root, path);
  }
}

/** Removes unfinished archives of earlier backups to the same path whose process died. */
async function removeLeftovers(file: string): Promise<void> {
  const folder = dirname(resolve(file));
  const prefix = `${basename(file)}.partial-`;
  for (const name of await readdir(folder)) {
    if (!name.startsWith(prefix) || isAlive(Number(name.slice(prefix.length)))) continue;
    await rm(join(folder, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return hasCode(error, 'EPERM');
  }
}

export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function noteBackup(dataFolder: string, made: Backup): Promise<void> {
  const path = join(dataFolder, LAST_BACKUP);
  await replaceFile(path, `${JSON.stringify(made)}\n`, dataFolder);
  // When root makes a backup, the archive belongs to the owner of the data.
  const { uid, gid } = await stat(dataFolder);
  if (process.getuid?.() === 0) await chown(path, uid, gid);
}
