import type { Json } from '#core/base/json.ts';
import { COMPATIBLE_COST_LETTER } from '#core/models/providers/openai-compatible.ts';
import { rowOf, withoutEdition } from '#core/models/providers.ts';
import {
  COMPATIBLE,
  isCompatible,
  isLlmProvider,
  type LlmProvider,
  PROVIDER_KINDS,
  type ProviderKind,
} from '#core/ports/llm.ts';
import type { ModelCost, RunResult } from '../run.ts';
import * as bins from './bins.ts';

/**
 * Costs of runs at model providers as numbers that a roll-up can add up, in millionths of a US dollar. Names are short:
 * DynamoDB bills each write per started kilobyte of its item. With the letter of a provider (`costLetter`), here `a`:
 *
 * - `na:<model>` number of runs that this model answered, `ca:<model>` their cost: a run counts for each of its models;
 * - `ba<bin>` number of runs by total cost ({@link binOf}), `sa` the sum of these costs: every run with a known cost
 * counts
 *   once, for the provider that answered last.
 *
 * Callers choose models, and items have a maximum size: only names in the price table are stored, without their
 * editions.
 */
const letterOf = (provider: LlmProvider | typeof COMPATIBLE): string =>
  provider === COMPATIBLE ? COMPATIBLE_COST_LETTER : rowOf(provider).costLetter;

const LETTERS = PROVIDER_KINDS.map(letterOf).join('');
const SUM_NAME = new RegExp(`^([nc][${LETTERS}]:.|b[${LETTERS}]\\d|s[${LETTERS}]$)`);

/** Name under which all other models are counted. */
const OTHER = 'other';
const MAX_NAME_LENGTH = 64;
/** Number of bins per doubling of the cost. */
const BINS_PER_OCTAVE = 4;

/** Part of a run's result that describes model costs. */
type RunCosts = Pick<RunResult, 'costs' | 'costUsd' | 'llmProvider'>;

/** Costs of an agent's runs at one provider; all providers that workspaces set up count together. */
export interface ProviderCosts {
  readonly provider: ProviderKind;
  /** Runs that ended with this provider and have a known cost. */
  readonly runs: number;
  readonly microUsd: number;
  /** Bin -> number of runs. */
  readonly bins: ReadonlyMap<number, number>;
  readonly models: readonly { readonly model: string; readonly runs: number; readonly microUsd: number }[];
}

const microUsd = (usd: number): number => Math.round(usd * 1e6);

/** Returns the totals for every roll-up: the known cost, and whether a part of the cost is unknown. */
export function costTotals({ costs = [] }: RunCosts): { model_microusd: number; unpriced_runs: number } {
  const known = costs.flatMap(({ costUsd }) => costUsd ?? []);
  return {
    model_microusd: known.reduce((sum, cost) => sum + microUsd(cost), 0),
    unpriced_runs: Number(known.length < costs.length),
  };
}

/** Costs of a run whose answers all came from one model, which follow from other members of its record. */
const costsOfOneModel = ({ llmProvider, llmModel, costUsd }: Omit<StoredCosts, 'costs'>): readonly ModelCost[] =>
  llmModel === undefined
    ? []
    : [{ provider: llmProvider as LlmProvider, model: llmModel, ...(costUsd !== undefined && { costUsd }) }];

type StoredCosts = Pick<RunResult, 'costs' | 'costUsd' | 'llmProvider' | 'llmModel'>;

const fieldsOf = (costs: readonly ModelCost[]): Json[] =>
  costs.map(({ provider, model, costUsd }) => [provider, model, costUsd ?? null]);

/** Returns the costs by model for a run's record; `undefined` if they follow from its other members. */
export function storedCosts(result: StoredCosts): Json | undefined {
  const costs = fieldsOf(result.costs ?? []);
  return JSON.stringify(costs) === JSON.stringify(fieldsOf(costsOfOneModel(result))) ? undefined : costs;
}

/** Reads what {@link storedCosts} stored. */
export function costsFrom(stored: Json | undefined, others: Omit<StoredCosts, 'costs'>): readonly ModelCost[] {
  if (stored === undefined) return costsOfOneModel(others);
  return (stored as [LlmProvider, string, number | null][]).map(([provider, model, costUsd]) => ({
    provider,
    model,
    ...(costUsd !== null && { costUsd }),
  }));
}

/** Returns the details for the roll-up that estimates are based on. */
export function costDetails({ costs = [], costUsd, llmProvider }: RunCosts): Record<string, number> {
  const sums: Record<string, number> = {};
  const add = (name: string, amount: number): void => {
    sums[name] = (sums[name] ?? 0) + amount;
  };
  // Searches have no model.
  const priced = costs.filter(
    (cost): cost is ModelCost & { readonly provider: LlmProvider } =>
      cost.costUsd !== undefined && isLlmProvider(cost.provider),
  );
  const named = Map.groupBy(priced, ({ provider, model }) => `${letterOf(provider)}:${nameOf(provider, model)}`);
  for (const [name, own] of named) {
    add(`n${name}`, 1);
    for (const cost of own) add(`c${name}`, microUsd(cost.costUsd!));
  }
  const last = llmProvider !== undefined && isLlmProvider(llmProvider) ? llmProvider : undefined;
  if (last !== undefined && costUsd !== undefined && costs.length > 0) {
    const whole = costTotals({ costs }).model_microusd;
    add(`b${letterOf(last)}${binOf(whole)}`, 1);
    add(`s${letterOf(last)}`, whole);
  }
  return sums;
}

/** Reads the sums of {@link costDetails} from these items, by provider. */
export function readCosts(items: readonly { readonly [attribute: string]: unknown }[]): ProviderCosts[] {
  const sums = new Map<string, number>();
  for (const item of items) {
    for (const [name, value] of Object.entries(item)) {
      if (SUM_NAME.test(name)) sums.set(name, (sums.get(name) ?? 0) + (value as number));
    }
  }
  return PROVIDER_KINDS.flatMap((provider) => {
    const letter = letterOf(provider);
    const parts = (prefix: string) =>
      [...sums].flatMap(([name, value]): [string, number][] =>
        name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [],
      );
    const bins = new Map(parts(`b${letter}`).map(([bin, runs]) => [Number(bin), runs]));
    const models = parts(`n${letter}:`).map(([model, runs]) => ({
      model,
      runs,
      microUsd: sums.get(`c${letter}:${model}`) ?? 0,
    }));
    if (bins.size === 0 && models.length === 0) return [];
    const runs = bins.values().reduce((sum, count) => sum + count, 0);
    return [{ provider, runs, microUsd: sums.get(`s${letter}`) ?? 0, bins, models }];
  });
}

/**
 * Name under which a model is counted. Models of a local server, or of a provider that a workspace set up, may have any
 * name.
 */
function nameOf(provider: LlmProvider, model: string): string {
  const name = withoutEdition(model.replace(/^models\//, ''));
  const isCounted = rowOf(provider).hasPrices && !isCompatible(provider) && name.length <= MAX_NAME_LENGTH;
  return isCounted ? name : OTHER;
}

const binOf = (cost: number): number => bins.binOf(cost, BINS_PER_OCTAVE);

/**
 * Returns a cost percentile, with `share` from 0 to 1, in millionths of a US dollar; at most 9.1 % (2^(1/8)) away from
 * the
 * cost of the run of this rank.
 */
export const costPercentile = (ofCosts: ReadonlyMap<number, number>, share: number): number =>
  bins.percentile(ofCosts, share, BINS_PER_OCTAVE);
