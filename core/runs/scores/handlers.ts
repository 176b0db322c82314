import { PlatformError } from '#core/base/errors.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import type { Handlers } from '#core/http/route.ts';
import { dayOf } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '../store.ts';
import { listScores } from './listing.ts';
import type { scoreRoutes } from './routes.ts';
import type { Score } from './score.ts';
import { deleteScore, putScore, scoresOf } from './store.ts';
import { scoreSeries } from './sums.ts';

const DAY_MS = 24 * 3600 * 1000;
/** Days of a series if the request names none, and at most. */
const DEFAULT_DAYS = 30;
const MAX_DAYS = 367;

export const scoreHandlers = (
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
): Handlers<typeof scoreRoutes> => {
  const find = (workspaceId: string, name: string) => new RunStore(deps, workspaceId).findByName(name);
  return {
    async scoreRun({ caller, params, body: { name, source, value, label, comment } }) {
      const run = await find(caller.workspace.id, params.run_id);
      if (isInstallation(run)) {
        throw new PlatformError('CONFLICT', `The run ${run.id} is an installation of an agent: it cannot be scored.`);
      }
      const sent = {
        name,
        source,
        ...(value !== undefined && { value }),
        ...(label !== undefined && { label }),
        ...(comment !== undefined && { comment }),
        createdBy: caller.userId,
      };
      return { status: 201, body: scoreView(await putScore(deps, run, sent)) };
    },

    async listRunScores({ caller, params }) {
      const run = await find(caller.workspace.id, params.run_id);
      return { status: 200, body: { run_id: run.id, scores: (await scoresOf(deps, run)).map(scoreView) } };
    },

    async deleteRunScore({ caller, params, query: { source } }) {
      const run = await find(caller.workspace.id, params.run_id);
      const name = params.score;
      if (await deleteScore(deps, run, { name, source })) return { status: 200, body: { deleted: true, name, source } };
      const wanted = name.slice(0, 64);
      throw new PlatformError('NOT_FOUND', `The run ${run.id} has no score "${wanted}" of the source "${source}".`);
    },

    async listScores({ caller, query: { agent, limit, cursor, ...filter } }) {
      const of = { workspaceId: caller.workspace.id, agent };
      const { runs, nextCursor } = await listScores(deps, of, filter, { limit, cursor });
      const views = runs.map(({ runId, agentVersion, startedAt, scores }) => ({
        run_id: runId,
        agent_version: agentVersion,
        started_at: startedAt,
        scores: scores.map(scoreView),
      }));
      return { status: 200, body: { runs: views, next_cursor: nextCursor } };
    },

    async getScoreSeries({ caller, query: { agent, name, source, ...sent } }) {
      const to = sent.to ?? dayOf(deps.clock.now());
      const from = sent.from ?? dayOf(Date.parse(to) - (DEFAULT_DAYS - 1) * DAY_MS);
      if (from > to) {
        throw new PlatformError('INVALID_INPUT', `query.from: must not be after to, but ${from} is after ${to}.`);
      }
      if (Date.parse(to) - Date.parse(from) >= MAX_DAYS * DAY_MS) {
        throw new PlatformError('INVALID_INPUT', `query.from: must be at most ${MAX_DAYS - 1} days before ${to}.`);
      }
      const of = { workspaceId: caller.workspace.id, agent, days: [from, to] as const };
      const { points, isComplete } = await scoreSeries(deps, of, { name, source });
      const views = points.map(({ labels, ...point }) => ({ ...point, labels: [...labels] }));
      return { status: 200, body: { from, to, is_complete: isComplete, points: views } };
    },
  };
};

const scoreView = ({ name, source, value, label, comment, createdBy, createdAt, updatedAt }: Score) => ({
  name,
  source,
  value: value ?? null,
  label: label ?? null,
  comment: comment ?? null,
  created_by: createdBy,
  created_at: createdAt,
  updated_at: updatedAt,
});
