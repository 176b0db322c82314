import { hash } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';

/** What a listing is of: a workspace, which listing, its filter. A cursor of one is none of another. */
type Listing = readonly Json[];

const digestOf = (listing: Listing): string => hash('sha256', JSON.stringify(listing), 'base64url').slice(0, 12);

/** Text for a place of a listing. It is not secret: clients can read it, and `readCursor`'s caller checks its parts. */
export const writeCursor = (listing: Listing, parts: readonly Json[]): string =>
  Buffer.from(JSON.stringify([digestOf(listing), ...parts])).toString('base64url');

/** The place that `read` makes of a cursor's parts. Throws INVALID_INPUT for a cursor of another listing, or if `read` finds no place. */
export function readCursor<Place>(
  cursor: string,
  listing: Listing,
  read: (parts: readonly unknown[]) => Place | undefined,
): Place {
  let content: unknown;
  try {
    content = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {}
  if (Array.isArray(content) && content[0] === digestOf(listing)) {
    const place = read(content.slice(1));
    if (place !== undefined) return place;
  }
  throw new PlatformError(
    'INVALID_INPUT',
    'query.cursor: is no cursor of this listing; send `next_cursor` of the page before, with the same filters.',
  );
}
