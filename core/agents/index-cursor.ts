import { readCursor, writeCursor } from '#core/http/cursor.ts';
import type { Item } from '#core/ports/table.ts';
import { versionKey } from './record.ts';

/** A listing in the order of the index of a workspace's versions. Cursors of one are refused by the others. */
interface IndexListing {
  readonly workspaceId: string;
  readonly name: 'latest agents' | 'current agents';
}

const listingOf = ({ workspaceId, name }: IndexListing) => [workspaceId, name];

/** Returns the cursor after the item of a version. */
export const cursorAfter = (listing: IndexListing, { gsi1sk, name, version }: Item): string =>
  writeCursor(listingOf(listing), [gsi1sk!, name!, version!]);

const INDEXED = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z#[0-9a-f-]{36}$/;

/** Returns the place of a cursor in the index, as the keys of an item. Throws INVALID_INPUT for a cursor of another listing. */
export const placeIn = (cursor: string, listing: IndexListing): Item =>
  readCursor(cursor, listingOf(listing), ([gsi1sk, name, version]) => {
    const isPlace =
      typeof gsi1sk === 'string' && INDEXED.test(gsi1sk) && typeof name === 'string' && /^[a-z0-9-]{1,50}$/.test(name);
    if (!isPlace || !Number.isSafeInteger(version) || (version as number) < 1) return undefined;
    const { workspaceId } = listing;
    return { ...versionKey({ workspaceId, name, version: version as number }), gsi1sk };
  });
