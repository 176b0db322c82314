import { useQuery } from '@tanstack/react-query';
import { unzipSync } from 'fflate';
import { call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import type { Version } from './version.ts';

/** A file of a zip, before it is expanded. */
export interface ZipFile {
  /** As its author named it: shown as text only. */
  readonly path: string;
  /** Bytes, as the zip says. */
  readonly size: number;
}

/** The files of a zip; nothing is expanded. Throws for what is no zip. */
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

/** One file of a zip. What it takes is what the zip says of its size: look at that first. */
export const expand = (zip: Uint8Array, path: string): Uint8Array | undefined =>
  unzipSync(zip, { filter: ({ name }) => name === path })[path];

/** Text in UTF-8; `undefined` for other bytes. */
export function textOf(content: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}

/** The zip of a version's code; `null` of one without code. */
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
