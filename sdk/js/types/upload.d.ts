export type NamedFile = {
    name: string;
    content: Blob;
};
export type Content = string | Uint8Array | Blob | AsyncIterable<Uint8Array | string>;
export type File = string | {
    name: string;
    content: Content;
} | Upload;
export type Body = {
    body: string | FormData;
    headers: Record<string, string>;
};
export type Access = Pick<import('./http.js').Request, 'headers' | 'limits' | 'retries' | 'makeError'> & {
    url: string;
};
export type Upload = {
    uploadId: string;
    name: string;
    contentType: string | null;
    expiresAt: string;
};
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
export declare function jsonBody(access: Access, input: unknown): Promise<Body>;
/**
 * The body of a call with these files. They are uploaded ahead if they are large together.
 *
 * @param {Access} access
 * @param {readonly File[]} given
 * @param {unknown} metadata
 * @returns {Promise<Body>}
 */
export declare function formBody(access: Access, given: readonly File[], metadata: unknown): Promise<Body>;
/**
 * @param {Exclude<File, Upload>} file
 * @returns {Promise<NamedFile>}
 */
export declare function readNamed(file: Exclude<File, Upload>): Promise<NamedFile>;
/**
 * Uploads a file for calls.
 *
 * @param {Access} access
 * @param {NamedFile} file
 * @returns {Promise<Upload>}
 */
export declare function upload({ url, headers, limits, retries, makeError }: Access, { name, content }: NamedFile): Promise<Upload>;
