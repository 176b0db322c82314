export type Document = {
    namespace: string;
    key: string;
    value: any;
    version: number;
    size_bytes: number;
    created_at: string;
    updated_at: string;
    updated_by: string;
};
/**
 * @param {string} namespace
 * @param {string} key
 * @returns {Promise<Document | null>}
 */
export declare const get: (namespace: string, key: string) => Promise<Document | null>;
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
export declare const set: (namespace: string, key: string, value: object, { version }?: {
    version?: number;
}) => Promise<Document>;
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
export declare function update(namespace: string, key: string, change: (value: any) => object | Promise<object>, { retries }?: {
    retries?: number;
}): Promise<Document>;
/**
 * Sets these members of the document's object and keeps the others.
 *
 * @param {string} namespace
 * @param {string} key
 * @param {object} members
 * @returns {Promise<Document>}
 */
export declare const patch: (namespace: string, key: string, members: object) => Promise<Document>;
/**
 * All keys of a namespace.
 *
 * @param {string} namespace
 */
export declare function list(namespace: string): Promise<string[]>;
/** @returns {Promise<string[]>} */
export declare const namespaces: () => Promise<string[]>;
/**
 * Returns whether there was such a document.
 *
 * @param {string} namespace
 * @param {string} key
 * @returns {Promise<boolean>}
 */
declare const remove: (namespace: string, key: string) => Promise<boolean>;
export { remove as delete };
/**
 * Returns the number of deleted documents.
 *
 * @param {string} namespace
 * @returns {Promise<number>}
 */
export declare const deleteNamespace: (namespace: string) => Promise<number>;
