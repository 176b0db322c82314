import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { Zip, type ZipInputFile } from 'fflate';

const ROOT = join(import.meta.dirname, '..');
const PROPS = join(ROOT, 'examples/deploy/platform.json');
/** The earliest date of a zip, so that the file does not depend on the time. */
const MTIME = '1980-01-01';

/**
 * Synthesises the cloud assembly of a release into a new folder, and zips it, with the folder at its top. The bundles of
 * functions have most files in common, so each content is compressed only once.
 *
 * @param synth The command `agent-platform-synth` of the construct's package.
 */
export function packAssembly(synth: string, folder: string, file: string): void {
  execFileSync(process.execPath, [synth, PROPS, folder], { stdio: ['ignore', 'ignore', 'inherit'] });
  cpSync(PROPS, join(folder, 'platform.json'));
  cpSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
  const chunks: Uint8Array[] = [];
  const zip = new Zip((error, chunk) => {
    if (error) throw error;
    chunks.push(chunk);
  });
  const compressed = new Map<string, Uint8Array<ArrayBuffer>>();
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const path of entries.map(({ parentPath, name }) => join(parentPath, name)).sort()) {
    const content = readFileSync(path);
    const hash = createHash('sha256').update(content).digest('hex');
    const deflated = compressed.get(hash) ?? deflateRawSync(content);
    compressed.set(hash, deflated);
    const filename = `${basename(folder)}/${relative(folder, path).replaceAll('\\', '/')}`;
    const entry: ZipInputFile = { filename, compression: 8, size: content.length, crc: crc32(content), mtime: MTIME };
    zip.add(entry);
    entry.ondata!(null, deflated, true);
  }
  zip.end();
  writeFileSync(file, Buffer.concat(chunks));
}
