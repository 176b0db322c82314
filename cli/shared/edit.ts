import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import type { Host } from './cli.ts';

/** Opens a value in an editor. Throws UsageError if the editor fails, the value is unchanged, or it is not JSON. */
export async function editJson({ env }: Pick<Host, 'env'>, value: unknown): Promise<unknown> {
  const editor = env.VISUAL || env.EDITOR || (process.platform === 'win32' ? 'notepad' : 'vi');
  const folder = await mkdtemp(join(tmpdir(), 'platform-edit-'));
  const file = join(folder, 'input.json');
  const before = `${JSON.stringify(value, null, 2)}\n`;
  try {
    await writeFile(file, before, { mode: 0o600 });
    // Editors may have arguments, such as `code --wait`.
    const { status, error } = spawnSync(`${editor} "${file}"`, { shell: true, stdio: 'inherit' });
    if (error || status !== 0) {
      throw new UsageError(`The editor "${editor}" failed.`, { hint: 'Set EDITOR, or pass the input with --data.' });
    }
    const after = await readFile(file, 'utf8');
    if (after === before) throw new UsageError('The input was not changed. Nothing was run.', { exitCode: 1 });
    try {
      return JSON.parse(after);
    } catch (problem) {
      throw new UsageError(`The edited input is not valid JSON: ${(problem as Error).message}.`);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
