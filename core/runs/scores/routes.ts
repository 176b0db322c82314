import * as z from 'zod';
import { SCORE_WORD, SCORE_WORD_RULE } from '#core/base/score-word.ts';
import { agentName } from '#core/http/agent-name.ts';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes } from '#core/http/route.ts';
import { MAX_SCORE_COMMENT, MAX_SCORE_LABEL, MAX_SCORE_VALUE, MAX_SCORES } from './score.ts';

const time = z.iso.datetime();
const word = z.string().regex(SCORE_WORD, SCORE_WORD_RULE);
const value = z.number().min(-MAX_SCORE_VALUE).max(MAX_SCORE_VALUE);
const label = printableLine(MAX_SCORE_LABEL).regex(/^[^#]*$/, 'must not contain #');
const version = z.string().regex(/^v\d{1,9}$/, 'must be a version such as v3');
const SOURCE = 'Who or what scored, such as `user` or `judge`.';

const score = z.object({
  name: z.string().describe('What is scored, such as `helpful`.'),
  source: z.string().describe(SOURCE),
  value: z.number().nullable().describe('Null: the score is a label.'),
  label: z.string().nullable().describe('Null: the score is a number.'),
  comment: z.string().nullable().describe('Text for people who read the run. Null: none.'),
  created_by: z.string().describe('Id of the user whose key sent the score; `platform` for online scores.'),
  created_at: time,
  updated_at: time.describe('When the score was replaced last.'),
});
const scores = z.array(score).describe('Oldest first.');

const RUN_SCORES = '/workspaces/{workspace_id}/runs/{run_id}/scores';
const SCORES = '/workspaces/{workspace_id}/scores';
const row = { fn: 'runs', auth: 'key' } as const;
const ofRun = { ...row, errors: ['NOT_FOUND', 'CONFLICT'] } as const;
const agent = agentName.describe('`org/agent`: its runs in this workspace.');
const words = {
  name: word.optional().describe('Only scores with this name.'),
  source: word.optional().describe('Only scores of this source.'),
};
const bound = z.coerce.number().min(-MAX_SCORE_VALUE).max(MAX_SCORE_VALUE).optional();

export const scoreRoutes = defineRoutes([
  {
    ...ofRun,
    operationId: 'scoreRun',
    keyScope: 'run',
    method: 'POST',
    path: RUN_SCORES,
    summary: `Score a run; a score with the same name and source is replaced. A run has at most ${MAX_SCORES}`,
    request: {
      body: z
        .strictObject({
          name: word.describe('What is scored, such as `helpful`.'),
          source: word.default('api').describe(SOURCE),
          value: value.optional().describe('A number, such as 0 or 1.'),
          label: label.optional().describe('A word instead of a number, such as `too short`.'),
          comment: z
            .string()
            .min(1)
            .max(MAX_SCORE_COMMENT)
            .optional()
            .describe('For people, who read it with the run.'),
        })
        .refine((sent) => (sent.value === undefined) !== (sent.label === undefined), {
          path: ['value'],
          error: 'either a value or a label must be given, and not both',
        }),
    },
    response: { 201: score },
  },
  {
    ...ofRun,
    operationId: 'listRunScores',
    method: 'GET',
    path: RUN_SCORES,
    summary: 'List the scores of a run',
    response: { 200: z.object({ run_id: z.uuid(), scores }) },
  },
  {
    ...ofRun,
    operationId: 'deleteRunScore',
    keyScope: 'run',
    method: 'DELETE',
    path: `${RUN_SCORES}/{score}`,
    summary: 'Delete a score of a run, by its name',
    request: { query: z.object({ source: word.default('api').describe('Source of the score.') }) },
    response: {
      200: z.object({
        deleted: z.literal(true),
        name: z.string().describe('Name of the deleted score.'),
        source: z.string().describe('Source of the deleted score.'),
      }),
    },
  },
  {
    ...row,
    operationId: 'listScores',
    method: 'GET',
    path: SCORES,
    summary: 'List the runs of an agent that have scores, the newest run first',
    request: {
      query: z.object({
        agent,
        version: version.optional().describe('Only runs of this version.'),
        ...words,
        label: label.optional().describe('Only scores with this label.'),
        min: bound.describe('Only numbers that are at least this.'),
        max: bound.describe('Only numbers that are at most this.'),
        limit: z.coerce.number().int().min(1).max(200).default(50),
        cursor: z.string().max(400).optional().describe('`next_cursor` of the previous page, with the same filters.'),
      }),
    },
    response: {
      200: z.object({
        runs: z
          .array(z.object({ run_id: z.uuid(), agent_version: z.string(), started_at: time, scores }))
          .describe('Each with those of its scores that match.'),
        next_cursor: z
          .string()
          .nullable()
          .describe('Cursor of the next page, which may have fewer runs than `limit`; null if there are no more.'),
      }),
    },
  },
  {
    ...row,
    operationId: 'getScoreSeries',
    method: 'GET',
    path: `${SCORES}/series`,
    summary: 'Show how the scores of an agent change, by day and version',
    request: {
      query: z.object({
        agent,
        ...words,
        from: z.iso.date().optional().describe('First day (UTC). Default: 29 days before the last one.'),
        to: z.iso.date().optional().describe('Last day (UTC), at most 366 days after the first. Default: today.'),
      }),
    },
    response: {
      200: z.object({
        from: z.iso.date().describe('First day of the series.'),
        to: z.iso.date().describe('Last day of the series.'),
        is_complete: z.boolean().describe('False: there are more scores than are read; the newest days are missing.'),
        points: z
          .array(
            z.object({
              day: z.iso.date().describe('The day on which the scored runs started.'),
              version: z.string().describe('Version of the agent that ran.'),
              name: z.string().describe('What was scored.'),
              source: z.string().describe(SOURCE),
              count: z.int().describe('Number of scores.'),
              mean: z.number().nullable().describe('Mean of the numbers; null if all scores are labels.'),
              labels: z
                .array(
                  z.object({
                    label: z.string().describe('What was given instead of a number.'),
                    count: z.int().describe('Number of scores with this label.'),
                  }),
                )
                .describe('How often each label was given, the most frequent first.'),
            }),
          )
          .describe('Oldest day first.'),
      }),
    },
  },
]);
