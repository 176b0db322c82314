import { isInstallation } from '#core/base/run-kinds.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Item, type Key, queryAll } from '#core/ports/table.ts';
import { headKey, hexOf } from '../items.ts';
import type { EndedRun } from '../usage/ended-run.ts';

/*
 * Runs table: `AGENT_RUNS#<agent id> / <second>#<batch>` lists ended runs of an agent version that started in this second,
 * from all workspaces: `w:<workspace id>` has the millisecond and the id of each run. The consumer of the feed
 * of ended runs writes one item for all of a batch, so a busy agent costs few writes. A run may be in two items.
 */
const partitionOf = (agentId: string): string => `AGENT_RUNS#${agentId}`;
/** `2035-06-15T12:30:00`. */
const SECOND_LENGTH = 19;
const WORKSPACE = 'w:';
const MAX_RUNS_IN_ITEM = 1000;
const PAGE_SIZE = 20;

/** Returns the items that list these runs. `batch` is a name that no other batch has. */
export function listItems(runs: readonly EndedRun[], batch: string): Item[] {
  const listed = runs.filter(({ run }) => !isInstallation(run));
  const bySecond = Map.groupBy(listed, ({ run }) => `${run.agentId} ${isoTime(run.startedAt).slice(0, SECOND_LENGTH)}`);
  return [...bySecond.values()].flatMap((all) =>
    Array.from({ length: Math.ceil(all.length / MAX_RUNS_IN_ITEM) }, (_, part) =>
      listItem(all.slice(part * MAX_RUNS_IN_ITEM, (part + 1) * MAX_RUNS_IN_ITEM), `${batch}.${part}`),
    ),
  );
}

function listItem(runs: readonly EndedRun[], batch: string): Item {
  const { agentId, startedAt } = runs[0]!.run;
  const item: Item = {
    pk: partitionOf(agentId),
    sk: `${isoTime(startedAt).slice(0, SECOND_LENGTH)}#${batch}`,
    ttl: Math.max(...runs.map(({ ttl }) => ttl)),
  };
  for (const [workspaceId, own] of Map.groupBy(runs, (each) => each.workspaceId)) {
    item[`${WORKSPACE}${workspaceId}`] = own.map(
      ({ run }) => `${String(run.startedAt % 1000).padStart(3, '0')}${hexOf(run.id)}`,
    );
  }
  return item;
}

/** Returns the heads' keys of at least `limit` ended runs that started before a time (ISO 8601), newest first. */
export async function keysOfEnded(
  { runs }: Pick<Deps, 'runs'>,
  agentId: string,
  { limit, before }: { readonly limit: number; readonly before?: string },
): Promise<Key[]> {
  const sk = before === undefined ? {} : { sk: { lessThan: `${before.slice(0, SECOND_LENGTH)}~` } };
  const found = new Map<string, Key>();
  let second = '';
  const query = { pk: partitionOf(agentId), ...sk, reverse: true, limit: Math.min(limit, PAGE_SIZE) };
  for await (const item of queryAll(runs, query)) {
    const itsSecond = item.sk.slice(0, SECOND_LENGTH);
    // Within a second the items have no order.
    if (itsSecond !== second && found.size >= limit) break;
    second = itsSecond;
    for (const { at, workspaceId, hex } of entriesOf(item)) {
      if (before === undefined || at < before) found.set(`${at}${hex}`, headKey(workspaceId, hex));
    }
  }
  return [...found].sort(([a], [b]) => (a < b ? 1 : -1)).map(([, key]) => key);
}

function* entriesOf({ sk, ...attributes }: Item) {
  for (const [name, runs] of Object.entries(attributes)) {
    if (!name.startsWith(WORKSPACE)) continue;
    const workspaceId = name.slice(WORKSPACE.length);
    for (const run of runs as string[]) {
      yield { at: `${sk.slice(0, SECOND_LENGTH)}.${run.slice(0, 3)}Z`, hex: run.slice(3), workspaceId };
    }
  }
}
