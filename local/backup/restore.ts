import { constants, createReadStream, createWriteStream } from 'node:fs';
import { chown, copyFile, lstat, mkdir, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { hasCode } from '#core/base/errors.ts';
import { newerData } from '../database/data-version.ts';
import { undefinedIfMissing } from '../files/files.ts';
import { syncFolder } from './backup.ts';
import { BLOBS, checkPath, DATABASE, MANIFEST, type Manifest, parseManifest, VAULT, VAULT_KEY } from './format.ts';
import { type ArchivedFile, ArchiveError, readTar } from './tar.ts';

/** Subfolder of the data folder that holds the files of an unfinished restore. */
export const RESTORING = '.restoring';
const MAX_MANIFEST_BYTES = 64 * 1024;

export interface RestoreOrder {
  readonly file: string;
  /** Must be empty or not exist. */
  readonly dataFolder: string;
  /** Path where the platform looks for the key that encrypts the secrets. */
  readonly keyFile: string;
}

/**
 * Reads an archive to its end and checks it against its manifest. Throws {@link ArchiveError} if it is damaged,
 * truncated or has unexpected files, and {@link DataVersionError} if a newer platform made it.
 */
export async function verifyBackup(file: string): Promise<Manifest> {
  const manifest = await readBackup(file, async (archived) => {
    for await (const _ of archived.body());
  });
  if (manifest.data_version > DATA_VERSION) throw newerData(file, manifest.data_version, DATA_VERSION);
  return manifest;
}

/**
 * Restores a backup into a data folder. The archive is verified before the folder is changed. Files are unpacked into a
 * subfolder and then moved, the database last. After an interrupted restore the platform refuses the folder, and the
 * next restore starts over.
 */
export async function restoreBackup({ file, dataFolder, keyFile }: RestoreOrder): Promise<Manifest> {
  await checkTarget(dataFolder);
  const verified = await verifyBackup(file);
  if (
    verified.has_key &&
    keyFile !== join(dataFolder, VAULT_KEY) &&
    (await undefinedIfMissing(stat(keyFile))) !== undefined
  ) {
    throw new Error(`the backup contains a key, but ${keyFile} already exists: move it away first`);
  }
  await mkdir(dataFolder, { recursive: true, mode: 0o700 });
  await checkRoom(dataFolder, verified.bytes);
  const work = join(dataFolder, RESTORING);
  await clear(dataFolder);
  try {
    await mkdir(work, { mode: 0o700 });
    const owner = await ownerOf(dataFolder);
    await readBackup(file, (archived) => unpack(archived, work, owner));
    checkDatabase(join(work, DATABASE), verified);
    if (verified.has_key && keyFile !== join(dataFolder, VAULT_KEY)) {
      await mkdir(dirname(keyFile), { recursive: true, mode: 0o700 });
      await copyFile(join(work, VAULT_KEY), keyFile, constants.COPYFILE_EXCL);
      if (owner !== undefined) await chown(keyFile, owner.uid, owner.gid);
      await rm(join(work, VAULT_KEY));
    }
    const names = (await readdir(work)).filter((name) => name !== DATABASE);
    for (const name of [...names, DATABASE]) await rename(join(work, name), join(dataFolder, name));
    await syncFolder(dataFolder);
  } catch (error) {
    await clear(dataFolder);
    throw error;
  }
  await rm(work, { recursive: true });
  await syncFolder(dataFolder);
  return verified;
}

/** Files and folders that a restore creates in the data folder. */
const MADE: readonly string[] = [RESTORING, BLOBS, VAULT, VAULT_KEY, DATABASE];

async function clear(folder: string): Promise<void> {
  for (const name of MADE) await rm(join(folder, name), { recursive: true, force: true });
}

async function checkTarget(folder: string): Promise<void> {
  const names = await undefinedIfMissing(readdir(folder)).catch((error) => {
    throw hasCode(error, 'ENOTDIR') ? new Error(`${folder} is not a folder`) : error;
  });
  const isInterrupted = names?.includes(RESTORING) && !names.includes(DATABASE);
  if (names === undefined || names.length === 0 || (isInterrupted && names.every((name) => MADE.includes(name))))
    return;
  throw new Error(
    `${folder} is not empty, and a restore never overwrites data: stop the platform and move the folder away, or choose another one with --data`,
  );
}

async function checkRoom(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize >= bytes) return;
  throw new Error(`${folder} has ${bavail * bsize} bytes free, but the backup needs ${bytes}`);
}

type Owner = { readonly uid: number; readonly gid: number } | undefined;

/** When root restores, the files belong to the owner of the folder. */
async function ownerOf(folder: string): Promise<Owner> {
  const { uid, gid } = await stat(folder);
  return process.getuid?.() === 0 && uid !== 0 ? { uid, gid } : undefined;
}

async function unpack({ path, body }: ArchivedFile, root: string, owner: Owner): Promise<void> {
  const file = join(root, path);
  const made = await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  // The flag `wx` follows no symbolic link and never overwrites a file.
  await pipeline(body, createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true }));
  if (owner === undefined) return;
  await chown(file, owner.uid, owner.gid);
  for (let folder = dirname(file); made !== undefined && folder.length >= made.length; folder = dirname(folder)) {
    await chown(folder, owner.uid, owner.gid);
  }
}

function checkDatabase(file: string, { data_version }: Manifest): void {
  const db = new DatabaseSync(file);
  try {
    const problem = db.prepare('PRAGMA quick_check(1)').get()!.quick_check;
    if (problem !== 'ok') throw new ArchiveError(`has a damaged database: ${problem}`);
    const version = Number(db.prepare('PRAGMA user_version').get()!.user_version);
    if (version !== data_version)
      throw new ArchiveError(`has data of version ${version}, but its manifest says ${data_version}`);
  } catch (error) {
    if (hasCode(error, 'ERR_SQLITE_ERROR'))
      throw new ArchiveError(`has a damaged database: ${(error as Error).message}`);
    throw error;
  } finally {
    db.close();
  }
}

/** Passes each file except the manifest to `take`, in archive order, after checking its path. */
async function readBackup(file: string, take: (archived: ArchivedFile) => Promise<void>): Promise<Manifest> {
  if (!(await lstat(file)).isFile()) throw new Error(`${file} is no file`);
  let manifest: Manifest | undefined;
  let [files, hasDatabase] = [0, false];
  try {
    for await (const archived of readTar(unpacked(file))) {
      const { path, size } = archived;
      if (manifest !== undefined) throw new ArchiveError('has files after its manifest');
      checkPath(path);
      if (path !== MANIFEST) {
        hasDatabase ||= path === DATABASE;
        files += 1;
        await take(archived);
        continue;
      }
      if (size > MAX_MANIFEST_BYTES) throw new ArchiveError('has a manifest that is too long');
      manifest = parseManifest(Buffer.concat(await Array.fromAsync(archived.body())));
      if (manifest.sha256 !== archived.sha256Before() || manifest.files !== files)
        throw new ArchiveError('is damaged: its checksum is wrong');
    }
  } catch (error) {
    const { code = '' } = error as { code?: string };
    if (code.startsWith('Z_'))
      throw new ArchiveError(`is damaged or incomplete: ${(error as Error).message}`, { cause: error });
    throw error;
  }
  if (manifest === undefined || !hasDatabase) throw new ArchiveError('is not a complete platform backup');
  return manifest;
}

async function* unpacked(file: string): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  // Errors of both streams reach the reader of `gunzip`.
  pipeline(createReadStream(file), gunzip).catch(() => {});
  yield* gunzip;
}
