import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Path from the root of the repository, separated by `/` -> text. */
export type Files = Readonly<Record<string, string>>;

/** The files of the repository that commands hand out: the examples, of which templates are made, and the pages of docs. */
const PACKED = [
  'examples/{csv-insights,html-to-markdown,log-investigator,reply-style,site-watch,support-digest,ticket-triage}/**',
  'docs/{,interface/}*.md',
];
const LEFT_OUT = /(^|\/)(node_modules|__pycache__)\/|\/README\.md$|\.pyc$/;

/** `scripts/build-cli.ts` puts the texts here: the package has no other files. */
declare const PACKED_FILES: Files | undefined;

export const packedFiles = (): Files => (typeof PACKED_FILES === 'undefined' ? readPackedFiles() : PACKED_FILES);

/** Reads the files from the repository that this module lies in. */
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
