/**
 * `node scripts/models-table.ts FILE`: prints a table of models (docs/models.md#the-table) from the `api.json` of
 * models.dev, or from LiteLLM's `model_prices_and_context_window.json`.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type ModelFactsById, parseModels } from '#core/models/model-facts.ts';
import { EFFORTS } from '#core/ports/llm.ts';
import { MODEL_INPUTS, type ModelFacts, type ModelPrice } from '#core/ports/model-table.ts';

/** Rounds to a millionth of a dollar per million tokens, because sources with prices per token have rounding errors. */
const rounded = (price: number): number => Number(price.toFixed(6));

/** Reads either format. Throws an Error if it is neither, or has no usable model. */
export function tableFrom(text: string): ModelFactsById {
  const source = JSON.parse(text) as Record<string, { readonly models?: unknown }>;
  const isModelsDev = Object.values(source).some((entry) => typeof entry?.models === 'object');
  const table = isModelsDev ? fromModelsDev(source as ModelsDev) : fromLiteLlm(source as LiteLlm);
  if (Object.keys(table).length === 0) {
    throw new Error(
      "there is no model of Anthropic, OpenAI or Gemini in it: is it models.dev's api.json, or LiteLLM's?",
    );
  }
  return parseModels(JSON.stringify(table));
}

interface Rates {
  readonly input?: number;
  readonly output?: number;
  readonly cache_read?: number;
  readonly cache_write?: number;
}

/** Format of https://models.dev/api.json: dollars per million tokens. */
interface ModelsDevModel {
  readonly cost?: Rates & {
    readonly tiers?: readonly (Rates & { readonly tier?: { readonly type?: string; readonly size?: number } })[];
    readonly context_over_200k?: Rates;
  };
  readonly limit?: { readonly context?: number; readonly output?: number };
  readonly modalities?: { readonly input?: readonly string[] };
  readonly reasoning_options?: readonly { readonly type?: string; readonly values?: readonly (string | null)[] }[];
}
type ModelsDev = Readonly<Record<string, { readonly models?: Readonly<Record<string, ModelsDevModel>> }>>;

const MODELS_DEV_PROVIDERS = ['anthropic', 'openai', 'google'];

function fromModelsDev(source: ModelsDev): ModelFactsById {
  const models = MODELS_DEV_PROVIDERS.flatMap((provider) => Object.entries(source[provider]?.models ?? {}));
  return table(models, ({ cost = {}, limit = {}, modalities, reasoning_options: options }) => {
    const tiers = (cost.tiers ?? []).flatMap(({ tier, ...rates }) =>
      tier?.type === 'context' ? { above: tier.size, rates } : [],
    );
    const older = cost.context_over_200k === undefined ? [] : [{ above: 200_000, rates: cost.context_over_200k }];
    const efforts = options?.find(({ type }) => type === 'effort')?.values;
    return {
      window: limit.context,
      max_output: limit.output,
      price: prices(cost, tiers.length > 0 ? tiers : older),
      inputs: modalities?.input && MODEL_INPUTS.filter((name) => modalities.input!.includes(name)),
      effort: efforts && EFFORTS.filter((name) => efforts.includes(name)),
    };
  });
}

/** Format of LiteLLM's price map: dollars per token. */
type LiteLlmModel = Readonly<Record<string, string | number | boolean | undefined>>;
type LiteLlm = Readonly<Record<string, LiteLlmModel>>;

const LITELLM_PROVIDERS = ['anthropic', 'openai', 'gemini'];
const ABOVE = /^input_cost_per_token_above_(\d+)k_tokens$/;

function fromLiteLlm(source: LiteLlm): ModelFactsById {
  const models = Object.entries(source).flatMap(([id, model]): [string, LiteLlmModel][] => {
    const { litellm_provider: provider, mode } = model;
    const isUsable = LITELLM_PROVIDERS.includes(String(provider)) && (mode === 'chat' || mode === 'responses');
    const name = id.replace(`${provider}/`, '');
    // Remaining names with a slash are a Region or service tier of the same model.
    return isUsable && !name.includes('/') ? [[name, model]] : [];
  });
  return table(models, (model) => {
    const number = (member: string): number | undefined => {
      const value = model[member];
      return typeof value === 'number' ? value : undefined;
    };
    const rates = (suffix: string): Rates => {
      const perMillion = (member: string) => {
        const perToken = number(member + suffix);
        return perToken === undefined ? undefined : perToken * 1e6;
      };
      return {
        input: perMillion('input_cost_per_token'),
        output: perMillion('output_cost_per_token'),
        cache_read: perMillion('cache_read_input_token_cost'),
        cache_write: perMillion('cache_creation_input_token_cost'),
      };
    };
    const bands = Object.keys(model).flatMap((member) => {
      const thousands = ABOVE.exec(member)?.[1];
      const above = { above: Number(thousands) * 1000, rates: rates(`_above_${thousands}k_tokens`) };
      return thousands === undefined ? [] : above;
    });
    const inputs: Record<string, boolean> = {
      text: true,
      image: model.supports_vision === true,
      pdf: model.supports_pdf_input === true,
      audio: model.supports_audio_input === true,
    };
    return {
      window: number('max_input_tokens'),
      max_output: number('max_output_tokens'),
      price: prices(rates(''), bands),
      inputs: MODEL_INPUTS.filter((name) => inputs[name]),
    };
  });
}

/** Returns the facts of the models that have a price; members missing in the source are omitted. */
function table<Model>(models: readonly [string, Model][], factsOf: (model: Model) => ModelFacts): ModelFactsById {
  const entries = models.flatMap(([id, model]) => {
    const facts = factsOf(model);
    if (facts.price === undefined || facts.price.length === 0) return [];
    const known = Object.entries(facts).filter(([, value]) => value !== undefined && value !== 0);
    return [[id, Object.fromEntries(known)] as const];
  });
  return Object.fromEntries(entries);
}

/** Bands default to the base prices; cache reads and writes default to the input price. */
function prices(
  base: Rates,
  bands: readonly { readonly above: number | undefined; readonly rates: Rates }[],
): ModelPrice[] {
  const priceOf = (rates: Rates, above?: number): ModelPrice[] => {
    const { input = base.input, output = base.output } = rates;
    if (input === undefined || output === undefined) return [];
    const scale = base.input ? input / base.input : 1;
    const cached = (rate: number | undefined, basic: number | undefined) =>
      rounded(rate ?? (basic === undefined ? input : basic * scale));
    return [
      {
        ...(above !== undefined && { above }),
        input: rounded(input),
        output: rounded(output),
        cache_read: cached(rates.cache_read, base.cache_read),
        cache_write: cached(rates.cache_write, base.cache_write),
      },
    ];
  };
  return [...priceOf(base), ...bands.flatMap(({ rates, above }) => (above === undefined ? [] : priceOf(rates, above)))];
}

if (import.meta.main) {
  const { positionals } = parseArgs({ allowPositionals: true });
  if (positionals.length !== 1) {
    process.stderr.write('Usage: node scripts/models-table.ts FILE > models.json\n');
    process.exit(2);
  }
  try {
    const models = tableFrom(readFileSync(positionals[0]!, 'utf8'));
    process.stdout.write(`${JSON.stringify(models, null, 1)}\n`);
    process.stderr.write(`${Object.keys(models).length} models\n`);
  } catch (error) {
    process.stderr.write(`${positionals[0]}: ${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}
