import { dayOf, epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll, type TransactOperation } from '#core/ports/table.ts';
import type { Run } from '../run.ts';
import { KEPT_SECONDS } from '../usage/rollup.ts';
import type { Score } from './score.ts';

/*
 * Sums of scores in the runs table, which remain when runs are removed:
 * `WS#<workspace id>#SCORE_SUMS#<org>/<agent> / <day>#<name>#<version>#<source>#<label>#<shard>`. A score counts on the
 * UTC day on which its run started, so that a series shows how good a version was on a day.
 */

const sumsPartition = (workspaceId: string, agent: string): string => `WS#${workspaceId}#SCORE_SUMS#${agent}`;

/** Numbers are summed in millionths: decimals of any length would not add up exactly. */
const MICRO = 1_000_000;
/** Digits of run ids that share a sum. DynamoDB rejects one of two concurrent transactions on an item. */
const DIGITS_OF_SHARD = 4;
/** Maximum number of sums that a series reads: AWS bills each read. */
const MAX_SUMS = 5000;

type Summed = Pick<Score, 'name' | 'source' | 'value' | 'label'>;

/** Returns the writes that replace scores of a run in the sums. */
export function scoreSums(
  { id, workspaceId, agentOrg, agentName, agentVersion, startedAt }: Run,
  before: readonly Summed[],
  after: readonly Summed[],
): TransactOperation[] {
  const started = Date.parse(startedAt);
  const shard = Math.floor(Number.parseInt(id[0]!, 16) / DIGITS_OF_SHARD);
  const pk = sumsPartition(workspaceId, `${agentOrg}/${agentName}`);
  const amounts = new Map<string, { readonly of: Summed; count: number; micro: number }>();
  const add = (scores: readonly Summed[], sign: 1 | -1) => {
    for (const score of scores) {
      const { name, source, value = 0, label = '' } = score;
      const sk = [dayOf(started), name, agentVersion, source, label, shard].join('#');
      const { count, micro } = amounts.get(sk) ?? { count: 0, micro: 0 };
      amounts.set(sk, { of: score, count: count + sign, micro: micro + sign * Math.round(value * MICRO) });
    }
  };
  add(before, -1);
  add(after, 1);
  return [...amounts]
    .filter(([, { count, micro }]) => count !== 0 || micro !== 0)
    .map(([sk, { of, count, micro }]) => ({
      op: 'update',
      key: { pk, sk },
      changes: {
        set: {
          day: dayOf(started),
          name: of.name,
          version: agentVersion,
          source: of.source,
          ...(of.label !== undefined && { label: of.label }),
          ttl: epochSeconds(started) + KEPT_SECONDS,
        },
        add: { count, ...(of.label === undefined && { micro }) },
      },
    }));
}

/** Scores of the runs that one version began on one day. */
export interface ScorePoint {
  /** `YYYY-MM-DD`, UTC. */
  readonly day: string;
  readonly version: string;
  readonly name: string;
  readonly source: string;
  /** Number of scores, with and without a number. */
  readonly count: number;
  /** Mean of the numbers; null without any. */
  readonly mean: number | null;
  /** Most frequent first. */
  readonly labels: readonly { readonly label: string; readonly count: number }[];
}

export interface Series {
  readonly points: readonly ScorePoint[];
  /** False if there are more sums than a series reads; the newest days are then missing. */
  readonly isComplete: boolean;
}

/** Returns the series of an agent (`org/agent`) between two days (inclusive), oldest first. */
export async function scoreSeries(
  { runs }: Pick<Deps, 'runs'>,
  { workspaceId, agent, days: [from, to] }: { workspaceId: string; agent: string; days: readonly [string, string] },
  filter: { readonly name?: string | undefined; readonly source?: string | undefined },
): Promise<Series> {
  const found = new Map<string, { of: ScorePoint; numbers: number; micro: number; labels: Map<string, number> }>();
  let examined = 0;
  let isComplete = true;
  const query = { pk: sumsPartition(workspaceId, agent), sk: { between: [from, `${to}~`] as const }, limit: 1000 };
  for await (const item of queryAll(runs, query)) {
    if (++examined > MAX_SUMS) {
      isComplete = false;
      break;
    }
    const { day, name, version, source } = item as unknown as ScorePoint;
    const { label, count, micro = 0 } = item as unknown as { label?: string; count: number; micro?: number };
    if (filter.name !== undefined && filter.name !== name) continue;
    if (filter.source !== undefined && filter.source !== source) continue;
    const id = [day, version, name, source].join('#');
    const of = { day, version, name, source, count: 0, mean: null, labels: [] };
    const point = found.get(id) ?? { of, numbers: 0, micro: 0, labels: new Map<string, number>() };
    if (label === undefined) point.numbers += count;
    else point.labels.set(label, (point.labels.get(label) ?? 0) + count);
    point.micro += micro;
    found.set(id, point);
  }
  const points = [...found.values()].flatMap(({ of, numbers, micro, labels }): ScorePoint[] => {
    const counted = [...labels].map(([label, count]) => ({ label, count })).filter(({ count }) => count > 0);
    const count = numbers + counted.reduce((sum, each) => sum + each.count, 0);
    if (count === 0) return [];
    const mean = numbers === 0 ? null : Math.round(micro / numbers) / MICRO;
    return [{ ...of, count, mean, labels: counted.sort((a, b) => b.count - a.count) }];
  });
  return { points, isComplete };
}
