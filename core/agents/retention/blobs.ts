import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, equals, exists, type Item, type TransactOperation } from '#core/ports/table.ts';

/**
 * Blobs of versions: bundles and layers. Each has a key of its own that is never reused, so a late deletion cannot
 * delete
 * a newer blob. Main table:
 *
 * - `BLOB#<blob key> / META`: its `holders`, versions of a bundle or workspaces of a layer. Deleted with the last
 * holder;
 * - `GARBAGE#<blob key> / META`: a blob to delete once it is due (gsi2 `GARBAGE`), because it has no holders any more
 * or
 *   not yet. A new blob is garbage until a transaction adds its first holder, so a crash in between leaks no blob.
 *
 * Blobs of version 0.1.0 have neither record and are never deleted.
 */
const holdersKey = (blob: string) => ({ pk: `BLOB#${blob}`, sk: 'META' });
const garbageKey = (blob: string) => ({ pk: `GARBAGE#${blob}`, sk: 'META' });

/** Longer than any upload or installation takes. */
const UNHELD_MS = 24 * 3600 * 1000;

export const GARBAGE_INDEX = 'GARBAGE';
export const garbageIndex = (at: number, id: string) => ({ gsi2pk: GARBAGE_INDEX, gsi2sk: `${isoTime(at)}#${id}` });

const garbageItem = (blob: string, at: number): Item => ({ ...garbageKey(blob), blob, ...garbageIndex(at, blob) });

/** Operation that makes a blob garbage, to be deleted at `at` (epoch milliseconds). */
export const discard = ({ clock }: Pick<Deps, 'clock'>, blob: string, at = clock.now()): TransactOperation => ({
  op: 'put',
  item: garbageItem(blob, at),
});

/** Announces a new blob before it is written. The blob is deleted after a day unless it has a holder by then. */
export async function announceBlob({ main, clock }: Pick<Deps, 'main' | 'clock'>, blob: string): Promise<void> {
  await main.put(garbageItem(blob, clock.now() + UNHELD_MS));
}

/** Operation that takes an announced blob off the garbage. It fails once the blob's deletion has begun. */
export const keepAnnounced = (blob: string): TransactOperation => ({
  op: 'delete',
  key: garbageKey(blob),
  condition: allOf(exists(), absent('is_deleting')),
});

/** Operations that add the first holder of an announced blob. */
export const firstHolder = (blob: string): TransactOperation[] => [
  { op: 'put', item: { ...holdersKey(blob), holders: 1 }, condition: absent() },
  keepAnnounced(blob),
];

/** Operation that adds another holder. It fails if the blob has no holders left. */
export const furtherHolder = (blob: string): TransactOperation => ({
  op: 'update',
  key: holdersKey(blob),
  changes: { add: { holders: 1 } },
  condition: exists('holders'),
});

/**
 * Operations that remove one holder of a blob; removing the last one makes the blob garbage, to be deleted at `at`.
 * They
 * fail if the blob was changed concurrently.
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

/** Deletes a garbage blob unless it got a holder in the meantime. Safe to repeat at any point. */
export async function deleteGarbage({ main, blobs }: Pick<Deps, 'main' | 'blobs'>, blob: string): Promise<void> {
  const key = garbageKey(blob);
  const marked = await main.update(key, { set: { is_deleting: true } }, exists());
  if (!marked.ok) return;
  await blobs.delete(blob);
  await main.delete(key);
}
