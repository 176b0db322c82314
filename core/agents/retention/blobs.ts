import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, equals, exists, type Item, type TransactOperation } from '#core/ports/table.ts';

/**
 * Blobs of versions: bundles and layers. Each has a key of its own, never used again, so that a deletion that comes late
 * deletes nothing that came after it. Main table:
 *
 * - `BLOB#<blob key> / META`: its `holders`, versions of a bundle, workspaces of a layer. It ends with the last one;
 * - `GARBAGE#<blob key> / META`: a blob to delete once it is due (gsi2 `GARBAGE`): without holders any more, or not yet. A
 *   new blob is garbage until the transaction that makes it held, so a process that dies in between leaves none for ever.
 *
 * Blobs of version 0.1.0 have neither record and stay.
 */
const holdersKey = (blob: string) => ({ pk: `BLOB#${blob}`, sk: 'META' });
const garbageKey = (blob: string) => ({ pk: `GARBAGE#${blob}`, sk: 'META' });

/** Longer than any upload or installation takes. */
const UNHELD_MS = 24 * 3600 * 1000;

export const GARBAGE_INDEX = 'GARBAGE';
export const garbageIndex = (at: number, id: string) => ({ gsi2pk: GARBAGE_INDEX, gsi2sk: `${isoTime(at)}#${id}` });

const garbageItem = (blob: string, at: number): Item => ({ ...garbageKey(blob), blob, ...garbageIndex(at, blob) });

/** Makes a blob garbage, to be deleted at `at`: epoch milliseconds. */
export const discard = ({ clock }: Pick<Deps, 'clock'>, blob: string, at = clock.now()): TransactOperation => ({
  op: 'put',
  item: garbageItem(blob, at),
});

/** Announces a new blob, before it is written: unless it is held within a day, it is deleted. */
export async function announceBlob({ main, clock }: Pick<Deps, 'main' | 'clock'>, blob: string): Promise<void> {
  await main.put(garbageItem(blob, clock.now() + UNHELD_MS));
}

/** The write by which an announced blob is garbage no more. It fails once its deletion has begun. */
export const keepAnnounced = (blob: string): TransactOperation => ({
  op: 'delete',
  key: garbageKey(blob),
  condition: allOf(exists(), absent('is_deleting')),
});

/** The writes of the first holder of an announced blob. */
export const firstHolder = (blob: string): TransactOperation[] => [
  { op: 'put', item: { ...holdersKey(blob), holders: 1 }, condition: absent() },
  keepAnnounced(blob),
];

/** The write of one more holder. It fails if there is none any more. */
export const furtherHolder = (blob: string): TransactOperation => ({
  op: 'update',
  key: holdersKey(blob),
  changes: { add: { holders: 1 } },
  condition: exists('holders'),
});

/**
 * The writes by which one holder lets a blob go; the last one makes it garbage, to be deleted at `at`. They fail after
 * another change.
 */
export async function releaseHolder(
  deps: Pick<Deps, 'main' | 'clock'>,
  blob: string | undefined,
  at?: number,
): Promise<TransactOperation[]> {
  if (blob === undefined) return [];
  const key = holdersKey(blob);
  const holders = (await deps.main.get(key))?.holders as number | undefined;
  if (holders === undefined) return [];
  const condition = equals('holders', holders);
  if (holders > 1) return [{ op: 'update', key, changes: { add: { holders: -1 } }, condition }];
  return [{ op: 'delete', key, condition }, discard(deps, blob, at)];
}

/** Deletes a blob that is garbage, unless it was held meanwhile. Safe to repeat at any point. */
export async function deleteGarbage({ main, blobs }: Pick<Deps, 'main' | 'blobs'>, blob: string): Promise<void> {
  const key = garbageKey(blob);
  const marked = await main.update(key, { set: { is_deleting: true } }, exists());
  if (!marked.ok) return;
  await blobs.delete(blob);
  await main.delete(key);
}
