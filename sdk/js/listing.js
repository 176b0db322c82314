/**
 * Every row of a listing, page by page. Listings continue by a cursor, in the answer or in the last row, or by an offset.
 *
 * @param {(query: Record<string, unknown>) => Promise<any>} getPage
 * @param {Record<string, unknown>} query
 * @returns {AsyncGenerator<any, void, void>}
 */
export async function* rowsOf(getPage, query) {
  let offset = Number(query.offset ?? 0);
  let position = {};
  let previous = '';
  while (true) {
    const page = await getPage({ ...query, ...position });
    /** @type {any[]} */
    const rows = Array.isArray(page) ? page : (Object.values(page ?? {}).find(Array.isArray) ?? []);
    // An address without pages answers the same rows again.
    const text = JSON.stringify(rows);
    if (rows.length === 0 || text === previous) return;
    previous = text;
    yield* rows;
    const holder = Array.isArray(page) ? rows.at(-1) : page;
    const cursor = holder?.next_cursor ?? (holder?.has_more ? holder.cursor : undefined);
    const hasCursor = Object.hasOwn(Object(holder), 'next_cursor') || Object.hasOwn(Object(page), 'has_more');
    offset += rows.length;
    if (cursor) position = { cursor, offset: undefined };
    else if (hasCursor || offset >= (page.total ?? Number.POSITIVE_INFINITY)) return;
    else position = { offset };
  }
}
