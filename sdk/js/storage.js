import { StorageConflictError, StorageError, StorageNotFoundError, StorageQuotaError } from './errors.js';
import * as workspace from './workspace.js';

/**
 * @typedef {object} Document A JSON document of the workspace.
 * @property {string} namespace
 * @property {string} key
 * @property {any} value
 * @property {number} version
 * @property {number} size_bytes
 * @property {string} created_at
 * @property {string} updated_at
 * @property {string} updated_by
 */

/** @type {Record<number, typeof StorageError>} */
const KINDS = { 404: StorageNotFoundError, 409: StorageConflictError, 413: StorageQuotaError, 429: StorageQuotaError };

/**
 * @param {string} method
 * @param {readonly string[]} path
 * @param {{ query?: Record<string, unknown>, body?: unknown, headers?: Record<string, string> }} [options]
 */
const request = (method, path, options) =>
  workspace.request(method, ['storage', ...path], {
    ...options,
    makeError: (message, failure) => new (KINDS[failure.status ?? 0] ?? StorageError)(message, failure),
  });

/**
 * @template T
 * @param {Promise<T>} answer
 * @param {T} otherwise The result if there is no such document.
 */
const orIfAbsent = (answer, otherwise) =>
  answer.catch((error) => {
    if (error instanceof StorageNotFoundError) return otherwise;
    throw error;
  });

/**
 * @param {string} namespace
 * @param {string} key
 * @returns {Promise<Document | null>}
 */
export const get = (namespace, key) => orIfAbsent(request('GET', [namespace, key]), null);

/**
 * Writes an object or an array. With `version`, throws a StorageConflictError unless the document has that version; a
 * document that does not exist has version 0.
 *
 * @param {string} namespace
 * @param {string} key
 * @param {object} value
 * @param {{ version?: number }} [options]
 * @returns {Promise<Document>}
 */
export const set = (namespace, key, value, { version } = {}) =>
  request('PUT', [namespace, key], {
    body: value,
    ...(version !== undefined && { headers: { 'If-Match': String(version) } }),
  });

/**
 * Writes the result of `change`, which gets the current value, or null without a document. If another process writes in
 * between, `change` is called again with the new value.
 *
 * @param {string} namespace
 * @param {string} key
 * @param {(value: any) => object | Promise<object>} change
 * @param {{ retries?: number }} [options] Default: 5.
 * @returns {Promise<Document>}
 */
export async function update(namespace, key, change, { retries = 5 } = {}) {
  for (let left = retries; ; left--) {
    const document = await get(namespace, key);
    const value = await change(document?.value ?? null);
    try {
      return await set(namespace, key, value, { version: document?.version ?? 0 });
    } catch (error) {
      if (!(error instanceof StorageConflictError) || left <= 0) throw error;
    }
  }
}

/**
 * Sets these members of the document's object and keeps the others.
 *
 * @param {string} namespace
 * @param {string} key
 * @param {object} members
 * @returns {Promise<Document>}
 */
export const patch = (namespace, key, members) => request('PATCH', [namespace, key], { body: members });

/**
 * All keys of a namespace.
 *
 * @param {string} namespace
 */
export async function list(namespace) {
  /** @type {string[]} */
  const keys = [];
  /** @type {string | undefined} */
  let cursor;
  do {
    const page = await request('GET', [namespace], { query: { cursor } });
    keys.push(...page.keys);
    cursor = page.has_more ? (page.cursor ?? undefined) : undefined;
  } while (cursor !== undefined);
  return keys;
}

/** @returns {Promise<string[]>} */
export const namespaces = async () => (await request('GET', [])).namespaces;

/**
 * Returns whether there was such a document.
 *
 * @param {string} namespace
 * @param {string} key
 * @returns {Promise<boolean>}
 */
const remove = async (namespace, key) =>
  (await orIfAbsent(request('DELETE', [namespace, key]), { deleted: false })).deleted !== false;

export { remove as delete };

/**
 * Returns the number of deleted documents.
 *
 * @param {string} namespace
 * @returns {Promise<number>}
 */
export const deleteNamespace = async (namespace) =>
  (await orIfAbsent(request('DELETE', [namespace]), { documents_deleted: 0 })).documents_deleted;
