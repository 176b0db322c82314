import { dayOf } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider, LlmUsage } from '#core/ports/llm.ts';
import type { ModelFacts, ModelPrice, ModelTable } from '#core/ports/model-table.ts';
import { rowOf, withoutEdition } from './providers.ts';

/** An operator's table, as the host reads it. */
export interface ModelSource {
  /** Name for the log, without the parts of an address that may be secret. */
  readonly name: string;
  /** Returns the JSON text; rejects with an Error whose message says why it cannot be read. */
  readonly read: () => Promise<string>;
}

interface ModelTableOptions extends Pick<Deps, 'clock' | 'log' | 'background'> {
  /** `PLATFORM_MODELS`. @default - only the platform's own table */
  readonly source?: ModelSource;
  /** The platform's table, by model id. @default - `models.json`, from the first `refresh` on */
  readonly builtIn?: Readonly<Record<string, ModelFacts>>;
}

const HOUR_MS = 3_600_000;
/** Maximum number of ids in memory, because callers choose them. */
const MAX_UNPRICED = 100;

/** {@link ModelTable} that layers an operator's source over `models.json`. */
export class LayeredModelTable implements ModelTable {
  readonly #options: ModelTableOptions;
  #facts: ReadonlyMap<string, ModelFacts>;
  #builtIn: Promise<ReadonlyMap<string, ModelFacts>> | undefined;
  #first: Promise<void> | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  /** The day, and the models without a price that were logged on it. */
  #unpriced = { day: '', models: new Set<string>() };

  constructor(options: ModelTableOptions) {
    this.#options = options;
    this.#facts = new Map(Object.entries(options.builtIn ?? {}));
    if (options.builtIn !== undefined) this.#builtIn = Promise.resolve(this.#facts);
  }

  factsOf(model: string): ModelFacts {
    const name = model.replace(/^models\//, '');
    return this.#facts.get(name) ?? this.#facts.get(withoutEdition(name)) ?? {};
  }

  costOf(provider: LlmProvider, model: string, usage: LlmUsage, ownPrice?: ModelPrice): number | undefined {
    if (ownPrice === undefined && !rowOf(provider).hasPrices) return 0;
    const day = dayOf(this.#options.clock.now());
    const price = ownPrice ?? priceFor(this.factsOf(model).price ?? [], day, usage.inputTokens);
    if (price === undefined) {
      this.#logUnpriced(day, provider, model);
      return undefined;
    }
    const { inputTokens, outputTokens, cacheReadTokens = 0, cacheWriteTokens = 0 } = usage;
    const microdollars =
      (inputTokens - cacheReadTokens - cacheWriteTokens) * price.input +
      cacheReadTokens * price.cache_read +
      cacheWriteTokens * price.cache_write +
      outputTokens * price.output;
    return microdollars / 1e6;
  }

  async refresh(): Promise<void> {
    const { source, clock, background } = this.#options;
    this.#builtIn ??= this.#loadBuiltIn();
    await this.#builtIn;
    if (source === undefined) return;
    if (clock.now() - this.#readAt >= HOUR_MS) {
      this.#readAt = clock.now();
      const reading = background(this.#read(source));
      this.#first ??= reading;
    }
    await this.#first;
  }

  /** Loaded lazily: most functions of a deployed platform ask no models. */
  async #loadBuiltIn(): Promise<ReadonlyMap<string, ModelFacts>> {
    const { default: builtIn } = await import('./models.json', { with: { type: 'json' } });
    this.#facts = new Map(Object.entries(builtIn as Record<string, ModelFacts>));
    return this.#facts;
  }

  async #read({ name, read }: ModelSource): Promise<void> {
    try {
      const text = await read();
      // Loaded lazily: few operators have their own table.
      const { parseModels } = await import('./model-facts.ts');
      const own = Object.entries(parseModels(text));
      const facts = new Map(await this.#builtIn);
      for (const [id, members] of own) facts.set(id, { ...facts.get(id), ...members });
      this.#facts = facts;
    } catch (error) {
      const problem = (error as Error).message;
      this.#options.log.warn('the table of models could not be read: the last good one stays in use', {
        source: name,
        problem,
      });
    }
  }

  #logUnpriced(day: string, provider: LlmProvider, model: string): void {
    if (this.#unpriced.day !== day) this.#unpriced = { day, models: new Set() };
    const { models } = this.#unpriced;
    if (models.has(model) || models.size === MAX_UNPRICED) return;
    models.add(model);
    this.#options.log.warn('no price is known for a model: its runs have no cost', { provider, model });
  }
}

/** Selects, among the prices of the latest day that has begun, the highest band that applies to the request. */
function priceFor(prices: readonly ModelPrice[], day: string, inputTokens: number): ModelPrice | undefined {
  const begun = prices.filter(({ from = '' }) => from <= day);
  const newest = begun.reduce((latest, { from = '' }) => (from > latest ? from : latest), '');
  return begun
    .filter(({ from = '', above = 0 }) => from === newest && (above === 0 || inputTokens > above))
    .reduce<ModelPrice | undefined>(
      (best, price) => ((price.above ?? 0) >= (best?.above ?? 0) ? price : best),
      undefined,
    );
}
