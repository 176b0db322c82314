import type { Client } from '#core/api/client.ts';

/** Larger content is uploaded separately before the request, because gateways accept 4 MB. */
const MAX_DIRECT_BYTES = 3 * 1024 * 1024;

/** Called with the number of bytes sent, from 0 to `allBytes`. */
export type OnUpload = (sentBytes: number, allBytes: number) => void;

/** Uploads the code of a version. Throws `ApiError`, and Error if the bundle is too large or its upload fails. */
export async function uploadBundle(
  client: Client,
  agentId: string,
  zip: Uint8Array,
  onUpload: OnUpload = () => {},
): ReturnType<Client['uploadBundle']> {
  const params = { id: agentId };
  const file = new MeasuredFile(zip, (sent) => onUpload(sent, zip.byteLength));
  if (zip.byteLength > MAX_DIRECT_BYTES) {
    return client.uploadBundle({ params, body: { upload_id: await upload(client, file, 'bundle is') } });
  }
  const body = new FormData();
  body.set('file', file);
  return client.uploadBundle({ params, body });
}

/**
 * Returns the body of a publish as it can be sent: files of a skill that are too large for a request are uploaded before
 * it. Throws `ApiError`, and Error if they are too large or their upload fails.
 */
export async function sendableBody<T extends Record<string, unknown>>(
  client: Pick<Client, 'createUpload'>,
  body: T,
): Promise<T | (Omit<T, 'skill_files'> & { readonly skill_files_upload_id: string })> {
  const { skill_files, ...rest } = body;
  if (skill_files === undefined) return body;
  const file = new File([JSON.stringify(skill_files)], 'skill-files.json', { type: 'application/json' });
  if (file.size <= MAX_DIRECT_BYTES) return body;
  return { ...rest, skill_files_upload_id: await upload(client, file, "skill's files are") };
}

/** Uploads a file apart from the request that names it, and returns the `upload_id`. */
async function upload(client: Pick<Client, 'createUpload'>, file: File, what: string): Promise<string> {
  const { upload_id, url, fields, max_bytes } = await client.createUpload({ body: { purpose: 'bundle' } });
  if (file.size > max_bytes) {
    throw new Error(`The ${what} too large: ${file.size} bytes; the platform accepts ${max_bytes}.`);
  }
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  body.set('file', file);
  const response = await fetch(url, { method: 'POST', body });
  const said = await response.text();
  if (!response.ok) throw new Error(`The upload failed with HTTP ${response.status}: ${said.slice(0, 500)}`);
  return upload_id;
}

/**
 * A file that reports upload progress: Node's `fetch` reads only as much as it sends, and reports no progress itself.
 */
class MeasuredFile extends File {
  readonly #parts: () => AsyncGenerator<Uint8Array<ArrayBuffer>>;

  constructor(zip: Uint8Array, onTake: (bytes: number) => void) {
    const content = zip as Uint8Array<ArrayBuffer>;
    super([content], 'bundle.zip', { type: 'application/zip' });
    this.#parts = async function* () {
      for (let taken = 0; taken < content.byteLength; taken += PART_BYTES) {
        onTake(taken);
        yield content.subarray(taken, taken + PART_BYTES);
      }
      onTake(content.byteLength);
    };
  }

  override stream(): ReturnType<File['stream']> {
    return ReadableStream.from(this.#parts());
  }
}
const PART_BYTES = 64 * 1024;
