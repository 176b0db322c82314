import { call, type SendOptions } from '../api/client.ts';

/** Larger bodies are uploaded separately, because gateways accept only 4 MB. */
export const MAX_DIRECT_BYTES = 3 * 1024 * 1024;

/**
 * Uploads a file before the request that refers to it, and returns its id. Throws ApiError, or an Error with the
 * message of the store.
 */
export async function sendAhead(purpose: 'call' | 'bundle', file: File, options: SendOptions): Promise<string> {
  const { upload_id, url, fields, max_bytes } = await call('createUpload', { body: { purpose } }, options);
  if (file.size > max_bytes)
    throw new Error(`${file.name} has ${file.size} bytes, but the platform takes ${max_bytes}.`);
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  body.set('file', file);
  const response = await fetch(url, { method: 'POST', body, signal: options.signal });
  const said = await response.text();
  if (!response.ok)
    throw new Error(`The upload of ${file.name} was refused with HTTP ${response.status}: ${said.slice(0, 500)}`);
  return upload_id;
}

/** Uploads the code of a version. Throws as {@link sendAhead}. */
export async function uploadBundle(id: string, zip: Uint8Array<ArrayBuffer>, options: SendOptions) {
  const file = new File([zip], 'bundle.zip', { type: 'application/zip' });
  const params = { id };
  if (zip.byteLength > MAX_DIRECT_BYTES) {
    const upload_id = await sendAhead('bundle', file, options);
    return call('uploadBundle', { params, body: { upload_id } }, options);
  }
  const body = new FormData();
  body.set('file', file);
  return call('uploadBundle', { params, body }, options);
}

/**
 * Returns the body of a publish as it can be sent: files of a skill that are too large for a request are uploaded
 * before. Throws as {@link sendAhead}.
 */
export async function sendableBody(body: Record<string, unknown>, options: SendOptions) {
  const { skill_files, ...rest } = body;
  if (skill_files === undefined) return body;
  const file = new File([JSON.stringify(skill_files)], 'skill-files.json', { type: 'application/json' });
  if (file.size <= MAX_DIRECT_BYTES) return body;
  return { ...rest, skill_files_upload_id: await sendAhead('bundle', file, options) };
}
