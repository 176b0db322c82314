import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getAll, type Item, type Query, type Table } from '#core/ports/table.ts';
import { planQuery } from '#core/ports/table-rules.ts';
import { cursorAfter, placeIn } from './index-cursor.ts';
import { type Head, headKey, readVersion, workspaceIndex } from './record.ts';

/** An agent in its current version, or in its newest one if none can run. */
export interface CurrentAgent {
  readonly version: AgentVersion;
  /** Whether `latest` names this version. */
  readonly isCurrent: boolean;
}

interface CurrentPage {
  /** At most as many as were asked for; a page may have none even if others follow. */
  readonly agents: readonly CurrentAgent[];
  /** Absent on the last page. */
  readonly nextCursor?: string;
}

/** A page looks through so many versions: agents may have thousands. */
const MAX_LOOKED_AT = 1_000;

/**
 * Returns a page of a workspace's agents, the last published first. Unlike `listLatest`, which asks for the versions of each agent,
 * it reads the table twice for each `limit` versions. Throws INVALID_INPUT for a cursor of another listing.
 *
 * @param page `limit` is at most 100.
 */
export async function listCurrent(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock'>,
  workspaceId: string,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): Promise<CurrentPage> {
  const listing = { workspaceId, name: 'current agents' } as const;
  const query = { index: 'gsi1', pk: workspaceIndex(workspaceId), reverse: true, limit } satisfies Query;
  let after = cursor === undefined ? undefined : planQuery(query).cursorAfter(placeIn(cursor, listing));
  const found: Shown[] = [];
  let lookedAt = 0;
  for (;;) {
    const page = await deps.main.query({ ...query, cursor: after });
    const shown = await shownOf(deps.main, workspaceId, page.items);
    found.push(...shown.slice(0, limit - found.length));
    lookedAt += page.items.length;
    after = page.cursor;
    const last = found.length === limit ? found.at(-1)!.item : page.items.at(-1);
    const isEnd = after === undefined && last === page.items.at(-1);
    if (!isEnd && found.length < limit && lookedAt < MAX_LOOKED_AT) continue;
    const agents = found.map(async ({ item, isCurrent }) => ({ version: await readVersion(deps, item), isCurrent }));
    return { agents: await Promise.all(agents), ...(!isEnd && { nextCursor: cursorAfter(listing, last!) }) };
  }
}

interface Shown {
  readonly item: Item;
  readonly isCurrent: boolean;
}

/** Returns the items, of some versions, that stand for their agents. */
async function shownOf(main: Table, workspaceId: string, items: readonly Item[]): Promise<Shown[]> {
  const live = items.filter(({ deleted_at }) => deleted_at === undefined);
  const names = [...new Set(live.map(({ name }) => name as string))];
  const keys = names.map((name) => headKey(workspaceId, name));
  const heads = new Map(
    (await getAll(main, keys)).map((head, index) => [names[index], head as Partial<Head> | undefined]),
  );
  return live.flatMap((item) => {
    const { current = 0, assigned = 0 } = heads.get(item.name as string) ?? {};
    return item.version === (current || assigned) ? [{ item, isCurrent: current > 0 }] : [];
  });
}
