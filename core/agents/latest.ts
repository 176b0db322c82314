import { batchesOf } from '#core/base/batches.ts';
import type { EndStatus } from '#core/base/run-kinds.ts';
import { type AgentVersion, DEPRECATION_PERIOD_MS } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Item, type Query, queryAll } from '#core/ports/table.ts';
import { planQuery } from '#core/ports/table-rules.ts';
import { standingOf } from './gates/gate.ts';
import { mayBeCurrent } from './gates/standing.ts';
import { cursorAfter, placeIn } from './index-cursor.ts';
import { partitionOf, readVersion, workspaceIndex } from './record.ts';

/** Run summary in lists of agents. */
export interface LastRun {
  readonly id: string;
  readonly workspaceId: string;
  readonly status: EndStatus;
  /** ISO 8601. */
  readonly startedAt: string;
}

/** Finds the newest ended run of the version with this id. */
export type LastRunOf = (agentId: string) => Promise<LastRun | undefined>;

/** An agent, represented by its newest live version that is no preview, even if that cannot run yet. */
export interface LatestAgent {
  readonly version: AgentVersion;
  /** Number of live versions without previews. */
  readonly versions: number;
  /** Number of the current version; undefined while no version can run. */
  readonly current: number | undefined;
  readonly lastRun: LastRun | undefined;
  /** Cursor after this agent; null for the last agent. */
  readonly nextCursor: string | null;
}

type LatestDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'config'> & { readonly lastRunOf: LastRunOf };

const DEFAULT_LIMIT = 20;
/** A page ends once its agents have this many versions in total, because the last run of each version is looked up. */
const MAX_VERSIONS = 200;
const ASKED_AT_ONCE = 25;

/**
 * Returns a page of a workspace's agents, most recently published first. Agents that have only previews are left out. An agent's position is that of its newest
 * version,
 * so a publish while a client pages moves the agent to the front. Throws INVALID_INPUT for a cursor of another listing.
 */
export async function listLatest(
  deps: LatestDeps,
  workspaceId: string,
  { limit = DEFAULT_LIMIT, cursor }: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
): Promise<LatestAgent[]> {
  const listing = { workspaceId, name: 'latest agents' } as const;
  const query = { index: 'gsi1', pk: workspaceIndex(workspaceId), reverse: true, limit: limit + 1 } satisfies Query;
  const after = cursor === undefined ? undefined : planQuery(query).cursorAfter(placeIn(cursor, listing));
  const agents: { readonly item: Item; readonly live: readonly Item[] }[] = [];
  let asked = 0;
  let hasMore = false;
  for await (const { item, live } of newestVersions(deps, workspaceId, { ...query, cursor: after })) {
    hasMore = agents.length === limit || asked >= MAX_VERSIONS;
    if (hasMore) break;
    agents.push({ item, live });
    asked += live.length;
  }
  const lastRuns = await lastRunsOf(
    deps,
    agents.flatMap(({ live }) => live),
  );
  return Promise.all(
    agents.map(async ({ item, live }, index) => ({
      version: await readVersion(deps, item),
      versions: live.length,
      current: live.findLast((each) => mayBeCurrent(standingOf(each)))?.version as number | undefined,
      lastRun: newestOf(live.map(({ id }) => lastRuns.get(id as string))),
      nextCursor: index < agents.length - 1 || hasMore ? cursorAfter(listing, item) : null,
    })),
  );
}

/**
 * Yields the items of the newest live versions in index order, each with all live versions of its agent, oldest first.
 */
async function* newestVersions({ main }: LatestDeps, workspaceId: string, query: Query) {
  const known = new Map<string, Promise<Item[]>>();
  const liveOf = (name: string): Promise<Item[]> => {
    const found = known.get(name) ?? readLive(main, workspaceId, name);
    known.set(name, found);
    return found;
  };
  let cursor = query.cursor;
  do {
    const page = await main.query({ ...query, cursor });
    const items = page.items.filter(({ deleted_at }) => deleted_at === undefined);
    const lives = await Promise.all(items.map(({ name }) => liveOf(name as string)));
    for (const [index, item] of items.entries()) {
      const live = lives[index]!;
      if (live.at(-1)?.sk === item.sk) yield { item, live };
    }
    cursor = page.cursor;
  } while (cursor !== undefined);
}

async function readLive(main: Deps['main'], workspaceId: string, name: string): Promise<Item[]> {
  const live: Item[] = [];
  const versions = queryAll(main, { pk: partitionOf(workspaceId, name), sk: { beginsWith: 'V#' } });
  for await (const { definition: _, ...item } of versions) {
    if (item.deleted_at === undefined && item.preview === undefined) live.push(item);
  }
  return live;
}

async function lastRunsOf(deps: LatestDeps, versions: readonly Item[]): Promise<Map<string, LastRun | undefined>> {
  // Runs of versions that can no longer be called have expired.
  const gone = deps.clock.now() - DEPRECATION_PERIOD_MS - (deps.config.runRetentionDays + 1) * 24 * 3600_000;
  const asked = versions.filter(
    ({ superseded_at }) => !(typeof superseded_at === 'string' && superseded_at < isoTime(gone)),
  );
  const found = new Map<string, LastRun | undefined>();
  for (const batch of batchesOf(asked, ASKED_AT_ONCE)) {
    await Promise.all(batch.map(async ({ id }) => found.set(id as string, await deps.lastRunOf(id as string))));
  }
  return found;
}

const newestOf = (runs: readonly (LastRun | undefined)[]): LastRun | undefined =>
  runs.reduce(
    (newest, run) => (run && (newest === undefined || run.startedAt > newest.startedAt) ? run : newest),
    undefined,
  );
