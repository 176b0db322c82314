import { readFileSync } from 'node:fs';
import { createRequire, getCompileCacheDir } from 'node:module';
import { join, posix } from 'node:path';
import { Script } from 'node:vm';

/** Identifies the code of the bundle; the build sets it. V8 itself compares only lengths of sources. */
declare const BUNDLE_HASH: string;

const BEFORE = '(function(exports,require,module,__filename,__dirname,moduleUrl){"use strict";';
const AFTER = '\n})';

/** Node's own folder for its version, processor, flags and user, which exists only if the layer was made for these. */
const folder = getCompileCacheDir();
const requireOther = createRequire(import.meta.url);
const modules = new Map<string, { exports: object }>();

/** Scripts of the loaded files by path in the bundle. */
export const scripts = new Map<string, Script>();

export const cacheFileOf = (name: string): string | undefined => folder && join(folder, BUNDLE_HASH, name);

/**
 * Returns the exports of a file of the bundle. Node's own compile cache has only what V8 compiles before a module runs;
 * the cache of a script, made after it has run, also has the functions that it called.
 *
 * @param name Path in the bundle.
 */
export function load(name: string): object {
  const known = modules.get(name);
  if (known !== undefined) return known.exports;
  const file = join(import.meta.dirname, name);
  const cachedData = cached(name);
  const script = new Script(BEFORE + readFileSync(file, 'utf8') + AFTER, {
    filename: new URL(name, import.meta.url).href,
    columnOffset: -BEFORE.length,
    ...(cachedData && { cachedData }),
  });
  const module = { exports: {} };
  // Known before it runs, as files may import one another.
  modules.set(name, module);
  scripts.set(name, script);
  const requireFrom = (id: string) =>
    id.startsWith('.') ? load(posix.join(posix.dirname(name), id)) : requireOther(id);
  // Threads start with the ES module beside a file.
  const moduleUrl = new URL(name.replace(/cjs$/, 'mjs'), import.meta.url).href;
  script.runInThisContext()(module.exports, requireFrom, module, file, join(file, '..'), moduleUrl);
  return module.exports;
}

function cached(name: string): Buffer | undefined {
  const file = cacheFileOf(name);
  try {
    return file === undefined ? undefined : readFileSync(file);
  } catch {
    return undefined;
  }
}
