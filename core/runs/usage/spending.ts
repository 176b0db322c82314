import type { ModelChoice } from '#core/models/choose.ts';
import { pricedId } from '#core/models/transports.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmUsage } from '#core/ports/llm.ts';
import type { ModelCost } from '../run.ts';

/** `metadata.usage` of an answer. */
export interface TokenUsage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** Part of `input_tokens`, like the next member; absent if none. */
  readonly cache_read_tokens?: number;
  readonly cache_write_tokens?: number;
}

/** Spending of a run: tokens, and US dollars as far as prices are known. */
export interface Spending {
  /** Sum of all requests, even if the run failed. */
  readonly usage: TokenUsage;
  /** Model of the last request. */
  readonly model: Pick<ModelChoice, 'provider' | 'model'>;
  /** Providers' charges, by model. */
  readonly costs: readonly ModelCost[];
  /** The sum of `costs`; absent if a price is unknown. */
  readonly costUsd?: number;
}

/** Spending before the first answer of `choice`. */
export const noSpending = ({ provider, model }: ModelChoice): Spending => ({
  usage: { input_tokens: 0, output_tokens: 0 },
  model: { provider, model },
  costs: [],
  costUsd: 0,
});

/** Spending of one answer. */
export function spendingOf({ modelTable }: Pick<Deps, 'modelTable'>, choice: ModelChoice, usage: LlmUsage): Spending {
  const { provider, model } = choice;
  const costUsd = modelTable.costOf(provider, pricedId(choice), usage, choice.price);
  return {
    usage: {
      input_tokens: usage.inputTokens,
      output_tokens: usage.outputTokens,
      ...(usage.cacheReadTokens && { cache_read_tokens: usage.cacheReadTokens }),
      ...(usage.cacheWriteTokens && { cache_write_tokens: usage.cacheWriteTokens }),
    },
    model: { provider, model },
    costs: [{ provider, model, costUsd }],
    costUsd,
  };
}

/** Spending members of a run's record. */
export const spentMembers = ({ usage, model, costs, costUsd }: Partial<Spending>) => ({
  inputTokens: usage?.input_tokens,
  outputTokens: usage?.output_tokens,
  cacheReadTokens: usage?.cache_read_tokens,
  cacheWriteTokens: usage?.cache_write_tokens,
  llmProvider: model?.provider,
  llmModel: model?.model,
  costs,
  costUsd,
});

/** Adds up spending; the sum has no cost if a part has none. */
export const addSpending = (before: Spending, added: Spending): Spending => ({
  usage: addUsage(before.usage, added.usage),
  model: added.model,
  costs: added.costs.reduce(addCost, before.costs),
  costUsd: sumOf(before.costUsd, added.costUsd),
});

/** Adds costs of other things than models. */
export const withCosts = (spending: Spending, costs: readonly ModelCost[]): Spending =>
  costs.length === 0
    ? spending
    : {
        ...spending,
        costs: costs.reduce(addCost, spending.costs),
        costUsd: costs.reduce<number | undefined>((sum, { costUsd }) => sumOf(sum, costUsd), spending.costUsd),
      };

/** Requests with and without a known price are separate entries, so that the known cost is not lost. */
function addCost(costs: readonly ModelCost[], added: ModelCost): readonly ModelCost[] {
  const { provider, model, costUsd } = added;
  const index = costs.findIndex(
    (cost) =>
      cost.provider === provider && cost.model === model && (cost.costUsd === undefined) === (costUsd === undefined),
  );
  if (index < 0) return [...costs, added];
  return costs.with(index, { provider, model, costUsd: sumOf(costs[index]!.costUsd, costUsd) });
}

const sumOf = (before: number | undefined, added: number | undefined): number | undefined =>
  before === undefined || added === undefined ? undefined : before + added;

function addUsage(before: TokenUsage, added: TokenUsage): TokenUsage {
  const read = (before.cache_read_tokens ?? 0) + (added.cache_read_tokens ?? 0);
  const write = (before.cache_write_tokens ?? 0) + (added.cache_write_tokens ?? 0);
  return {
    input_tokens: before.input_tokens + added.input_tokens,
    output_tokens: before.output_tokens + added.output_tokens,
    ...(read > 0 && { cache_read_tokens: read }),
    ...(write > 0 && { cache_write_tokens: write }),
  };
}
