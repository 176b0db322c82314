/**
 * Every row of a listing, page by page. Listings continue by a cursor, in the answer or in the last row, or by an offset.
 *
 * @param {(query: Record<string, unknown>) => Promise<any>} getPage
 * @param {Record<string, unknown>} query
 * @returns {AsyncGenerator<any, void, void>}
 */
export declare function rowsOf(getPage: (query: Record<string, unknown>) => Promise<any>, query: Record<string, unknown>): AsyncGenerator<any, void, void>;
