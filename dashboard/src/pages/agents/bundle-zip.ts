import { useQuery } from '@tanstack/react-query';
import { unzipSync } from 'fflate';
import { call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import type { Version } from './version.ts';

/** A zip entry that is not decompressed yet. */
export interface ZipFile {
  /** Path chosen by the author; display it as text only. */
  readonly path: string;
  /** Uncompressed size in bytes, as declared by the zip. */
  readonly size: number;
}

/** Lists the entries of a zip without decompressing them. Throws if the data is not a zip. */
export function filesOf(zip: Uint8Array): ZipFile[] {
  const files: ZipFile[] = [];
  unzipSync(zip, {
    filter({ name, originalSize }) {
      if (!name.endsWith('/')) files.push({ path: name, size: originalSize });
      return false;
    },
  });
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Decompresses one zip entry. Memory use follows its declared size, so check that first. */
export const expand = (zip: Uint8Array, path: string): Uint8Array | undefined =>
  unzipSync(zip, { filter: ({ name }) => name === path })[path];

/** Decodes UTF-8 text; returns `undefined` for other data. */
export function textOf(content: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Loads the zip of a version's code; `null` if the version has no code. */
export function useBundle({ id, code_bundle_url }: Pick<Version, 'id' | 'code_bundle_url'>) {
  const workspaceId = useWorkspace().id;
  return useQuery({
    queryKey: keyOf('downloadOwnBundle', id, workspaceId),
    queryFn: ({ signal }) => (code_bundle_url === null ? null : readBundle(id, { workspaceId, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
}

export async function readBundle(id: string, options: { workspaceId: string; signal?: AbortSignal }) {
  const answer = (await call('downloadOwnBundle', { params: { id } }, options)) as Response;
  return new Uint8Array(await answer.arrayBuffer());
}
