import { INDEX_KEYS } from '#core/accounts/workspaces/moving.ts';
import type { Json } from '#core/base/json.ts';
import { allOf, type Changes, equals, exists, type Item } from '#core/ports/table.ts';
import { isWork, type Kind } from './kinds.ts';
import { type OwnItem, ownItems, type TableDeps } from './own-items.ts';

/*
 * While a workspace does not work, items that background work would find by an index are in none, and are marked as `moving`.
 * Their places in the indexes are in their attribute `parked`.
 */

/** Payments that are open belong to two workspaces, or to a provider of payments, so a move waits for them. */
const isOpenPayment = ({ gsi2pk = '' }: Item): boolean => /^(HOLDS|TOPUPS)#/.test(gsi2pk);

const waits = (kind: Kind, item: Item): boolean =>
  item.moving !== true && (kind.isMarked === true || isWork(item)) && !isOpenPayment(item);

function parkingChanges(item: Item): Changes {
  const parked: Record<string, Json> = {};
  for (const name of INDEX_KEYS) if (item[name] !== undefined) parked[name] = item[name];
  return { set: { moving: true, parked }, remove: Object.keys(parked) };
}

/** Parks one item, unless it has changed since it was read. Returns whether it is parked. */
export async function park(deps: TableDeps, { table, item }: Pick<OwnItem, 'table' | 'item'>): Promise<boolean> {
  const { pk, sk, gsi1sk, gsi2sk } = item;
  const conditions = [
    exists(),
    ...(gsi1sk === undefined ? [] : [equals('gsi1sk', gsi1sk)]),
    ...(gsi2sk === undefined ? [] : [equals('gsi2sk', gsi2sk)]),
  ];
  return (await deps[table].update({ pk, sk }, parkingChanges(item), allOf(...conditions))).ok;
}

/**
 * Parks all work of a workspace. Safe to repeat. Throws if payments are open. Returns the number of items that are parked now,
 * and of those that changed meanwhile: repeat it then.
 */
export async function parkAll(deps: TableDeps, workspaceId: string): Promise<{ parked: number; changed: number }> {
  let parked = 0;
  let changed = 0;
  let open = 0;
  for await (const own of ownItems(deps, workspaceId)) {
    if (own.kind.fate === 'drop') continue;
    if (isOpenPayment(own.item)) open += 1;
    if (!waits(own.kind, own.item)) continue;
    if (await park(deps, own)) parked += 1;
    else changed += 1;
  }
  if (open > 0) {
    throw new Error(
      `${open} payments are open: purchases of credits that are not paid yet, or paid calls that have not ended. Wait for them, or cancel the runs.`,
    );
  }
  return { parked, changed };
}

/** Puts all parked items back. Safe to repeat. Returns their number. */
export async function unparkAll(deps: TableDeps, workspaceId: string): Promise<number> {
  let count = 0;
  for await (const { table, item } of ownItems(deps, workspaceId)) {
    if (item.moving !== true) continue;
    const set = (item.parked ?? {}) as Record<string, Json>;
    const { ok } = await deps[table].update(
      { pk: item.pk, sk: item.sk },
      { set, remove: ['moving', 'parked'] },
      equals('moving', true),
    );
    if (ok) count += 1;
  }
  return count;
}
