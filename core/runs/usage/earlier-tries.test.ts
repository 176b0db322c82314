import { expect, test } from 'vitest';
import { firstTry } from '../retries.ts';
import { emptyResult, endedWith, type NewRun, type Retries, type RunResult } from '../run.ts';
import { withEarlierTries, withFailedTry } from './earlier-tries.ts';

const POLICY = { max: 3, backoff_seconds: [10], on: ['LLM_ERROR' as const] };
const FAILED = { status: 'failed', errorCode: 'LLM_ERROR', errorMessage: 'down' } as const;
const spent = (tokens: number, costUsd: number | undefined, more: Partial<RunResult> = {}): RunResult => ({
  ...emptyResult(FAILED, null),
  ...{ inputTokens: tokens, outputTokens: 1, llmProvider: 'anthropic', llmModel: 'big', costUsd },
  costs: [{ provider: 'anthropic', model: 'big', ...(costUsd !== undefined && { costUsd }) }],
  ...more,
});
const runWith = (retries: Retries, isDurable?: true): Pick<NewRun, 'retries' | 'isDurable'> => ({
  retries,
  ...(isDurable && { isDurable }),
});

test('a run has spent what all its tries have', () => {
  let retries = firstTry(POLICY, 1_000);
  retries = withFailedTry(runWith(retries), retries, spent(100, 0.5, { executionMs: 30, cacheReadTokens: 7 }), 3_000);
  expect(retries.failed).toEqual([
    {
      started_at: '1970-01-01T00:00:01.000Z',
      ...{ duration_ms: 2_000, error_code: 'LLM_ERROR', error_message: 'down', cost_usd: 0.5 },
    },
  ]);
  retries = { ...retries, triedAt: 13_000 };
  // The model was not even asked.
  retries = withFailedTry(runWith(retries), retries, emptyResult(FAILED, null), 13_500);
  expect(retries.failed[1]).not.toHaveProperty('cost_usd');
  const done = { ...spent(10, 0.25, { executionMs: 5 }), ...endedWith(undefined) };
  expect(withEarlierTries(runWith(retries), done)).toMatchObject({
    ...{ status: 'completed', inputTokens: 110, outputTokens: 2, cacheReadTokens: 7, executionMs: 35, costUsd: 0.75 },
    costs: [{ provider: 'anthropic', model: 'big', costUsd: 0.75 }],
  });
});

test('a cost that is not known stays unknown, and tokens do not', () => {
  const first = firstTry(POLICY, 0);
  const retries = withFailedTry(runWith(first), first, spent(100, undefined), 10);
  const total = withEarlierTries(runWith(retries), spent(10, 0.25));
  expect([total.inputTokens, total.costUsd, total.costs?.length]).toEqual([110, undefined, 2]);
});

test('a durable run counts what it spent itself', () => {
  const first = firstTry(POLICY, 0);
  const retries = withFailedTry(runWith(first, true), first, spent(100, 0.5), 10);
  const result = spent(130, 0.75);
  expect(withEarlierTries(runWith(retries, true), result)).toBe(result);
});

test('a run without failed tries is as it was', () => {
  const result = spent(1, 1);
  expect(withEarlierTries({}, result)).toBe(result);
  expect(withEarlierTries(runWith(firstTry(POLICY, 0)), result)).toBe(result);
});
