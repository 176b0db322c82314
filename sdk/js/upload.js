import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorOf } from './errors.js';
import { send } from './http.js';

/**
 * Larger bodies are uploaded ahead of the request. Every gateway accepts 4 MB, but escapes quotes and backslashes of a
 * text, which doubles them.
 */
const MAX_DIRECT_BYTES = 2 * 1024 * 1024;

/** Media type of a body that names an upload as the input. */
const UPLOADED_JSON = 'application/vnd.platform.upload+json';

/** A stream of a file is read into memory, up to this size. */
const MAX_STREAM_BYTES = 1024 ** 3;

/** @typedef {{ name: string, content: Blob }} NamedFile */
/** @typedef {string | Uint8Array | Blob | AsyncIterable<Uint8Array | string>} Content */
/** @typedef {string | { name: string, content: Content } | Upload} File A path, a name and a content, or an upload. */
/** @typedef {{ body: string | FormData, headers: Record<string, string> }} Body */
/** @typedef {Pick<import('./http.js').Request, 'headers' | 'limits' | 'retries' | 'makeError'> & { url: string }} Access */

/**
 * @typedef {object} Upload A file that calls can name until it expires.
 * @property {string} uploadId
 * @property {string} name
 * @property {string | null} contentType
 * @property {string} expiresAt
 */

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
  const { uploadId } = await upload(access, { name: 'input.json', content: new Blob([text]) });
  return { body: JSON.stringify({ upload_id: uploadId }), headers: { 'Content-Type': UPLOADED_JSON } };
}

/**
 * The body of a call with these files. They are uploaded ahead if they are large together.
 *
 * @param {Access} access
 * @param {readonly File[]} given
 * @param {unknown} metadata
 * @returns {Promise<Body>}
 */
export async function formBody(access, given, metadata) {
  const form = new FormData();
  const files = await Promise.all(given.map((file) => (isUpload(file) ? file : readNamed(file))));
  const size = files.reduce((sum, file) => sum + (isUpload(file) ? 0 : file.content.size), 0);
  // The platform gives the agent the files of the form first: their order stays only if all go one way.
  if (size <= MAX_DIRECT_BYTES && !files.some(isUpload)) {
    for (const { name, content } of /** @type {NamedFile[]} */ (files)) form.append('files[]', content, name);
  } else {
    const uploads = await Promise.all(files.map((file) => (isUpload(file) ? file : upload(access, file))));
    form.append('uploads', JSON.stringify(uploads.map(partOf)));
  }
  if (metadata !== undefined) form.append('metadata', JSON.stringify(metadata));
  // fetch sets the content type of a form, with its boundary.
  return { body: form, headers: {} };
}

/**
 * @param {File | NamedFile} file
 * @returns {file is Upload}
 */
const isUpload = (file) => typeof file === 'object' && 'uploadId' in file;

/** @param {Upload} upload */
const partOf = ({ uploadId, name, contentType }) => ({
  upload_id: uploadId,
  name,
  ...(contentType && { content_type: contentType }),
});

/**
 * @param {Exclude<File, Upload>} file
 * @returns {Promise<NamedFile>}
 */
export async function readNamed(file) {
  if (typeof file === 'string') return { name: basename(file), content: new Blob([await readFile(file)]) };
  const { name, content } = file;
  if (content instanceof Blob) return { name, content };
  if (typeof content === 'string' || content instanceof Uint8Array) {
    return { name, content: new Blob([/** @type {string | Uint8Array<ArrayBuffer>} */ (content)]) };
  }
  /** @type {any[]} */
  const pieces = [];
  let size = 0;
  for await (const piece of content) {
    size += piece.length;
    if (size > MAX_STREAM_BYTES) throw new TypeError(`The stream of ${name} has more than ${MAX_STREAM_BYTES} bytes`);
    pieces.push(piece);
  }
  return { name, content: new Blob(pieces) };
}

/**
 * Uploads a file for calls.
 *
 * @param {Access} access
 * @param {NamedFile} file
 * @returns {Promise<Upload>}
 */
export async function upload({ url, headers, limits, retries, makeError = errorOf }, { name, content }) {
  const { body: form } = await send({
    method: 'POST',
    url: `${url}/uploads`,
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: '{"purpose":"call"}',
    limits,
    // A form that is not used costs nothing: it may be asked for twice.
    retries,
    makeError,
  });
  if (content.size > form.max_bytes) {
    const message = `${content.size} bytes are more than a call takes, ${form.max_bytes}`;
    throw makeError(message, { code: 'DOCUMENT_TOO_LARGE', status: 413 });
  }
  const body = new FormData();
  for (const [field, value] of Object.entries(form.fields)) body.append(field, /** @type {string} */ (value));
  body.append('file', content, 'file');
  // The form needs no key, so the platform's key is not sent. A second upload replaces the first.
  await send({ method: 'POST', url: form.url, headers: {}, body, limits, retries, makeError });
  return { uploadId: form.upload_id, name, contentType: content.type || null, expiresAt: form.expires_at };
}
