import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import {
  ASSERT_TYPES,
  MAX_BUDGET_USD,
  MAX_CASES,
  MAX_REPEAT,
  MAX_SUITE_BYTES,
  MAX_SUITE_FILES,
  PASS_RULES,
} from '#core/manifest/evals/suite.ts';
import { LANES } from './outcome.ts';
import { VERDICTS } from './verdict.ts';

const time = z.iso.datetime();
const usd = z.number().nullable();
const baseline = z
  .string()
  .regex(/^(latest|observed|v[1-9][0-9]{0,4})$/, 'must be latest, observed, or a version such as v3');

const share = z.object({
  passed: z.int().describe('Cases that passed.'),
  failed: z.int().describe('Cases that failed.'),
  undecided: z
    .int()
    .describe('Cases of which nothing is known: a judge or the platform failed, or the budget was spent.'),
  share: z.number().nullable().describe('Passed of the cases that are decided. Null: none is.'),
  interval: z.array(z.number()).length(2).nullable().describe("Wilson's interval of the share, 95%."),
});

const evaluation = z.object({
  eval_id: z.uuid(),
  agent_name: z.string(),
  version: z.string().describe('The version that is evaluated.'),
  trigger: z
    .enum(['request', 'publish'])
    .describe('What started it: a request, or the publish of a version with a gate.'),
  opens_gate: z.boolean().describe('Whether the version becomes latest if it passes.'),
  baseline: z
    .string()
    .nullable()
    .describe(
      'The version that it is compared with, on the same cases at the same time. `observed`: the recorded runs of the cases.',
    ),
  status: z.enum(['running', 'completed', 'aborted', 'failed']),
  verdict: z.enum(VERDICTS).nullable().describe('Null until it is completed.'),
  reason: z
    .string()
    .nullable()
    .describe('Why it did not pass, ended early or decides nothing. Null: there is nothing to say.'),
  suites: z
    .array(
      z.object({
        name: z.string().describe('Name of its file.'),
        description: z.string().nullable(),
        threshold: z.number().describe('Share of the cases that must pass.'),
        repeat: z.int().describe('Runs of each case and version.'),
        pass: z.enum(PASS_RULES).describe('How many of the repeats of a case must pass.'),
        judge: z.union([z.object({ model: z.string() }), z.object({ agent: z.string() })]).nullable(),
      }),
    )
    .describe('The files, in their order.'),
  judge_prompt: z.string().nullable().describe('Hash of the fixed prompt of judges. Null: no suite has a judge.'),
  counts: z
    .object({
      cases: z.int().describe('Cases in all suites.'),
      runs: z.int().describe('Runs that it makes in all. Recorded runs count nowhere here.'),
      done: z.int().describe('Runs with a result.'),
      passed: z.int().describe('Runs that passed.'),
      failed: z.int().describe('Runs that failed.'),
      errors: z.int().describe('Runs of which nothing is known: a judge or the platform failed.'),
    })
    .describe('Numbers so far.'),
  budget_usd: z.number().describe('No further run begins when this is spent.'),
  cost_usd: z.number().describe('Of the runs that it made and its judges so far, at known prices.'),
  candidate: share.nullable().describe('The cases on `version`. Null until it is over.'),
  baseline_cases: share
    .nullable()
    .describe('The cases on the version `baseline`. Null without one, and until it is over.'),
  observed_cases: share
    .nullable()
    .describe('The recorded runs of cases with `run`. Null without such cases, and until it is over.'),
  comparison: z
    .object({
      pairs: z
        .int()
        .describe(
          'Runs of the same case and repeat that are decided on both versions; or repeats with the recorded run.',
        ),
      worse: z.int().describe('Pairs that passed on the baseline only.'),
      better: z.int().describe('Pairs that passed on `version` only.'),
      p: z.number().describe("Probability of so many worse pairs by chance: McNemar's exact test, one-sided."),
    })
    .nullable()
    .describe('Null without a baseline, and until it is over.'),
  repeats_needed: z
    .int()
    .nullable()
    .describe('Repeats that would decide what is inconclusive, if runs turn out as these did.'),
  dashboard_url: z.string().nullable().describe('Its page of the dashboard. Null: the platform has none.'),
  created_by: z.string(),
  created_at: time,
  updated_at: time,
  ended_at: time.nullable(),
});

const caseRun = z.object({
  lane: z.enum(LANES).describe('`observed`: the recorded run that the case was taken from, which was not made again.'),
  version: z.string().nullable().describe('Null: the recorded run cannot be graded.'),
  repeat: z.int().describe('Number of the run of its case, from 1.'),
  run_id: z.uuid(),
  status: z.enum(['running', 'passed', 'failed', 'error', 'cancelled']),
  reason: z.string().nullable().describe('Why it did not pass.'),
  score: z.number().nullable().describe('Weighted mean of the scores of its asserts.'),
  latency_ms: z.number().nullable(),
  cost_usd: usd.describe('Of the run and its judges. Null: no price is known.'),
  asserts: z
    .array(
      z.object({
        type: z.string(),
        metric: z.string().nullable(),
        pass: z.boolean(),
        score: z.number(),
        reason: z.string(),
        judge_run_id: z.uuid().nullable().describe('The run of its judge.'),
      }),
    )
    .describe('Results in the order of the case. Empty: the run did not end well.'),
});

