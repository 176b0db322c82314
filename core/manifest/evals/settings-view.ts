import * as z from 'zod';

/** What answers show of the manifest member `evals`, apart from its rules: functions that only show it start without these. */

/** Maximum number of asserts about a run. */
export const MAX_ONLINE_ASSERTS = 20;

/** Descriptions of the members. */
export const EVAL_TEXTS = {
  evals: 'How its versions are evaluated.',
  gate: 'Whether a version becomes latest only once the suites in evals/ pass; false by default.',
  baseline: 'The version that evaluations compare with: "latest", or one such as "v3". None by default.',
} as const;

/** Descriptions of the members of `online`. */
export const ONLINE_TEXTS = {
  online: 'Scores of runs after their end, in production. None by default.',
  sample: 'Share of the runs that are scored, from 0 to 1.',
  budget_usd_per_day: 'What judges may cost in a day (UTC), in US dollars; 1 by default.',
  judge: 'Who judges rubrics: a model or an agent.',
  assert: `What is scored: 1 to ${MAX_ONLINE_ASSERTS} asserts, as in suites; {{name}} is a member of the run's input.`,
} as const;

const onlineView = z.object({
  sample: z.number().describe(ONLINE_TEXTS.sample),
  budget_usd_per_day: z.number().describe(ONLINE_TEXTS.budget_usd_per_day),
  judge: z
    .object({
      model: z.string().optional().describe('The model that judges.'),
      agent: z.string().optional().describe('The agent that judges, such as `main/my-judge@v3`.'),
    })
    .optional()
    .describe(ONLINE_TEXTS.judge),
  assert: z.array(z.record(z.string(), z.unknown())).describe(ONLINE_TEXTS.assert),
});

/** The member as answers show it. */
export const evalSettingsView = z.object({
  gate: z.literal(true).optional().describe(EVAL_TEXTS.gate),
  baseline: z.string().optional().describe(EVAL_TEXTS.baseline),
  online: onlineView.optional().describe(ONLINE_TEXTS.online),
});
