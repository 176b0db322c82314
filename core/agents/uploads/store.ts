import { reserveUpload } from '#core/accounts/resources/waiting-uploads.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';

/**
 * Blobs: `uploads/<workspace id>/<purpose>/<upload id>`. The id contains the expiry time, so an upload needs no record
 * besides its blob. Workspace and purpose come from the key, so an id cannot change them.
 */
const keyOf = (workspaceId: string, purpose: UploadPurpose, id: string): string =>
  `${FOLDER}${workspaceId}/${purpose}/${id}`;

export type UploadPurpose = 'call' | 'bundle';

const FOLDER = 'uploads/';
const ID = /^upl_(\d{10})_[0-9a-f]{32}$/;
/** Enough for 25 MB on a slow connection, and for retries of the request that names the upload. */
const LIFETIME_SECONDS = 3600;

/**
 * Creates an upload of the workspace and the form for its content. Throws RATE_LIMITED if the pending uploads already
 * reach
 * the limit of the plan.
 */
export async function createUpload(
  deps: Pick<Deps, 'uploadForms' | 'counters' | 'ids' | 'clock' | 'config'>,
  workspace: Workspace,
  purpose: UploadPurpose,
) {
  const { uploadForms, ids, clock, config } = deps;
  const expires = epochSeconds(clock.now()) + LIFETIME_SECONDS;
  const id = `upl_${expires}_${Buffer.from(ids.randomBytes(16)).toString('hex')}`;
  const allowed = planOf(deps, workspace).upload_bytes ?? Number.POSITIVE_INFINITY;
  const maxBytes = Math.min(purpose === 'bundle' ? config.maxBundleBytes : config.maxCallBodyBytes, allowed);
  const key = keyOf(workspace.id, purpose, id);
  await reserveUpload(deps, workspace, { bytes: maxBytes, expiresAt: expires * 1000 });
  const { url, fields } = await uploadForms.create({ key, maxBytes, expiresAt: expires * 1000 });
  return { upload_id: id, url, fields: { ...fields }, max_bytes: maxBytes, expires_at: isoTime(expires * 1000) };
}

/**
 * Reads the contents of a workspace's uploads for `purpose`, in the order of `ids`. Throws INVALID_INPUT for a
 * malformed id,
 * NOT_FOUND, and DOCUMENT_TOO_LARGE as soon as the contents together exceed `limit` bytes.
 */
export async function readUploads(
  { blobs, clock }: Pick<Deps, 'blobs' | 'clock'>,
  workspaceId: string,
  {
    purpose,
    ids,
    limit,
    taken = 0,
  }: {
    readonly purpose: UploadPurpose;
    readonly ids: readonly string[];
    readonly limit: number;
    /** Bytes of the limit that the request itself uses. @default 0 */
    readonly taken?: number;
  },
): Promise<Uint8Array[]> {
  let room = limit - taken;
  return Promise.all(
    ids.map(async (id) => {
      const expires = ID.exec(id)?.[1];
      if (expires === undefined) {
        throw new PlatformError(
          'INVALID_INPUT',
          `"${id.slice(0, 80)}" is not an upload_id: POST /uploads returns one.`,
        );
      }
      const isOver = Number(expires) <= epochSeconds(clock.now());
      const content = isOver ? undefined : await blobs.stream(keyOf(workspaceId, purpose, id));
      if (content === undefined) throw notThere(id, purpose, isOver);
      const chunks: Uint8Array[] = [];
      for await (const chunk of content) {
        room -= chunk.byteLength;
        if (room < 0) throw tooLarge(limit);
        chunks.push(chunk);
      }
      return Buffer.concat(chunks);
    }),
  );
}

/** Deletes expired uploads on hosts whose storage does not expire them. */
export async function purgeUploads({ blobs, clock }: Pick<Deps, 'blobs' | 'clock'>): Promise<void> {
  const now = epochSeconds(clock.now());
  for await (const key of blobs.list(FOLDER)) {
    const expires = ID.exec(key.split('/').at(-1)!)?.[1];
    if (Number(expires) <= now) await blobs.delete(key);
  }
}

const notThere = (id: string, purpose: UploadPurpose, isOver: boolean): PlatformError =>
  new PlatformError(
    'NOT_FOUND',
    isOver
      ? `The upload "${id}" has expired.`
      : `There is no upload "${id}" for a ${purpose} in this workspace, or nothing was uploaded to it yet.`,
    { hint: 'Get a form with POST /uploads, upload with it, then name its upload_id within the hour (docs/calls.md).' },
  );

const tooLarge = (limit: number): PlatformError =>
  new PlatformError(
    'DOCUMENT_TOO_LARGE',
    `The request has more than ${Math.floor(limit / 1024 ** 2)} MB with its uploads, which is the maximum.`,
  );
