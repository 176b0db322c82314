import type { Json } from '#core/base/json.ts';

/** `$`, then members and indexes: `$.a.b[0]['any name']`. */
export const JSON_PATH = /^\$(?:\.[A-Za-z_][\w-]*|\[\d{1,6}\]|\['[^']*'\])*$/;
const STEP = /\.([A-Za-z_][\w-]*)|\[(\d+)\]|\['([^']*)'\]/g;

/** Returns the part of a value that a path ({@link JSON_PATH}) selects; `undefined` if there is none. */
export function selectPath(value: Json, path: string): Json | undefined {
  let found: Json | undefined = value;
  for (const [, member, index, quoted] of path.matchAll(STEP)) {
    if (typeof found !== 'object' || found === null) return undefined;
    const name = member ?? index ?? quoted!;
    if (Array.isArray(found) !== (index !== undefined) || !Object.hasOwn(found, name)) return undefined;
    found = (found as { [name: string]: Json })[name];
  }
  return found;
}