const evalCase = z.object({
  number: z.int().describe('From 1, over all suites.'),
  suite: z.string().describe('Name of its file.'),
  description: z.string(),
  must: z.boolean().describe('Whether the evaluation fails if it fails.'),
  vars: z.record(z.string(), z.unknown()).describe('The input of the agent.'),
  run: z.uuid().nullable().describe('The recorded run that the case was taken from.'),
  passed: z.boolean().nullable().describe('On `version`. Null: not decided.'),
  runs: z.array(caseRun),
});

const EVALS = '/agents/{id}/evals';
const EVAL = `${EVALS}/{eval_id}`;
const row = { fn: 'runs', auth: 'key', errors: ['NOT_FOUND'] } as const;
const paged = (most: number, usual: number) => ({
  limit: z.coerce.number().int().min(1).max(most).default(usual),
  cursor: z.string().max(400).optional().describe('`next_cursor` of the previous page.'),
});

export const evalRoutes = defineRoutes([
  {
    ...row,
    operationId: 'createEval',
    keyScope: 'run',
    method: 'POST',
    path: EVALS,
    summary: 'Evaluate a version of an agent: run the cases of suites, in the background',
    errors: ['NOT_FOUND', 'CONFLICT', 'UNPROCESSABLE'],
    request: {
      body: z
        .strictObject({
          suites: z
            .record(z.string().min(1).max(200), z.string())
            .optional()
            .describe(
              `Files by name: suites in YAML or JSON, and files that their asserts name as \`file://NAME\`. At most ${MAX_SUITE_FILES}, with ${MAX_SUITE_BYTES} bytes together. Default: those that were published with the version.`,
            ),
          tests: z
            .array(z.record(z.string(), z.unknown()))
            .min(1)
            .max(MAX_CASES)
            .optional()
            .describe(
              `Cases instead of files, each as in \`tests\` of a suite. Types of asserts: ${Object.keys(ASSERT_TYPES).join(', ')}.`,
            ),
          baseline: baseline
            .optional()
            .describe(
              'Another version of the agent, on which the same cases run now: `latest` or one such as `v3`; or `observed`, for the recorded runs of cases with `run`. Default: the one in the manifest.',
            ),
          repeat: z.int().min(1).max(MAX_REPEAT).optional().describe('In place of `repeat` of the suites.'),
          budget_usd: z
            .number()
            .positive()
            .max(MAX_BUDGET_USD)
            .optional()
            .describe('In place of `budget_usd` of the suites.'),
        })
        .refine((sent) => sent.suites === undefined || sent.tests === undefined, {
          path: ['suites'],
          error: 'must not be given together with tests',
        }),
    },
    response: { 202: evaluation },
  },
  {
    ...row,
    operationId: 'listEvals',
    method: 'GET',
    path: EVALS,
    summary: 'List the evaluations of an agent, newest first',
    request: { query: z.object(paged(100, 20)) },
    response: { 200: z.object({ evals: z.array(evaluation), next_cursor: z.string().nullable() }) },
  },
  {
    ...row,
    operationId: 'getEval',
    method: 'GET',
    path: EVAL,
    summary: 'Show an evaluation: its verdict, counts and cost',
    response: { 200: evaluation },
  },
  {
    ...row,
    operationId: 'listEvalCases',
    method: 'GET',
    path: `${EVAL}/cases`,
    summary: 'List the cases of an evaluation with their runs and the results of their asserts',
    request: { query: z.object(paged(50, 20)) },
    response: { 200: z.object({ cases: z.array(evalCase), next_cursor: z.string().nullable() }) },
  },
  {
    ...row,
    operationId: 'abortEval',
    keyScope: 'run',
    method: 'POST',
    path: `${EVAL}/abort`,
    summary: 'Abort an evaluation, and cancel its runs; safe to repeat',
    response: { 200: evaluation },
  },
  {
    ...row,
    operationId: 'getEvalResults',
    method: 'GET',
    path: `${EVAL}/results`,
    summary: "Return the results in the form of promptfoo's results, version 3",
    response: {
      200: z.object({
        evalId: z.string(),
        results: z.object({
          version: z.literal(3),
          timestamp: time,
          stats: z.object({ successes: z.int(), failures: z.int(), errors: z.int() }),
          results: z.array(
            z.object({
              vars: z.record(z.string(), z.unknown()),
              provider: z.object({ id: z.string() }),
              response: z.object({ output: z.unknown() }),
              error: z.string().nullable(),
              success: z.boolean(),
              score: z.number(),
              latencyMs: z.number(),
              cost: z.number(),
              testIdx: z.int(),
              gradingResult: z
                .object({
                  pass: z.boolean(),
                  score: z.number(),
                  reason: z.string(),
                  componentResults: z.array(
                    z.object({
                      pass: z.boolean(),
                      score: z.number(),
                      reason: z.string(),
                      assertion: z.record(z.string(), z.unknown()),
                    }),
                  ),
                })
                .nullable(),
              testCase: z.object({
                description: z.string(),
                vars: z.record(z.string(), z.unknown()),
                assert: z.array(z.record(z.string(), z.unknown())),
              }),
              metadata: z.object({ run_id: z.string(), lane: z.string(), repeat: z.int() }),
            }),
          ),
        }),
      }),
    },
  },
]);
