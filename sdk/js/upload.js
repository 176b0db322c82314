import { PlatformError } from './errors.js';
import { open, send } from './http.js';

/**
 * Larger bodies are uploaded ahead of the request. Every gateway accepts 4 MB, but escapes quotes and backslashes of a
 * text, which doubles them.
 */
const MAX_DIRECT_BYTES = 2 * 1024 * 1024;

/** Media type of a body that names an upload as the input. */
const UPLOADED_JSON = 'application/vnd.platform.upload+json';

/** @typedef {{ name: string, content: Blob }} NamedFile */
/** @typedef {{ body: string | FormData, headers: Record<string, string> }} Body */
/** @typedef {Pick<import('./http.js').Request, 'headers' | 'signal' | 'makeError'> & { url: string }} Access */

/**
 * The body of a call with this input. A large input is uploaded ahead.
 *
 * @param {Access} access The platform's address, and the headers with the key.
 * @param {unknown} input
 * @returns {Promise<Body>}
 */
export async function jsonBody(access, input) {
  const text = JSON.stringify(input);
  // A character has at most three bytes: most texts need not be measured.
  if (text.length * 3 <= MAX_DIRECT_BYTES || new Blob([text]).size <= MAX_DIRECT_BYTES) {
    return { body: text, headers: { 'Content-Type': 'application/json' } };
  }
  const reference = { upload_id: await upload(access, new Blob([text])) };
  return { body: JSON.stringify(reference), headers: { 'Content-Type': UPLOADED_JSON } };
}

/**
 * The body of a call with these files. They are uploaded ahead if they are large together.
 *
 * @param {Access} access
 * @param {readonly NamedFile[]} files
 * @param {unknown} metadata
 * @returns {Promise<Body>}
 */
export async function formBody(access, files, metadata) {
  const form = new FormData();
  if (files.reduce((sum, { content }) => sum + content.size, 0) <= MAX_DIRECT_BYTES) {
    for (const { name, content } of files) form.append('files[]', content, name);
  } else {
    const uploads = await Promise.all(
      files.map(async ({ name, content }) => ({
        upload_id: await upload(access, content),
        name,
        ...(content.type && { content_type: content.type }),
      })),
    );
    form.append('uploads', JSON.stringify(uploads));
  }
  if (metadata !== undefined) form.append('metadata', JSON.stringify(metadata));
  // fetch sets the content type of a form, with its boundary.
  return { body: form, headers: {} };
}

/**
 * @param {Access} access
 * @param {Blob} content
 * @returns {Promise<string>} Its upload_id.
 */
async function upload({ url, headers, signal, makeError }, content) {
  const { body: form } = await send({
    method: 'POST',
    url: `${url}/uploads`,
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: '{"purpose":"call"}',
    signal,
    makeError,
  });
  if (content.size > form.max_bytes) {
    /** @type {[string, import('./errors.js').Failure]} */
    const failure = [
      `${content.size} bytes are more than a call takes, ${form.max_bytes}`,
      { code: 'DOCUMENT_TOO_LARGE', status: 413 },
    ];
    throw makeError?.(...failure) ?? new PlatformError(...failure);
  }
  const body = new FormData();
  for (const [name, value] of Object.entries(form.fields)) body.append(name, /** @type {string} */ (value));
  body.append('file', content, 'file');
  // The form needs no key, so the platform's key is not sent.
  await open({ method: 'POST', url: form.url, headers: {}, body, signal, makeError });
  return form.upload_id;
}
