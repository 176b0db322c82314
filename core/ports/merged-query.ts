import type { Item, Query, Table } from './table.ts';
import { compareUtf8, TABLE_SCHEMA } from './table-rules.ts';

/** Maximum number of items that a query reads at first, because most readers of many partitions want few items. */
const FIRST_PAGE = 8;

interface Part {
  readonly query: Query;
  items: Item[];
  cursor: string | undefined;
  isOver: boolean;
}

/**
 * Yields the items of several queries of the same index as pages of one, in the order of that index: a busy partition
 * whose sort keys only grow is never split by DynamoDB, so such items are spread over several. Items with the same sort
 * key in the index come in the order of their own sort keys. `atOnce` is how many items a reader takes at most; a page
 * may have more or fewer.
 */
export async function* mergedPages(
  table: Table,
  queries: readonly Query[],
  { atOnce, reverse = false }: { readonly atOnce: number; readonly reverse?: boolean },
): AsyncGenerator<Item[]> {
  const index = queries[0]?.index;
  const name = index === undefined ? 'sk' : TABLE_SCHEMA.indexes[index].sortKey;
  const placeOf = (item: Item): string => item[name] as string;
  const direction = reverse ? -1 : 1;
  const inOrder = (a: Item, b: Item): number =>
    direction * (compareUtf8(placeOf(a), placeOf(b)) || compareUtf8(a.sk, b.sk));
  const later = Math.min(1000, Math.max(FIRST_PAGE, Math.ceil((2 * atOnce) / queries.length)));
  const first = queries.length === 1 ? Math.min(1000, atOnce) : Math.min(FIRST_PAGE, later);
  const parts = queries.map((query): Part => ({ query, items: [], cursor: undefined, isOver: false }));
  const read = async (part: Part, limit: number): Promise<void> => {
    const page = await table.query({ ...part.query, reverse, limit, cursor: part.cursor });
    part.items.push(...page.items);
    part.cursor = page.cursor;
    part.isOver = page.cursor === undefined;
  };
  await Promise.all(parts.map((part) => read(part, first)));
  while (true) {
    const open = parts.filter(({ isOver }) => !isOver);
    // What follows in a part may still come before what the others have read beyond its last item.
    const ends = open.map(({ items }) => placeOf(items.at(-1)!));
    const bound = ends.reduce<string | undefined>(
      (least, end) => (least === undefined || direction * compareUtf8(end, least) < 0 ? end : least),
      undefined,
    );
    const isKnown = (item: Item) => bound === undefined || direction * compareUtf8(placeOf(item), bound) < 0;
    const page = parts.flatMap(({ items }) => items.filter(isKnown)).sort(inOrder);
    for (const part of parts) part.items = part.items.filter((item) => !isKnown(item));
    if (page.length > 0) yield page;
    if (open.length === 0) return;
    const isShort = ({ items }: Part) => items.length < later / 2 || placeOf(items.at(-1)!) === bound;
    await Promise.all(open.filter(isShort).map((part) => read(part, later)));
  }
}
