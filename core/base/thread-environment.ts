import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';

/** The environment of a thread: nothing of ours, except where Node keeps compiled files, if it does. */
export function threadEnvironment(): Record<string, string> {
  const folder = getCompileCacheDir();
  // Node adds a folder of its version.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}
