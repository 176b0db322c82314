import { hash } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';

/** Identity of a listing: workspace, kind of list, filter. A cursor is only valid for its own listing. */
type Listing = readonly Json[];

const digestOf = (listing: Listing): string => hash('sha256', JSON.stringify(listing), 'base64url').slice(0, 12);

/**
 * Encodes a position in a listing. It is not secret: clients can read it, and the caller of `readCursor` checks its
 * parts.
 */
export const writeCursor = (listing: Listing, parts: readonly Json[]): string =>
  Buffer.from(JSON.stringify([digestOf(listing), ...parts])).toString('base64url');

/**
 * Decodes a cursor with `read`. Throws INVALID_INPUT for a cursor of another listing, or if `read` returns no position.
 */
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
    'query.cursor: is not a cursor of this listing; send `next_cursor` of the previous page, with the same filters.',
  );
}
