import type { ModelChoice } from '#core/models/choose.ts';
import { costOf } from '#core/models/prices.ts';
import type { LlmUsage } from '#core/ports/llm.ts';
import type { EngineResult } from './engine.ts';

/** The tokens of a run, the model that used them last, and their cost where a price is known. */
export type Spending = Required<Pick<EngineResult, 'usage' | 'model'>> & Pick<EngineResult, 'costUsd'>;

/** Before the first answer of `choice`. */
export const noSpending = ({ provider, model }: ModelChoice): Spending => ({
  usage: { input_tokens: 0, output_tokens: 0 },
  model: { provider, model },
  costUsd: 0,
});

/** Spending of one answer. */
export const spendingOf = ({ provider, model }: ModelChoice, usage: LlmUsage): Spending => ({
  usage: { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens },
  model: { provider, model },
  costUsd: costOf(provider, model, usage),
});

/** The sum has no cost if a part has none. */
export const addSpending = (before: Spending, added: Spending): Spending => ({
  usage: {
    input_tokens: before.usage.input_tokens + added.usage.input_tokens,
    output_tokens: before.usage.output_tokens + added.usage.output_tokens,
  },
  model: added.model,
  costUsd: before.costUsd === undefined || added.costUsd === undefined ? undefined : before.costUsd + added.costUsd,
});
