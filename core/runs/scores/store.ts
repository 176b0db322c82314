import { isDeepStrictEqual } from 'node:util';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, allOf, equals, exists, type Item, type TransactOperation } from '#core/ports/table.ts';
import { headKey, hexOf, runExpiry } from '../items.ts';
import type { Run } from '../run.ts';
import { MAX_SCORES, type Score, type ScoredRun } from './score.ts';
import { scoreSums } from './sums.ts';

/*
 * Scores of runs. Runs table:
 * - `WS#<workspace id>#SCORES / <run id without dashes>`: the scores of a run. It expires with the run. gsi1 lists the
 *   runs of an agent that have scores by their start;
 * - `WS#<workspace id>#SCORE_SUMS#<org>/<agent> / ...`: their sums (`sums.ts`).
 */

type StoreDeps = Pick<Deps, 'runs' | 'clock' | 'config'>;

/** A score as stored. */
interface StoredScore {
  readonly name: string;
  readonly source: string;
  readonly value?: number;
  readonly label?: string;
  readonly comment?: string;
  readonly by: string;
  readonly at: string;
  readonly changed?: string;
}

export const scoresKey = (workspaceId: string, runId: string) => ({
  pk: `WS#${workspaceId}#SCORES`,
  sk: hexOf(runId),
});

/** Query for the runs of an agent (`org/agent`) that have scores, by their start. */
export const scoredRunsOf = (workspaceId: string, agent: string) =>
  ({ index: 'gsi1', pk: `WS#${workspaceId}#SCORED#${agent}` }) as const;

/** Returns the scores of a run, oldest first. */
export async function scoresOf({ runs }: Pick<Deps, 'runs'>, { workspaceId, id }: Run): Promise<readonly Score[]> {
  const item = await runs.get(scoresKey(workspaceId, id));
  return item === undefined ? [] : scoredRunFrom(item).scores;
}

/**
 * Scores a run, and returns the score as stored. It replaces the one with the same name and source. Throws CONFLICT if
 * the run has {@link MAX_SCORES} others, or if what was said in the run was erased and the score has a comment.
 */
export async function putScore(
  deps: StoreDeps,
  run: Run,
  score: Omit<Score, 'createdAt' | 'updatedAt'>,
): Promise<Score> {
  const { createdBy, ...content } = score;
  const now = isoTime(deps.clock.now());
  let written!: StoredScore;
  await changeScores(deps, run, (scores) => {
    const at = scores.findIndex((each) => isSame(each, score));
    if (at === -1 && scores.length >= MAX_SCORES) {
      throw new PlatformError('CONFLICT', `The run ${run.id} has ${MAX_SCORES} scores: delete one first.`);
    }
    const before = scores[at];
    written = { ...content, by: createdBy, at: before?.at ?? now, ...(before && { changed: now }) };
    return at === -1 ? [...scores, written] : scores.with(at, written);
  });
  return scoreFrom(written);
}

/**
 * Scores a run by several names at once, as {@link putScore}. Leaves what is there already, and what a run with {@link MAX_SCORES} scores has
 * no room for. Throws CONFLICT if what was said in the run was erased and a score has a comment.
 */
export async function putScores(
  deps: StoreDeps,
  run: Run,
  scores: readonly Omit<Score, 'createdAt' | 'updatedAt'>[],
): Promise<void> {
  const now = isoTime(deps.clock.now());
  await changeScores(deps, run, (before) => {
    const after = [...before];
    for (const { createdBy: by, ...content } of scores) {
      const at = after.findIndex((each) => isSame(each, content));
      if (at === -1) {
        if (after.length < MAX_SCORES) after.push({ ...content, by, at: now });
        continue;
      }
      const { at: since, changed: _, ...stored } = after[at]!;
      if (!isDeepStrictEqual(stored, { ...content, by })) after[at] = { ...content, by, at: since, changed: now };
    }
    const isUnchanged = after.length === before.length && after.every((each, index) => each === before[index]);
    return isUnchanged ? undefined : after;
  });
}

