import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isOwnerAlive, ownerName } from './owner-process.ts';

const PREFIX = 'platform-sandbox-';

/**
 * Creates a folder for temporary files of this process. If the process is killed, {@link removeLeftovers} removes it.
 */
export const makeScratchFolder = (): Promise<string> => mkdtemp(join(tmpdir(), `${PREFIX}${ownerName()}-`));

/** Removes scratch folders of platform processes that were killed. */
export async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(PREFIX) || isOwnerAlive(name.slice(PREFIX.length))) continue;
    await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => {});
  }
}
