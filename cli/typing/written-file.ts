import { readFile, writeFile } from 'node:fs/promises';
import { UsageError } from '#client/usage-error.ts';

/** Writes a generated file. Throws UsageError if it cannot, and if a file is there whose first line has not the mark. */
export async function replaceWritten(
  path: string,
  source: string,
  { mark, command }: { readonly mark: string; readonly command: string },
): Promise<void> {
  const there = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new UsageError(`${path} cannot be read: ${error.code}.`);
  });
  if (there !== undefined && !there.split('\n', 1)[0]!.includes(mark)) {
    throw new UsageError(`${path} was not written by \`${command}\`. Nothing was written.`, {
      hint: 'Choose another file, or delete this one.',
    });
  }
  await writeFile(path, source).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${path} cannot be written: ${error.code}.`);
  });
}
