import { expect, test } from 'vitest';
import type { LlmProvider } from '#core/ports/llm.ts';
import type { ModelTable } from '#core/ports/model-table.ts';
import { addSpending, noSpending, spendingOf } from './spending.ts';

const prices: Record<string, number> = { cheap: 1, dear: 10 };
const modelTable: ModelTable = {
  factsOf: () => ({}),
  costOf: (_, model, { inputTokens }) => (model in prices ? inputTokens * prices[model]! : undefined),
  refresh: async () => {},
};
const spent = (...answers: [LlmProvider, model: string, tokens: number][]) =>
  answers
    .map(([provider, model, inputTokens]) =>
      spendingOf({ modelTable }, { provider, model }, { inputTokens, outputTokens: 0 }),
    )
    .reduce(addSpending, noSpending({ provider: 'anthropic', model: 'cheap' }));

test('the cost of a run is known by model, and as a sum', () => {
  expect(spent()).toMatchObject({ costs: [], costUsd: 0 });
  expect(spent(['anthropic', 'cheap', 1], ['openai', 'dear', 1], ['anthropic', 'cheap', 2])).toMatchObject({
    costs: [
      { provider: 'anthropic', model: 'cheap', costUsd: 3 },
      { provider: 'openai', model: 'dear', costUsd: 10 },
    ],
    costUsd: 13,
    model: { provider: 'anthropic', model: 'cheap' },
  });
});

test('known prices stay known beside unknown ones', () => {
  const { costs, costUsd } = spent(['openai', 'new', 5], ['openai', 'dear', 1], ['openai', 'new', 5]);
  expect(costs).toEqual([
    { provider: 'openai', model: 'new', costUsd: undefined },
    { provider: 'openai', model: 'dear', costUsd: 10 },
  ]);
  expect(costUsd).toBeUndefined();
});
