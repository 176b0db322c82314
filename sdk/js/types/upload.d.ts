export type NamedFile = {
    name: string;
    content: Blob;
};
export type Body = {
    body: string | FormData;
    headers: Record<string, string>;
};
export type Access = Pick<import('./http.js').Request, 'headers' | 'signal' | 'makeError'> & {
    url: string;
};
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
export declare function jsonBody(access: Access, input: unknown): Promise<Body>;
/**
 * The body of a call with these files. They are uploaded ahead if they are large together.
 *
 * @param {Access} access
 * @param {readonly NamedFile[]} files
 * @param {unknown} metadata
 * @returns {Promise<Body>}
 */
export declare function formBody(access: Access, files: readonly NamedFile[], metadata: unknown): Promise<Body>;
