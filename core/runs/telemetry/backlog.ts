import { batchesOf } from '#core/base/batches.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { FeedRecord } from '#core/ports/feed.ts';
import type { OperatorTelemetry } from '#core/ports/operator-telemetry.ts';
import { type Item, type Key, queryAll } from '#core/ports/table.ts';
import { runIdOf, workspaceIdOf } from '../items.ts';
import { spanOfRun } from './span-ids.ts';

/*
 * Runs table: `WS#<workspace id>#TELEMETRY / <sequence>#<shard>#<part>` names ended runs whose spans are not sent yet. One
 * item holds all runs of a workspace in a batch of the feed: an export costs a run no item of its own. A batch that comes
 * again writes the same item, or one with some of the same runs. `OPERATOR#TELEMETRY / ...` has runs of all workspaces, each
 * with its workspace, for the collector of the operator.
 */
export const backlogPartition = (workspaceId: string): string => `WS#${workspaceId}#TELEMETRY`;

/** How long spans wait for a collector. What it missed for longer is not sent. */
export const KEPT_SECONDS = 24 * 3600;
/** Keeps an item below 32 KB. */
const MAX_RUNS = 800;

/** Runs that wait to be sent. */
export interface BacklogEntry {
  readonly key: Key;
  readonly runs: readonly WaitingRun[];
}
interface WaitingRun {
  readonly workspaceId: string;
  readonly runId: string;
}

/** Partition of the runs of all workspaces, for the collector of the operator. */
export const OPERATOR_PARTITION = 'OPERATOR#TELEMETRY';

/** Notes the ended runs of a batch whose spans are to be sent. Costs nothing if there are none. */
export async function noteForExport(
  { runs, clock, operatorTelemetry }: Pick<Deps, 'runs' | 'clock' | 'operatorTelemetry'>,
  shard: string,
  records: readonly FeedRecord[],
): Promise<void> {
  const ttl = epochSeconds(clock.now()) + KEPT_SECONDS;
  const itemsOf = (pk: string, own: readonly FeedRecord[], nameOf: (item: Item) => string): Item[] =>
    [...batchesOf(own, MAX_RUNS)].map((batch, part) => {
      const sk = `${batch[0]!.sequence}#${shard}#${part}`;
      return { pk, sk, runs: batch.map(({ item }) => nameOf(item)), ttl };
    });
  const exported = records.filter(({ item }) => item.telemetry === true);
  const sampled = operatorTelemetry ? records.filter(({ item }) => isSampled(operatorTelemetry, item)) : [];
  const items = [
    ...[...Map.groupBy(exported, ({ item }) => workspaceIdOf(item))].flatMap(([workspaceId, own]) =>
      itemsOf(backlogPartition(workspaceId), own, ({ sk }) => sk),
    ),
    ...itemsOf(OPERATOR_PARTITION, sampled, (item) => `${workspaceIdOf(item)}#${item.sk}`),
  ];
  await Promise.all(items.map((item) => runs.put(item)));
}

const isSampled = (operator: OperatorTelemetry, head: Item): boolean =>
  operator.isSampled(
    spanOfRun({
      id: runIdOf(head),
      rootRunId: head.root_run_id as string | undefined,
      trace: head.trace as string | undefined,
    }),
    head.trace !== undefined,
  );

/** Returns the oldest entries of a partition. */
export async function readBacklog(
  { runs }: Pick<Deps, 'runs'>,
  partition: string,
  limit: number,
): Promise<BacklogEntry[]> {
  const entries: BacklogEntry[] = [];
  for await (const { pk, sk, runs: names } of queryAll(runs, { pk: partition, limit })) {
    const waiting = (names as string[]).map((name): WaitingRun => {
      const [id, workspaceId] = name.split('#').reverse();
      return { workspaceId: workspaceId ?? workspaceIdOf({ pk, sk }), runId: runIdOf({ pk, sk: id! }) };
    });
    entries.push({ key: { pk, sk }, runs: waiting });
    if (entries.length === limit) break;
  }
  return entries;
}
