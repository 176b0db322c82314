import { lstat, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import type { SourceFile } from './agent-source.ts';

/**
 * Writes files below a folder, which is created if it does not exist. Checks all paths first: throws UsageError and
 * writes nothing if a file exists and `force` is not set, or if a link or file is in the way of a folder.
 *
 * @param files By paths that stay below the folder, separated by `/`.
 */
export async function writeFiles(
  folder: string,
  files: ReadonlyMap<string, SourceFile>,
  { force = false }: { readonly force?: boolean } = {},
): Promise<void> {
  const taken: string[] = [];
  for (const path of files.keys()) {
    const parts = path.split('/');
    for (let depth = 1; depth < parts.length; depth++) {
      const above = join(folder, ...parts.slice(0, depth));
      const found = await statOf(above);
      if (found !== undefined && !found.isDirectory()) {
        throw new UsageError(`Cannot write ${path}: ${above} is not a folder. Nothing was written.`);
      }
    }
    const found = await statOf(join(folder, path));
    if (found?.isDirectory()) throw new UsageError(`${join(folder, path)} is a folder. Nothing was written.`);
    if (found !== undefined) taken.push(path);
  }
  if (taken.length > 0 && !force) {
    throw new UsageError(`These files already exist: ${taken.join(', ')}. Nothing was written.`, {
      hint: 'Choose another folder, or use --force to overwrite them.',
    });
  }
  for (const [path, { content, executable }] of files) {
    const at = join(folder, path);
    await mkdir(dirname(at), { recursive: true });
    // Links are replaced, never followed.
    await rm(at, { force: true });
    await writeFile(at, content, { flag: 'wx', mode: executable ? 0o755 : 0o644 });
  }
}

const statOf = (path: string) =>
  lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new UsageError(`${path} cannot be read: ${error.code}.`);
  });
