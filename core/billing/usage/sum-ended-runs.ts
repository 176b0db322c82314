import { batchesOf } from '#core/base/batches.ts';
import { hasCode } from '#core/base/errors.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { FeedRecord } from '#core/ports/feed.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, anyOf, type Item, type Key, lessThan, MAX_TRANSACTION_OPERATIONS } from '#core/ports/table.ts';
import { encodeChanges, encodeItem } from '#core/ports/table-rules.ts';
import { listItems } from '#core/runs/agent-logs/ended-runs.ts';
import { type EndedRun, endedRunFrom } from '#core/runs/usage/ended-run.ts';
import { joinSums, sumName, sumShardOf, type UsageOfRun, usageOf } from '#core/runs/usage/rollup.ts';
import type { SumChange } from '#core/runs/usage/sum-change.ts';
import { releaseSummed } from '../budgets/under-way.ts';

/*
 * Runs table: `SUMS#<shard of the feed> / LAST` has the position up to which the runs of a shard are summed. It is written
 * in the transaction that adds to the sums, on the condition that it is before the first of them, so a record that comes
 * again counts once, whatever the batches.
 */
const lastKey = (shard: string): Key => ({ pk: `SUMS#${shard}`, sk: 'LAST' });

type SumDeps = Pick<Deps, 'runs' | 'counters' | 'clock' | 'log'>;

export interface SumOptions {
  readonly shard: string;
  /** Seconds for which the position is kept, longer than records of the shard can come. @default - for ever */
  readonly keptSeconds?: number;
  /** Keeps a record that cannot be counted. It never holds up the others. */
  readonly onMalformed: (record: FeedRecord, error: unknown) => Promise<void>;
}

/** A record, and what it adds; `usage` is absent if it is malformed. */
interface Part {
  readonly record: FeedRecord;
  readonly ended?: EndedRun;
  readonly usage?: UsageOfRun;
  readonly error?: unknown;
}

const MAX_SUMS = MAX_TRANSACTION_OPERATIONS - 1;
const PUTS_AT_ONCE = 50;

/**
 * Adds ended runs of one shard of the feed to the usage of their workspaces, each exactly once, and takes them off the runs
 * in flight of budgets. `records` are in the order of the shard. If it throws, the same records must come again.
 */
export async function sumEndedRuns(deps: SumDeps, options: SumOptions, records: readonly FeedRecord[]): Promise<void> {
  const parts = records.map((record) => partOf(record, sumShardOf(options.shard)));
  await count(deps, options, parts);
  // Also of records that came before: the process may have died between the two writes.
  const ended = Map.groupBy(
    parts.flatMap((part) => part.ended ?? []),
    ({ workspaceId }) => workspaceId,
  );
  await Promise.all(
    [...ended].map(([workspaceId, runs]) =>
      releaseSummed(
        deps,
        workspaceId,
        runs.map(({ run }) => run.id),
      ),
    ),
  );
}

function partOf(record: FeedRecord, shard: string): Part {
  try {
    const ended = endedRunFrom(record.item);
    const usage = usageOf(ended, shard);
    for (const { key, set, add } of usage.sums) encodeChanges(key, { set, add });
    usage.logs.forEach(encodeItem);
    return { record, ended, usage };
  } catch (error) {
    return { record, error };
  }
}

async function count(deps: SumDeps, options: SumOptions, parts: readonly Part[]): Promise<void> {
  let last = await lastOf(deps, options.shard);
  let left = parts.filter(({ record }) => record.sequence > last);
  while (left.length > 0) {
    const next = left.slice(0, countOfNext(left));
    const isCounted = await countAll(deps, options, next);
    last = isCounted ? next.at(-1)!.record.sequence : await lastOf(deps, options.shard);
    left = left.filter(({ record }) => record.sequence > last);
  }
}

const lastOf = async ({ runs }: Pick<Deps, 'runs'>, shard: string): Promise<string> =>
  ((await runs.get(lastKey(shard)))?.last as string | undefined) ?? '';

/** Returns the number of parts, at least one, whose sums fit in a transaction. */
function countOfNext(parts: readonly Part[]): number {
  const names = new Set<string>();
  const tooMany = parts.findIndex(({ usage }) => {
    for (const sum of usage?.sums ?? []) names.add(sumName(sum));
    return names.size > MAX_SUMS;
  });
  return tooMany < 0 ? parts.length : tooMany;
}

/** Counts parts that fit in a transaction. Returns false if another process has counted some of them. */
async function countAll(deps: SumDeps, options: SumOptions, parts: readonly Part[]): Promise<boolean> {
  const malformed = parts.filter(({ error }) => error !== undefined);
  for (const { record, error } of malformed) await options.onMalformed(record, error);
  // The entries name their runs, so writing them again changes nothing.
  const entries = [
    ...parts.flatMap(({ usage }) => usage?.logs ?? []),
    ...listItems(
      parts.flatMap(({ ended }) => ended ?? []),
      `${sumShardOf(options.shard)}.${parts[0]!.record.sequence}`,
    ),
  ];
  for (const batch of batchesOf(entries, PUTS_AT_ONCE))
    await Promise.all(batch.map(async (item) => deps.runs.put(item)));
  try {
    return await addSums(deps, options, parts);
  } catch (error) {
    // A stored sum is damaged. Only the runs that count in it are left out.
    if (!hasCode(error, 'TABLE_USAGE')) throw error;
    if (parts.length === 1) return countAll(deps, options, [{ record: parts[0]!.record, error }]);
    const half = Math.ceil(parts.length / 2);
    return (await countAll(deps, options, parts.slice(0, half))) && (await countAll(deps, options, parts.slice(half)));
  }
}

function addSums(
  { runs, clock }: Pick<Deps, 'runs' | 'clock'>,
  { shard, keptSeconds }: SumOptions,
  parts: readonly Part[],
): Promise<boolean> {
  const sums = joinSums(parts.flatMap(({ usage }): readonly SumChange[] => usage?.sums ?? []));
  const position: Item = {
    ...lastKey(shard),
    last: parts.at(-1)!.record.sequence,
    ...(keptSeconds !== undefined && { ttl: epochSeconds(clock.now()) + keptSeconds }),
  };
  const isNew = anyOf(absent(), lessThan('last', parts[0]!.record.sequence));
  return retryOnConflict(clock, `the sums of the shard ${shard}`, async () => {
    const written = await runs.transact([
      { op: 'put', item: position, condition: isNew },
      ...[...sums.values()].map(({ key, set, add }) => ({ op: 'update', key, changes: { set, add } }) as const),
    ]);
    if (written.ok) return true;
    return written.failed.length > 0 ? false : undefined;
  });
}
