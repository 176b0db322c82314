import type { Client } from '#core/api/client.ts';

/** Larger bundles are uploaded ahead of the request: gateways accept 4 MB. */
const MAX_DIRECT_BYTES = 3 * 1024 * 1024;

/** Uploads the code of a version. Throws `ApiError`, and Error if the bundle is too large or its upload is refused. */
export async function uploadBundle(
  client: Client,
  agentId: string,
  zip: Uint8Array,
): ReturnType<Client['uploadBundle']> {
  const params = { id: agentId };
  const file = new Blob([zip as Uint8Array<ArrayBuffer>], { type: 'application/zip' });
  const body = new FormData();
  if (zip.byteLength <= MAX_DIRECT_BYTES) {
    body.set('file', file, 'bundle.zip');
    return client.uploadBundle({ params, body });
  }
  const { upload_id, url, fields, max_bytes } = await client.createUpload({ body: { purpose: 'bundle' } });
  if (zip.byteLength > max_bytes) {
    throw new Error(`The bundle has ${zip.byteLength} bytes, but the platform takes ${max_bytes}.`);
  }
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  body.set('file', file, 'bundle.zip');
  const response = await fetch(url, { method: 'POST', body });
  const said = await response.text();
  if (!response.ok) throw new Error(`The upload was refused with HTTP ${response.status}: ${said.slice(0, 500)}`);
  return client.uploadBundle({ params, body: { upload_id } });
}
