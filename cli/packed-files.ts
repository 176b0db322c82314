import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Texts by path, relative to the root of the repository and separated by `/`. */
export type Files = Readonly<Record<string, string>>;

/** Files of the repository that commands need: the examples, which are the templates, and the documentation. */
const PACKED = [
  'examples/{csv-insights,html-to-markdown,log-investigator,reply-style,site-watch,support-digest,ticket-triage}/**',
  'docs/{,interface/}*.md',
];
const LEFT_OUT = /(^|\/)(node_modules|__pycache__)\/|\/README\.md$|\.pyc$/;

/** `scripts/build-cli.ts` inserts the texts here, because the package has no other files. */
declare const PACKED_FILES: Files | undefined;

export const packedFiles = (): Files => (typeof PACKED_FILES === 'undefined' ? readPackedFiles() : PACKED_FILES);

/** Reads the files from the repository that contains this module. */
export function readPackedFiles(): Files {
  const root = join(import.meta.dirname, '..');
  const found = PACKED.flatMap((glob) => globSync(glob, { cwd: root, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(root.length + 1)
        .replaceAll('\\', '/'),
    )
    .filter((path) => !LEFT_OUT.test(path));
  return Object.fromEntries(found.sort().map((path) => [path, readFileSync(join(root, path), 'utf8')]));
}
