import { createHash } from 'node:crypto';
import { linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/**
 * Folders in one file, because the functions have most of their files in common: each content is stored once. The
 * package is a fifth of its size that way, source maps included.
 */
interface Index {
  /** Path with slashes -> position of its content in `sizes`. */
  readonly files: Readonly<Record<string, number>>;
  /** Bytes of each content, in their order. */
  readonly sizes: readonly number[];
}

const LENGTH_BYTES = 4;

/** Writes the files of `names`, folders of `root`, to one file. Permissions and links are not kept. */
export function writeArchive(file: string, root: string, names: readonly string[]): void {
  const files: Record<string, number> = {};
  const contents: Buffer[] = [];
  const known = new Map<string, number>();
  const entries = names.flatMap((name) =>
    readdirSync(join(root, name), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()),
  );
  for (const path of entries.map(({ parentPath, name }) => join(parentPath, name)).sort()) {
    const content = readFileSync(path);
    const hash = createHash('sha256').update(content).digest('hex');
    if (!known.has(hash)) known.set(hash, contents.push(content) - 1);
    files[relative(root, path).replaceAll('\\', '/')] = known.get(hash)!;
  }
  const index = Buffer.from(JSON.stringify({ files, sizes: contents.map(({ length }) => length) } satisfies Index));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(index.length);
  const params = { [constants.ZSTD_c_compressionLevel]: 12, [constants.ZSTD_c_enableLongDistanceMatching]: 1 };
  writeFileSync(file, zstdCompressSync(Buffer.concat([length, index, ...contents]), { params }));
}

/** Writes the files of an archive to a new temporary folder, which is removed when the process ends, and returns it. */
export function readArchive(file: string): string {
  const all = zstdDecompressSync(readFileSync(file));
  let at = LENGTH_BYTES + all.readUInt32BE();
  const { files, sizes }: Index = JSON.parse(all.toString('utf8', LENGTH_BYTES, at));
  const contents = sizes.map((size) => {
    at += size;
    return all.subarray(at - size, at);
  });
  const folder = mkdtempSync(join(tmpdir(), 'agent-platform-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const name of new Set(Object.keys(files).map((path) => dirname(path)))) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  const written = new Map<number, string>();
  for (const [path, content] of Object.entries(files)) {
    const [to, same] = [join(folder, path), written.get(content)];
    if (same === undefined) writeFileSync(to, contents[content]!);
    else linkSync(same, to);
    written.set(content, to);
  }
  return folder;
}
