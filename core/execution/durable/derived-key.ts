import { hkdfSync } from 'node:crypto';
import type { Deps } from '#core/ports/deps.ts';
import { orderKey } from '#core/runs/items.ts';

/**
 * Returns a key of 32 bytes of a durable run for one purpose, the same in every process. `undefined` for a run without an
 * order: it is not durable, it belongs to another workspace, or it ended more than a day ago.
 */
export async function derivedKey(
  { runs, vault }: Pick<Deps, 'runs' | 'vault'>,
  { workspaceId, runId }: { readonly workspaceId: string; readonly runId: string },
  purpose: string,
): Promise<Uint8Array | undefined> {
  const sealed = (await runs.get(orderKey(workspaceId, runId)))?.sealed_key;
  if (sealed === undefined) return undefined;
  const key = await vault.openDataKey(workspaceId, sealed as string);
  return new Uint8Array(hkdfSync('sha256', key, runId, purpose, 32));
}
