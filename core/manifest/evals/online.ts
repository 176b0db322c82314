import * as z from 'zod';
import { SCORE_WORD, SCORE_WORD_RULE } from '#core/base/score-word.ts';
import type { FieldError } from '../field-error.ts';
import { assertShape, judgeShape, readAssert, type WrittenAssert } from './read-assert.ts';
import { MAX_ONLINE_ASSERTS } from './settings-view.ts';
import { isJudged, type Judge, rowOfAssert } from './suite.ts';

/** How runs are scored after their end (`docs/interface/online-evals.md`). */
export type OnlineSettings = {
  /** Share of the runs, from 0 to 1. */
  sample: number;
  /** What judges may cost in a day (UTC), in US dollars. */
  budget_usd_per_day: number;
  judge?: Judge;
  assert: WrittenAssert[];
};

/** The score that sums up the others. No assert may have its name as `metric`. */
export const ONLINE_SCORE = 'online';

/** All asserts as JSON: a definition is read in each call. */
const MAX_ONLINE_BYTES = 32 * 1024;
/** Applies to a manifest that names none: a forgotten limit must not become a bill. */
const DEFAULT_BUDGET_USD_PER_DAY = 1;
const MAX_BUDGET_USD_PER_DAY = 1000;

const SAMPLE_RULE = 'must be a number from 0 to 1, such as 0.05';
const BUDGET_RULE = `must be a number of US dollars from 0 to ${MAX_BUDGET_USD_PER_DAY}`;
const ASSERT_RULE = `must be a list of 1 to ${MAX_ONLINE_ASSERTS} asserts`;

/** The member as manifests write it. */
export const onlineShape = z.strictObject(
  {
    sample: z.number(SAMPLE_RULE).min(0, SAMPLE_RULE).max(1, SAMPLE_RULE),
    budget_usd_per_day: z.number(BUDGET_RULE).min(0, BUDGET_RULE).max(MAX_BUDGET_USD_PER_DAY, BUDGET_RULE).nullish(),
    judge: judgeShape.nullish(),
    assert: z.array(assertShape, ASSERT_RULE).min(1, ASSERT_RULE).max(MAX_ONLINE_ASSERTS, ASSERT_RULE),
  },
  'must be an object with sample, budget_usd_per_day, judge and assert',
);

export const onlineSettingsOf = ({
  sample,
  budget_usd_per_day,
  judge,
  assert,
}: z.output<typeof onlineShape>): OnlineSettings => ({
  sample,
  budget_usd_per_day: budget_usd_per_day ?? DEFAULT_BUDGET_USD_PER_DAY,
  ...(judge != null && { judge }),
  assert,
});

/** Returns what the shape does not say: the rules of each assert. */
export function onlineProblems({ assert, judge }: OnlineSettings, hasLoop: boolean): FieldError[] {
  const problems = assert.flatMap((each, index): FieldError[] => {
    const at = (member: string, message: string) => [{ field: `evals.online.assert[${index}].${member}`, message }];
    if (typeof each.value === 'string' && each.value.startsWith('file://')) {
      return at('value', 'must be the value itself: a manifest has no file:// values');
    }
    const read = readAssert(each);
    if ('why' in read) return at(read.member, read.why);
    if (rowOfAssert(read.type).readsTrace && !hasLoop) {
      return at('type', `must be another one: ${each.type} is about tools, which only loops have`);
    }
    if (isJudged(read) && judge === undefined) {
      return [
        {
          field: 'evals.online.judge',
          message: 'must be given, such as {"model": "claude-haiku-5.5"}: an assert is an llm-rubric',
        },
      ];
    }
    if (read.metric === ONLINE_SCORE) return at('metric', `must be another word: ${ONLINE_SCORE} is the mean of all`);
    if (read.metric !== undefined && !SCORE_WORD.test(read.metric)) return at('metric', SCORE_WORD_RULE);
    return [];
  });
  if (assert.every(({ weight }) => weight === 0)) {
    problems.push({ field: 'evals.online.assert', message: 'must have an assert whose weight is more than 0' });
  }
  if (Buffer.byteLength(JSON.stringify(assert)) > MAX_ONLINE_BYTES) {
    problems.push({ field: 'evals.online.assert', message: `must be at most ${MAX_ONLINE_BYTES} bytes of JSON` });
  }
  return problems;
}
