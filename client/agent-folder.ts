import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '#core/base/errors.ts';
import { type AgentFolder, type Folder, readAgentFolder as read } from '#core/manifest/folder/agent-folder.ts';
import { rulesAbove } from './git-ignored.ts';

export type { AgentFolder };

/** Reads the folder of an agent for a publish. Throws an Error whose message names the file and the fix. */
export async function readAgentFolder(folder: string): Promise<AgentFolder> {
  const source: Folder = {
    nameOf: (path = '') => join(folder, path),
    async entries(path) {
      const found = await readdir(join(folder, path), { withFileTypes: true });
      return found
        .filter((entry) => entry.isFile() || entry.isDirectory())
        .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }));
    },
    sizeOf: async (path) => (await stat(join(folder, path))).size,
    read: (path) => readIfThere(join(folder, path)),
    ignored: await rulesAbove(folder),
  };
  return read(source);
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw new Error(`${path} cannot be read: ${(error as Error).message}.`, { cause: error });
  }
}
