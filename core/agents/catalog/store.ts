import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { standingOf } from '../gates/gate.ts';
import { mayBeCurrent } from '../gates/standing.ts';
import { PUBLIC_INDEX, readVersion } from '../record.ts';

const PAGE_SIZE = 200;
/** Listing needs no key, so the number of reads per request is limited. */
const MAX_READ = 2000;

/**
 * Yields the newest public version of each agent in all workspaces that may be current, most recent publication first, among
 * the newest 2,000 versions. Reads one page at a time, so the consumer should stop once it has enough.
 */
export async function* listPublicAgents(deps: Pick<Deps, 'main' | 'blobs' | 'clock'>): AsyncGenerator<AgentVersion> {
  const seen = new Set<string>();
  let read = 0;
  const newestFirst = { index: 'gsi2', pk: PUBLIC_INDEX, reverse: true, limit: PAGE_SIZE } as const;
  for await (const item of queryAll(deps.main, newestFirst)) {
    const agent = `${item.workspace_id}/${item.name}`;
    if (mayBeCurrent(standingOf(item)) && item.deleted_at === undefined && !seen.has(agent)) {
      seen.add(agent);
      yield await readVersion(deps, item);
    }
    if (++read === MAX_READ) return;
  }
}
