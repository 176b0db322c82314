import { randomUUID } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasCode } from '#core/base/errors.ts';

/**
 * Writes a file that only its owner may read, atomically even in a power failure: under another name in
 * `temporaryFolder` (on the same file system), then renamed.
 */
export async function replaceFile(
  path: string,
  body: string | Uint8Array | AsyncIterable<Uint8Array>,
  temporaryFolder: string,
): Promise<void> {
  const temporary = join(temporaryFolder, randomUUID());
  await mkdir(temporaryFolder, { recursive: true, mode: 0o700 });
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(body);
      // Without it a power failure could leave an empty file under the new name.
      await file.sync();
    } finally {
      await file.close();
    }
    await moveInto(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

const MOVE_TRIES = 10;

async function moveInto(temporary: string, path: string): Promise<void> {
  const folder = dirname(path);
  for (let left = MOVE_TRIES; ; left -= 1) {
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await rename(temporary, path);
      break;
    } catch (error) {
      // A concurrent delete may remove the folder while it is empty. If it is one above, mkdir says ENOTDIR.
      if (left === 0 || !(hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR'))) throw error;
    }
  }
  const opened = await open(folder);
  try {
    await opened.sync();
  } catch (error) {
    // A concurrent delete removed the folder with the file that was just moved.
    if (!hasCode(error, 'ENOENT')) throw error;
  } finally {
    await opened.close();
  }
}

/** Resolves to undefined if the file or folder does not exist. */
export async function undefinedIfMissing<T>(result: Promise<T>): Promise<T | undefined> {
  try {
    return await result;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
