import { readCursor, writeCursor } from '#core/http/cursor.ts';
import type { Deps } from '#core/ports/deps.ts';
import { queryAll } from '#core/ports/table.ts';
import { MAX_EXAMINED } from '../listing.ts';
import type { Score, ScoredRun } from './score.ts';
import { scoredRunFrom, scoredRunsOf } from './store.ts';

/** Filter of scores; without members, all scores. */
export interface ScoreFilter {
  readonly version?: string | undefined;
  readonly name?: string | undefined;
  readonly source?: string | undefined;
  readonly label?: string | undefined;
  /** Inclusive bounds of the number. */
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

const READ_AT_ONCE = 100;

/**
 * Returns a page of the runs of an agent (`org/agent`) that have matching scores, newest run first, each with these
 * scores. Reads at most 1,000 runs, so a page may have fewer than `limit`. Throws INVALID_INPUT for a cursor of another
 * listing.
 */
export async function listScores(
  { runs }: Pick<Deps, 'runs'>,
  { workspaceId, agent }: { readonly workspaceId: string; readonly agent: string },
  filter: ScoreFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): Promise<{ readonly runs: readonly ScoredRun[]; readonly nextCursor: string | null }> {
  const { version, name, source, label, min, max } = filter;
  const listing = ['scores', workspaceId, agent, version, name, source, label, min, max].map((part) => part ?? null);
  const after = cursor === undefined ? undefined : readCursor(cursor, listing, ([place]) => textOf(place));
  const query = {
    ...scoredRunsOf(workspaceId, agent),
    ...(after !== undefined && { sk: { lessThan: after } }),
    limit: READ_AT_ONCE,
    reverse: true,
  };
  const found: ScoredRun[] = [];
  let examined = 0;
  let place: string | undefined;
  for await (const item of queryAll(runs, query)) {
    if (found.length === limit || examined === MAX_EXAMINED) {
      return { runs: found, nextCursor: writeCursor(listing, [place!]) };
    }
    examined++;
    place = item.gsi1sk;
    const run = scoredRunFrom(item);
    if (version !== undefined && run.agentVersion !== version) continue;
    const scores = run.scores.filter((score) => matches(score, filter));
    if (scores.length > 0) found.push({ ...run, scores });
  }
  return { runs: found, nextCursor: null };
}

const textOf = (place: unknown): string | undefined =>
  typeof place === 'string' && place !== '' && place.length < 100 ? place : undefined;

const matches = (score: Score, { name, source, label, min, max }: ScoreFilter): boolean =>
  (name === undefined || score.name === name) &&
  (source === undefined || score.source === source) &&
  (label === undefined || score.label === label) &&
  (min === undefined || (score.value !== undefined && score.value >= min)) &&
  (max === undefined || (score.value !== undefined && score.value <= max));
