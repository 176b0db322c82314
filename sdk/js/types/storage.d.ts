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
 * Writes an object or an array. With `version`, only while the document has that version, 0 being that of one that does
 * not exist; else it throws a StorageConflictError.
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
 * Writes what `change` makes of the value, which is null where there is no document. When somebody else writes in
 * between, `change` is called again with the new value.
 *
 * @param {string} namespace
 * @param {string} key
 * @param {(value: any) => object | Promise<object>} change
 * @param {{ retries?: number }} [options] 5 if not given.
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
 * Answers whether there was one.
 *
 * @param {string} namespace
 * @param {string} key
 * @returns {Promise<boolean>}
 */
declare const remove: (namespace: string, key: string) => Promise<boolean>;
export { remove as delete };
/**
 * Answers how many documents there were.
 *
 * @param {string} namespace
 * @returns {Promise<number>}
 */
export declare const deleteNamespace: (namespace: string) => Promise<number>;
