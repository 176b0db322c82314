import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';

/** Environment of a worker thread: empty, except for the folder of Node's compile cache if it is enabled. */
export function threadEnvironment(): Record<string, string> {
  const folder = getCompileCacheDir();
  // Node appends a subfolder for its version.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}
