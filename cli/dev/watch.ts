import { basename, relative } from 'node:path';
import { watch as watchPaths } from 'chokidar';
import { rulesOf, withSlashes } from '#client/git-ignored.ts';
import { isHidden } from '#core/manifest/folder/ignore-rules.ts';

/** Editors write a file in several steps, and save several files at once. */
const DEBOUNCE_MS = 100;

/**
 * Calls `onChange` with the changed paths below a folder, once nothing has changed for 100 ms. Resolves when watching
 * has started, to a function that stops it.
 */
export async function watchFolder(
  folder: string,
  onChange: (paths: readonly string[]) => void,
): Promise<() => Promise<void>> {
  const rules = await rulesOf(folder);
  const changed = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  const watcher = watchPaths(folder, {
    ignoreInitial: true,
    ignored: (path, stats) => {
      const below = withSlashes(relative(folder, path));
      return below !== '' && (isHidden(basename(path)) || rules.ignores(below, stats?.isDirectory() ?? false));
    },
  });
  watcher.on('all', (_, path) => {
    changed.add(withSlashes(relative(folder, path)));
    clearTimeout(timer);
    timer = setTimeout(() => {
      onChange([...changed]);
      changed.clear();
    }, DEBOUNCE_MS);
  });
  await new Promise<void>((resolve, reject) => watcher.once('ready', resolve).once('error', reject));
  return async () => {
    clearTimeout(timer);
    await watcher.close();
  };
}
