import { type Item, queryAll, type Table } from '#core/ports/table.ts';
import { runPartition } from '#core/runs/items.ts';

/** Reads the records of all runs of a workspace, by id. */
export async function runHeads({ runs }: { readonly runs: Table }, workspaceId: string): Promise<Item[]> {
  const pages = [...'0123456789abcdef'].map((digit) =>
    Array.fromAsync(queryAll(runs, { pk: runPartition(workspaceId, digit), limit: 1000 })),
  );
  return (await Promise.all(pages)).flat();
}
