import { isAbsolute } from 'node:path';
import * as z from 'zod';
import { ArchiveError } from './tar.ts';

/**
 * A backup is a gzipped tar of a data folder: `platform.sqlite` with the whole journal applied, `blobs/`, `vault/`,
 * `vault.key` if requested, and {@link MANIFEST} at the end. Data that the platform can recreate (caches, service logs)
 * is excluded.
 */
export const MANIFEST = 'backup.json';
export const DATABASE = 'platform.sqlite';
export const BLOBS = 'blobs';
export const VAULT = 'vault';
export const VAULT_KEY = 'vault.key';

const FORMAT = 1;

const manifestSchema = z.object({
  format: z.number().int().positive(),
  /** Version of the platform that made the backup. */
  platform: z.string(),
  data_version: z.number().int().min(0),
  created_at: z.iso.datetime(),
  files: z.number().int().min(0),
  bytes: z.number().int().min(0),
  has_key: z.boolean(),
  has_secrets: z.boolean(),
  /** SHA-256 of all bytes of the tar before the manifest, hex. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

export type Manifest = z.infer<typeof manifestSchema>;

export const encodeManifest = (manifest: Omit<Manifest, 'format'>): Buffer =>
  Buffer.from(`${JSON.stringify({ format: FORMAT, ...manifest }, null, 2)}\n`);

export function parseManifest(text: Buffer): Manifest {
  const manifest = manifestSchema.safeParse(parsed(text));
  if (!manifest.success) throw new ArchiveError(`is not a platform backup: ${z.prettifyError(manifest.error)}`);
  if (manifest.data.format > FORMAT) {
    throw new ArchiveError(`was made by a newer platform (${manifest.data.platform}): restore it with that version`);
  }
  return manifest.data;
}

function parsed(text: Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}

/**
 * Throws {@link ArchiveError} if a backup cannot contain a file at this path, such as one outside the folder that is
 * restored.
 */
export function checkPath(path: string): void {
  const [top, ...below] = path.split('/');
  const isWell =
    [DATABASE, VAULT_KEY, MANIFEST].includes(path) ||
    (below.length > 0 && (top === BLOBS || (top === VAULT && below.length === 1)));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused.
  const isHostile = isAbsolute(path) || /[\u0000-\u001f\\]/.test(path) || below.some((each) => /^\.{0,2}$/.test(each));
  if (!isWell || isHostile) throw new ArchiveError(`contains the unexpected path ${JSON.stringify(path)}`);
}
