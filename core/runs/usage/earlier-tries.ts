import { isoTime } from '#core/ports/clock.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import type { NewRun, Retries, RunResult, Spent } from '../run.ts';
import { addSpending, type Spending, spentMembers } from './spending.ts';

type TriedRun = Pick<NewRun, 'retries' | 'isDurable'>;

const MAX_MESSAGE_LENGTH = 500;

/** Adds the try of a run that ended with `result` to those that failed. */
export function withFailedTry(run: TriedRun, retries: Retries, result: RunResult, endedAt: number): Retries {
  const { triedAt, failed } = retries;
  const failedTry = {
    started_at: isoTime(triedAt),
    duration_ms: Math.max(0, endedAt - triedAt),
    error_code: result.errorCode!,
    error_message: (result.errorMessage ?? '').slice(0, MAX_MESSAGE_LENGTH),
    ...(result.costUsd !== undefined && { cost_usd: result.costUsd }),
  };
  return { ...retries, failed: [...failed, failedTry], spent: spentIn(withEarlierTries(run, result)) };
}

/** Adds what earlier tries spent to the result of a run. A durable run counts it itself, from its journal. */
export function withEarlierTries({ retries, isDurable }: TriedRun, result: RunResult): RunResult {
  const { spent } = retries ?? {};
  if (spent === undefined || isDurable) return result;
  const [before, added] = [spendingOf(spent), spendingOf(result)];
  const total = before && added ? addSpending(before, added) : (before ?? added);
  const hasRun = spent.executionMs !== null || result.executionMs !== null;
  return {
    ...result,
    ...(total && spentMembers(total)),
    executionMs: hasRun ? (spent.executionMs ?? 0) + (result.executionMs ?? 0) : null,
  };
}

const spentIn = (result: RunResult): Spent => ({
  ...spentMembers(spendingOf(result) ?? {}),
  executionMs: result.executionMs,
});

function spendingOf(spent: Spent): Spending | undefined {
  const { inputTokens, outputTokens = 0, cacheReadTokens, cacheWriteTokens, llmProvider, llmModel, costUsd } = spent;
  if (inputTokens === undefined || llmProvider === undefined || llmModel === undefined) return undefined;
  return {
    usage: {
      input_tokens: inputTokens,
      output_tokens: outputTokens,
      ...(cacheReadTokens !== undefined && { cache_read_tokens: cacheReadTokens }),
      ...(cacheWriteTokens !== undefined && { cache_write_tokens: cacheWriteTokens }),
    },
    model: { provider: llmProvider as LlmProvider, model: llmModel },
    costs: spent.costs ?? [],
    costUsd,
  };
}
