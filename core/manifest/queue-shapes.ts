import * as z from 'zod';
import { ON_LIMIT, type QueueRules } from './queue-rules.ts';

const MAX_LIMIT = 1000;
const MAX_COUNT = 100_000;
const MAX_SECONDS = 24 * 3600;
const MAX_POINTER_LENGTH = 200;
const LIMIT_RULE = `must be a whole number from 1 to ${MAX_LIMIT}`;
const COUNT_RULE = `must be a whole number from 1 to ${MAX_COUNT}`;
const SECONDS_RULE = `must be a whole number of seconds from 1 to ${MAX_SECONDS}`;
const KEY_RULE = `must be a JSON pointer into the input, such as /customer_id, of at most ${MAX_POINTER_LENGTH} characters`;
const ON_LIMIT_RULE = `must be one of ${ON_LIMIT.join(', ')}`;

/** Descriptions of the rules and their members. */
export const QUEUE_TEXTS = {
  concurrency: 'How many runs with the same key may be in progress at once.',
  limit: 'Number of runs with the same key that may be in progress at once: 1 to 1,000.',
  key: 'JSON pointer into the input, such as `/customer_id`: calls with the same value share the rule. Default: all calls do.',
  on_limit:
    'What happens to a call above the limit: `queue` (the default) lets it wait, `reject` refuses it, `replace` cancels the run in its way.',
  rate: 'How many runs with the same key may begin in each window of time.',
  count: 'Number of runs with the same key that may begin in each window: 1 to 100,000.',
  rate_seconds: 'Length of the window in seconds: 1 to 86,400.',
  debounce:
    'Of the calls with the same key that follow each other within this time, only the last one runs, if their callers do not wait.',
  debounce_seconds: 'Time without a further call after which the run begins, in seconds: 1 to 86,400.',
} as const;

const key = z
  .string(KEY_RULE)
  .max(MAX_POINTER_LENGTH, KEY_RULE)
  .regex(/^(\/([^~/]|~[01])*)+$/, KEY_RULE)
  .nullish()
  .describe(QUEUE_TEXTS.key);
const seconds = (text: string) =>
  z.int(SECONDS_RULE).min(1, SECONDS_RULE).max(MAX_SECONDS, SECONDS_RULE).describe(text);

/** The rules as manifests and schedules write them. */
export const queueShapes = {
  concurrency: z.strictObject({
    limit: z.int(LIMIT_RULE).min(1, LIMIT_RULE).max(MAX_LIMIT, LIMIT_RULE).describe(QUEUE_TEXTS.limit),
    key,
    on_limit: z.enum(ON_LIMIT, ON_LIMIT_RULE).nullish().describe(QUEUE_TEXTS.on_limit),
  }),
  rate: z.strictObject({
    count: z.int(COUNT_RULE).min(1, COUNT_RULE).max(MAX_COUNT, COUNT_RULE).describe(QUEUE_TEXTS.count),
    seconds: seconds(QUEUE_TEXTS.rate_seconds),
    key,
  }),
  debounce: z.strictObject({ seconds: seconds(QUEUE_TEXTS.debounce_seconds), key }),
};

const shownKey = z.string().optional().describe(QUEUE_TEXTS.key);

/** The rules as answers show them. */
export const queueViews = {
  concurrency: z.object({
    limit: z.int().describe(QUEUE_TEXTS.limit),
    key: shownKey,
    on_limit: z.enum(ON_LIMIT).describe(QUEUE_TEXTS.on_limit),
  }),
  rate: z.object({
    count: z.int().describe(QUEUE_TEXTS.count),
    seconds: z.int().describe(QUEUE_TEXTS.rate_seconds),
    key: shownKey,
  }),
  debounce: z.object({ seconds: z.int().describe(QUEUE_TEXTS.debounce_seconds), key: shownKey }),
};

type Given<Name extends keyof typeof queueShapes> = z.infer<(typeof queueShapes)[Name]> | null | undefined;

/** Returns the rules that are given, with their defaults. */
export const queueRulesOf = ({
  concurrency,
  rate,
  debounce,
}: {
  readonly concurrency?: Given<'concurrency'>;
  readonly rate?: Given<'rate'>;
  readonly debounce?: Given<'debounce'>;
}): QueueRules => ({
  ...(concurrency && { concurrency: { ...withoutNull(concurrency), on_limit: concurrency.on_limit ?? 'queue' } }),
  ...(rate && { rate: withoutNull(rate) }),
  ...(debounce && { debounce: withoutNull(debounce) }),
});

function withoutNull<Rule extends { readonly key?: string | null | undefined }>({
  key,
  ...rule
}: Rule): Omit<Rule, 'key'> & { key?: string } {
  return key == null ? rule : { ...rule, key };
}
