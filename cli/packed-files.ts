import { isUtf8 } from 'node:buffer';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FileContent, FilesByPath } from '#client/gallery.ts';

/** Files of the repository that commands need: examples, templates and the documentation. */
const PACKED = ['examples/**', 'docs/{,interface/}*.md'];
const LEFT_OUT = /(^|\/)(node_modules|__pycache__)\/|\.pyc$|^examples\/(cdk\/|README\.md$)/;

/** `scripts/build-cli.ts` inserts the files here, because the package has no other files. */
declare const PACKED_FILES: FilesByPath | undefined;

/** Returns the files by path, relative to the root of the repository and separated by `/`. */
export const packedFiles = (): FilesByPath => (typeof PACKED_FILES === 'undefined' ? readPackedFiles() : PACKED_FILES);

/** Reads the files from the repository that contains this module. */
export function readPackedFiles(): FilesByPath {
  const root = join(import.meta.dirname, '..');
  const found = PACKED.flatMap((glob) => globSync(glob, { cwd: root, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(root.length + 1)
        .replaceAll('\\', '/'),
    )
    .filter((path) => !LEFT_OUT.test(path));
  return Object.fromEntries(found.sort().map((path) => [path, contentOf(readFileSync(join(root, path)))]));
}

const contentOf = (bytes: Buffer): FileContent =>
  isUtf8(bytes) ? bytes.toString('utf8') : { base64: bytes.toString('base64') };
