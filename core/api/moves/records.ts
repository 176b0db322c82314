import type { Json } from '#core/base/json.ts';
import type { Item } from '#core/ports/table.ts';
import type { TableName } from '#core/ports/table-rules.ts';
import { type Archive, type Manifest, RECORDS } from './archive.ts';

/** A member of the workspace, as a user of the other cell. */
export interface PersonRecord {
  readonly is: 'person';
  /** Item `USER#<id> / META`. */
  readonly user: Item;
  readonly role: string;
  readonly acceptedAt: string;
  readonly messagesSeenAt?: string;
  /** Name of the personal workspace that the other cell creates, unless it has moved there or moves now. */
  readonly personal: { readonly slug: string; readonly name: string };
  /** Items of keys that move: of this workspace only, or of a user whose personal workspace it is. */
  readonly keys: readonly Item[];
}

/** A part of an export. */
export type MoveRecord =
  | { readonly is: 'item'; readonly table: TableName; readonly item: Item }
  /** `key` is the data key in the item, in base64. @default table - `runs` */
  | { readonly is: 'order'; readonly table?: TableName; readonly item: Item; readonly key: string }
  | PersonRecord
  | { readonly is: 'secret'; readonly vault: 'secrets' | 'signing'; readonly name: string; readonly value: string }
  /** A blob, in a file of the archive, and the number of versions or workspaces that hold it. */
  | { readonly is: 'blob'; readonly key: string; readonly file: string; readonly holders?: number };

const RECORDS_A_FRAME = 200;
const FRAME_BYTES = 4 * 1024 ** 2;

/** Writes all records. Returns their number. */
export async function writeRecords(archive: Archive, id: string, records: AsyncIterable<MoveRecord>): Promise<number> {
  let count = 0;
  async function* frames(): AsyncGenerator<Uint8Array> {
    let texts: string[] = [];
    let bytes = 0;
    const frame = () => Buffer.from(`[${texts.join(',')}]`);
    for await (const record of records) {
      const text = JSON.stringify(record);
      texts.push(text);
      bytes += text.length;
      count += 1;
      if (texts.length < RECORDS_A_FRAME && bytes < FRAME_BYTES) continue;
      yield frame();
      texts = [];
      bytes = 0;
    }
    if (texts.length > 0) yield frame();
  }
  await archive.write(id, RECORDS, frames());
  return count;
}

/** Yields all records. Throws `ArchiveError`. */
export async function* readRecords(archive: Archive, { id }: Pick<Manifest, 'id'>): AsyncGenerator<MoveRecord> {
  for await (const frame of archive.read(id, RECORDS)) {
    if (frame.byteLength > 0) yield* JSON.parse(frame.toString()) as Json as unknown as MoveRecord[];
  }
}
