import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { PUBLIC_INDEX, readVersion } from '../record.ts';
import type { AgentVersion } from '../version.ts';

/** Every runnable public version of all workspaces, newest first. */
export async function* listPublicVersions(deps: Pick<Deps, 'main' | 'blobs'>): AsyncGenerator<AgentVersion> {
  for await (const item of queryAll(deps.main, { index: 'gsi2', pk: PUBLIC_INDEX, reverse: true, limit: 1000 })) {
    if (item.runnable === true && item.deleted_at === undefined) yield readVersion(deps, item);
  }
}
