import type { Deps } from '#core/ports/deps.ts';
import type { Scan } from '#core/ports/scan.ts';
import { type Item, queryAll } from '#core/ports/table.ts';
import { TABLE_NAMES, type TableName } from '#core/ports/table-rules.ts';
import { type Kind, kindOf, type Partition, partitionsOf } from './kinds.ts';

export type TableDeps = Pick<Deps, 'main' | 'runs' | 'counters'> & { readonly scan: Scan };

/** Beginnings of the keys of blobs that contain the id of a workspace. */
export const ownBlobPrefixes = (workspaceId: string): string[] =>
  ['runs', 'journals', 'sessions', 'storage'].map((first) => `${first}/${workspaceId}/`);

/** An item of a workspace. */
export interface OwnItem {
  readonly table: TableName;
  readonly kind: Kind;
  readonly item: Item;
}

/**
 * Yields the items of a workspace in all tables, except those of people and of blobs. Reads the tables whole, so it costs as
 * much as the stage is large. Throws for an item of the workspace that has no kind: nothing is left behind unnoticed.
 */
export async function* ownItems(deps: TableDeps, workspaceId: string): AsyncGenerator<OwnItem> {
  const partitions = ['WS', 'IDEM', 'BUDGETS'].map((first) => `${first}#${workspaceId}`);
  const named: Partition[] = [];
  for (const table of TABLE_NAMES) {
    for await (const item of deps.scan.items(table, { partitions, workspaceId })) {
      const kind = ownKind(table, item, workspaceId);
      if (kind === undefined) continue;
      named.push(...partitionsOf(kind, item));
      yield { table, kind, item };
    }
  }
  for (const [table, pk] of new Map(named.map((each) => [each.join(' '), each])).values()) {
    for await (const item of queryAll(deps[table], { pk, limit: 1000 })) {
      const found = kindOf(table, item);
      if (found?.kind.of === 'parent') yield { table, kind: found.kind, item };
    }
  }
}

/** Returns the kind of an item of the workspace; `undefined` for items of others, and of people. */
function ownKind(table: TableName, item: Item, workspaceId: string): Kind | undefined {
  const isNamed = item.workspace_id === workspaceId;
  const found = kindOf(table, item);
  if (found === undefined) {
    if (!isNamed && item.pk.split('#')[1] !== workspaceId) return undefined;
    throw new Error(`${table}: the item ${item.pk} / ${item.sk} has no kind in core/api/moves/kinds.ts`);
  }
  const { kind, inKey } = found;
  if (kind.of === 'key') return inKey === workspaceId ? kind : undefined;
  return kind.of === 'workspace_id' && isNamed ? kind : undefined;
}