/** Deletes a score. Returns false if the run has none with this name and source. */
export const deleteScore = (deps: StoreDeps, run: Run, score: Pick<Score, 'name' | 'source'>): Promise<boolean> =>
  changeScores(deps, run, (scores) => {
    const left = scores.filter((each) => !isSame(each, score));
    return left.length < scores.length ? left : undefined;
  });

/** Replaces the scores of a run, and changes their sums in the same transaction. False if `change` returns nothing. */
function changeScores(
  deps: StoreDeps,
  run: Run,
  change: (scores: readonly StoredScore[]) => readonly StoredScore[] | undefined,
): Promise<boolean> {
  const { workspaceId, id, agentOrg, agentName, agentVersion, startedAt } = run;
  const key = scoresKey(workspaceId, id);
  return retryOnConflict(deps.clock, `the scores of the run ${id}`, async () => {
    const item = await deps.runs.get(key);
    const before = storedScores(item);
    const after = change(before);
    if (after === undefined) return false;
    const revision = item?.revision as number | undefined;
    const isListed = after.length > 0;
    const set = {
      scores: after as unknown as Json,
      revision: (revision ?? 0) + 1,
      run_id: id,
      agent_version: agentVersion,
      started_at: startedAt,
      ttl: runExpiry(deps.config, Date.parse(startedAt)),
      ...(isListed && {
        gsi1pk: scoredRunsOf(workspaceId, `${agentOrg}/${agentName}`).pk,
        gsi1sk: `${startedAt}#${hexOf(id)}`,
      }),
    };
    const remove = isListed ? [] : ['gsi1pk', 'gsi1sk'];
    const condition = revision === undefined ? absent('revision') : equals('revision', revision);
    const written = await deps.runs.transact([
      { op: 'update', key, changes: { set, remove }, condition },
      // What was said in a run may be erased at the same time, and what is said about it with it.
      ...(after.some(({ comment }) => comment !== undefined) ? [notErased(run)] : []),
      ...scoreSums(run, before, after),
    ]);
    if (written.ok) return true;
    if (written.failed.includes(1)) {
      throw new PlatformError('CONFLICT', `What was said in the run ${id} was erased: its scores have no comments.`);
    }
    return undefined;
  });
}

const notErased = ({ workspaceId, id }: Run): TransactOperation => ({
  op: 'check',
  key: headKey(workspaceId, id),
  condition: allOf(exists(), absent('erased')),
});

/** Removes what people wrote about a run. Numbers and labels stay, as in the record of an erased run. */
export async function eraseComments({ runs }: Pick<Deps, 'runs'>, workspaceId: string, runId: string): Promise<void> {
  const key = scoresKey(workspaceId, runId);
  for (;;) {
    const item = await runs.get(key);
    if (item === undefined) return;
    const stored = storedScores(item);
    if (stored.every(({ comment }) => comment === undefined)) return;
    const scores = stored.map(({ comment: _, ...score }) => score);
    const revision = item.revision as number;
    const set = { scores: scores as unknown as Json, revision: revision + 1 };
    if ((await runs.update(key, { set }, allOf(exists(), equals('revision', revision)))).ok) return;
  }
}

const isSame = (a: Pick<Score, 'name' | 'source'>, b: Pick<Score, 'name' | 'source'>): boolean =>
  a.name === b.name && a.source === b.source;

const storedScores = (item: Item | undefined): readonly StoredScore[] =>
  (item?.scores ?? []) as unknown as readonly StoredScore[];

export const scoredRunFrom = (item: Item): ScoredRun => ({
  runId: item.run_id as string,
  agentVersion: item.agent_version as string,
  startedAt: item.started_at as string,
  scores: storedScores(item).map(scoreFrom),
});

const scoreFrom = ({ by, at, changed = at, ...score }: StoredScore): Score => ({
  ...score,
  createdBy: by,
  createdAt: at,
  updatedAt: changed,
});
