import { PlatformError } from '#core/base/errors.ts';
import { parseJson } from '#core/http/body.ts';
import type { Deps } from '#core/ports/deps.ts';
import { readUploads } from '../uploads/store.ts';

/** 8 MB of files as base64, with their paths. */
const MAX_UPLOAD_BYTES = 12 * 1024 ** 2;

/**
 * Replaces `skill_files_upload_id` in the body of a publish by the `skill_files` that were uploaded. Throws
 * INVALID_INPUT, NOT_FOUND, DOCUMENT_TOO_LARGE.
 */
export async function withUploadedFiles(
  deps: Pick<Deps, 'blobs' | 'clock'>,
  workspaceId: string,
  body: Readonly<Record<string, unknown>>,
): Promise<Readonly<Record<string, unknown>>> {
  const { skill_files_upload_id: id, ...rest } = body;
  if (id === undefined || id === null) return rest;
  if (typeof id !== 'string' || rest.skill_files != null) {
    const rule = typeof id === 'string' ? 'cannot be combined with skill_files' : 'must be the upload_id of an upload';
    throw new PlatformError('INVALID_INPUT', `skill_files_upload_id: ${rule}.`);
  }
  const [content] = await readUploads(deps, workspaceId, { purpose: 'bundle', ids: [id], limit: MAX_UPLOAD_BYTES });
  return { ...rest, skill_files: parseJson(content!, `The upload "${id}"`) };
}
