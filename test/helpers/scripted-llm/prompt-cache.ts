import models from '#core/models/models.json' with { type: 'json' };
import type { ModelFacts } from '#core/ports/model-table.ts';
import type { Asked, CacheRule } from './turns.ts';

/** Token counts of a request: uncached, read from the cache, written to the cache. */
interface Accounted {
  readonly rest: number;
  readonly read: number;
  readonly write: number;
}

const MINUTE_MS = 60_000;
const LIFE_MS = { '5m': 5 * MINUTE_MS, '1h': 60 * MINUTE_MS };
const RULES = {
  marks: { lifeMs: LIFE_MS['5m'], minimum: 1024 },
  prefix: { lifeMs: 30 * MINUTE_MS, minimum: 1024 },
  implicit: { lifeMs: 5 * MINUTE_MS, minimum: 4096 },
};
/** Number of parts to search backward from a mark, including its own. */
const LOOK_BACK = 20;
const STEP = 128;
/** Models for which OpenAI charges cache writes. */
const CHARGED_WRITES = /^gpt-(5\.[6-9]|[6-9])/;
const MAX_ENTRIES = 100_000;

interface Mark {
  readonly ttl?: '5m' | '1h';
}

/** Returns the marks of a part; a list of tools or system blocks is one part. */
export const marksOf = (part: unknown): readonly Mark[] => {
  if (Array.isArray(part)) return part.flatMap(marksOf);
  const { cache_control } = (part ?? {}) as { readonly cache_control?: Mark };
  return cache_control === undefined ? [] : [cache_control];
};

/** The providers' prompt caches, by account and model. */
export class PromptCache {
  readonly #now: () => number;
  /** Expiry of each prefix with its account and model, and the lifetime that each use renews. */
  readonly #entries = new Map<string, { until: number; readonly lifeMs: number }>();

  constructor(now: () => number) {
    this.#now = now;
  }

  clear(): void {
    this.#entries.clear();
  }

  /** Counts the tokens of a request that the model answers. */
  account(
    account: string,
    { model, parts, prefixes, ends }: Pick<Asked, 'model' | 'parts' | 'prefixes' | 'ends'>,
    { kind, route, mode }: CacheRule,
  ): Accounted {
    const total = ends.at(-1) ?? 0;
    const minimum = (models as Record<string, ModelFacts>)[model]?.cache_from ?? RULES[kind].minimum;
    const marks = parts.map((part) => marksOf(part).at(-1));
    const places = [...parts.keys()].filter((at) => (kind !== 'marks' || marks[at]) && ends[at]! >= minimum);
    if (places.length === 0) return { rest: total, read: 0, write: 0 };

    // The first two parts are tools and system message.
    const keyOf = (at: number) => JSON.stringify([account, model, route, at > 1 ? mode : '', prefixes[at]]);
    const from = kind === 'marks' ? places : places.slice(-1);
    const steps = kind === 'marks' ? LOOK_BACK : parts.length;
    const hit = Math.max(...from.map((place) => this.#foundAt(place, steps, keyOf)));
    for (const place of places) {
      const { ttl } = marks[place] ?? {};
      this.#keep(keyOf(place), ttl === undefined ? RULES[kind].lifeMs : LIFE_MS[ttl]);
    }
    const held = ends[hit] ?? 0;
    const read = kind === 'prefix' ? held - (held % STEP) : held;
    const isWritten = kind === 'marks' || (kind === 'prefix' && CHARGED_WRITES.test(model));
    const write = isWritten ? ends[places.at(-1)!]! - read : 0;
    return { rest: total - read - write, read, write };
  }

  /** Returns the last cached position, searching `steps` parts backward from `place`, or -1. */
  #foundAt(place: number, steps: number, keyOf: (at: number) => string): number {
    for (let at = place; at > place - steps && at >= 0; at--) {
      const entry = this.#entries.get(keyOf(at));
      if (entry === undefined || entry.until <= this.#now()) continue;
      entry.until = this.#now() + entry.lifeMs;
      return at;
    }
    return -1;
  }

  #keep(key: string, lifeMs: number): void {
    this.#entries.delete(key);
    if (this.#entries.size >= MAX_ENTRIES) this.#entries.delete(this.#entries.keys().next().value!);
    this.#entries.set(key, { until: this.#now() + lifeMs, lifeMs });
  }
}
