import { useQuery } from '@tanstack/react-query';
import { call, type SendOptions } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import type { Version } from './version.ts';

/** A file of a skill; records of large skills have no contents. */
interface SkillFile {
  readonly path: string;
  readonly size: number;
  readonly content?: string;
  readonly encoding?: 'base64';
  readonly sha256?: string;
}

export const skillFilesOf = ({ skill_files = [] }: Pick<Version, 'skill_files'>): readonly SkillFile[] =>
  skill_files as unknown as readonly SkillFile[];

/** Returns the files of a version with their contents; none for other agents. Throws request errors. */
export async function readSkillFiles(version: Version, options: SendOptions): Promise<readonly SkillFile[]> {
  const files = skillFilesOf(version);
  if (files.every(({ content }) => content !== undefined)) return files;
  const answer: unknown = await call('downloadOwnSkillFiles', { params: { id: version.id } }, options);
  return answer as readonly SkillFile[];
}

/** Loads the files of a version with their contents. */
export function useSkillFiles(version: Version) {
  const workspaceId = useWorkspace().id;
  return useQuery({
    queryKey: keyOf('downloadOwnSkillFiles', version.id, workspaceId),
    queryFn: ({ signal }) => readSkillFiles(version, { workspaceId, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
}

export function bytesOfSkillFile({ content = '', encoding }: SkillFile): Uint8Array {
  if (encoding === undefined) return new TextEncoder().encode(content);
  const decoded = atob(content);
  const bytes = new Uint8Array(decoded.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = decoded.charCodeAt(at);
  return bytes;
}
