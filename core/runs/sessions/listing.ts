import { readCursor, writeCursor } from '#core/http/cursor.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { mergedPages } from '#core/ports/merged-query.ts';
import type { Item } from '#core/ports/table.ts';
import { SESSION_ID, sessionIdIn, sessionsByTime } from './items.ts';
import { type FoundSession, SessionStore } from './store.ts';

export interface SessionFilter {
  /** `org/name`. */
  readonly agent?: string | undefined;
  readonly tenantId?: string | undefined;
}

/** Maximum number of sessions that one page reads. */
const MAX_EXAMINED = 500;
/** Sessions whose turns are read at the same time. */
const AT_ONCE = 20;

interface Place {
  readonly at: string;
  readonly id: string;
}

/**
 * Returns a page of the sessions of a workspace, the last opened first, with the newest `turns` of each. Throws INVALID_INPUT
 * for a cursor of another listing.
 */
export async function listSessions(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock'>,
  workspaceId: string,
  filter: SessionFilter,
  { limit, cursor, turns }: { readonly limit: number; readonly cursor?: string | undefined; readonly turns: number },
): Promise<{ readonly found: readonly FoundSession[]; readonly nextCursor: string | null }> {
  const listing = ['sessions', workspaceId, filter.agent ?? null, filter.tenantId ?? null];
  const after = cursor === undefined ? undefined : readCursor(cursor, listing, placeIn);
  const store = new SessionStore(deps, workspaceId);
  const queries = sessionsByTime(workspaceId).map((query) => ({
    ...query,
    ...(after && { sk: { between: ['0', after.at] as const } }),
  }));
  const found: FoundSession[] = [];
  let place: Place | undefined;
  let examined = 0;
  const cursorAt = (last: Place | undefined) => last && writeCursor(listing, [last.at, last.id]);
  for await (const page of mergedPages(deps.runs, queries, { atOnce: limit + 1, reverse: true })) {
    const items = page.filter((item) => after === undefined || isBehind(placeOf(item), after));
    for (let at = 0; at < items.length; at += AT_ONCE) {
      const batch = items.slice(at, at + AT_ONCE);
      const read = await Promise.all(
        batch.map((item) => (matches(item, filter) ? store.find(sessionIdIn(item), turns) : undefined)),
      );
      for (const [index, item] of batch.entries()) {
        if (found.length === limit || examined === MAX_EXAMINED) return { found, nextCursor: cursorAt(place) ?? null };
        examined += 1;
        place = placeOf(item);
        const session = read[index];
        if (session !== undefined) found.push(session);
      }
    }
  }
  return { found, nextCursor: null };
}

const placeOf = (item: Item): Place => ({ at: item.gsi2sk!, id: sessionIdIn(item) });

const isBehind = (place: Place, { at, id }: Place): boolean => place.at < at || (place.at === at && place.id < id);

const matches = (item: Item, { agent, tenantId }: SessionFilter): boolean =>
  (agent === undefined || `${item.agent_org}/${item.agent_name}` === agent) &&
  (tenantId === undefined || item.tenant_id === tenantId);

function placeIn([at, id]: readonly unknown[]): Place | undefined {
  if (typeof at !== 'string' || Number.isNaN(Date.parse(at)) || at !== isoTime(Date.parse(at))) return undefined;
  return typeof id === 'string' && SESSION_ID.test(id) ? { at, id } : undefined;
}
