import { isUtf8 } from 'node:buffer';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FileContent, FilesByPath } from '#client/gallery.ts';

/** Root of the repository or of the package, which both have these files. */
const ROOT = join(import.meta.dirname, '..');
/** Files that commands need: examples, templates and the documentation. */
const PACKED = ['examples/**', 'docs/{,interface/}*.md'];
const LEFT_OUT = /(^|\/)(node_modules|__pycache__)\/|\.pyc$|^examples\/((cdk|deploy)\/|README\.md$)/;

/** Returns the paths relative to the root, separated by `/`. */
export const packedPaths = (): string[] =>
  PACKED.flatMap((glob) => globSync(glob, { cwd: ROOT, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(ROOT.length + 1)
        .replaceAll('\\', '/'),
    )
    .filter((path) => !LEFT_OUT.test(path))
    .sort();

/** Returns the files by their paths. */
export const packedFiles = (): FilesByPath =>
  Object.fromEntries(packedPaths().map((path) => [path, contentOf(readFileSync(join(ROOT, path)))]));

const contentOf = (bytes: Buffer): FileContent =>
  isUtf8(bytes) ? bytes.toString('utf8') : { base64: bytes.toString('base64') };
