import type { Effort, LlmProvider, LlmUsage } from './llm.ts';

/** What a model takes as input, beside text. */
export const MODEL_INPUTS = ['text', 'image', 'pdf', 'audio'] as const;
export type ModelInput = (typeof MODEL_INPUTS)[number];

/** When a model takes a temperature: some do only if they are told not to think. */
export const TEMPERATURES = ['always', 'without_thought', 'never'] as const;

/** US dollars per million tokens (`docs/models.md#the-table`). */
export interface ModelPrice {
  /** The UTC day that this price begins, such as `2026-12-01`. Absent: before all prices that have a day. */
  readonly from?: string;
  /** This price is for whole requests of more input tokens than this. */
  readonly above?: number;
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
}

/** What is known of a model. A member that is absent is not known; no `price` is the same as an empty one. */
export interface ModelFacts {
  /** Tokens of input and output together. */
  readonly window?: number;
  /** Tokens of one answer, thoughts included. */
  readonly max_output?: number;
  /** Input tokens from which the provider keeps what it read in a cache. */
  readonly cache_from?: number;
  readonly price?: readonly ModelPrice[];
  readonly inputs?: readonly ModelInput[];
  /** Whether a request may force the model to call a tool. */
  readonly forced_tools?: boolean;
  /** Empty: the model takes no such setting. */
  readonly effort?: readonly Effort[];
  readonly temperature?: (typeof TEMPERATURES)[number];
  /** Whether its thoughts can be shown without making it think more. */
  readonly thoughts?: boolean;
}

/** Capabilities and prices of models: the platform's own table, with the operator's over it. */
export interface ModelTable {
  /** Facts of a model, also by the name of a dated edition of it. A model that is not in the table has none. */
  factsOf(model: string): ModelFacts;
  /**
   * The provider's charge for one request, in US dollars, at today's price. `undefined` if no price is known, which is
   * logged once a day for each model. A local model costs nothing.
   */
  costOf(provider: LlmProvider, model: string, usage: LlmUsage): number | undefined;
  /**
   * Reads the operator's table if it was not read in the last hour. Waits for the first reading only; later ones happen
   * in the background. Never throws: a table that cannot be read or is wrong is logged, and the last good one stays.
   */
  refresh(): Promise<void>;
}
