import type { Effort, LlmProvider, LlmUsage } from './llm.ts';

/** Input types of models, in addition to text. */
export const MODEL_INPUTS = ['text', 'image', 'pdf', 'audio'] as const;
export type ModelInput = (typeof MODEL_INPUTS)[number];

/** When a model accepts a temperature: some do only with reasoning turned off. */
export const TEMPERATURES = ['always', 'without_thought', 'never'] as const;

/** US dollars per million tokens (`docs/models.md#the-table`). */
export interface ModelPrice {
  /** First UTC day of this price, such as `2026-12-01`. Absent: applies before all dated prices. */
  readonly from?: string;
  /** This price applies to the whole request if it has more input tokens than this. */
  readonly above?: number;
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
}

/** Known facts about a model. An absent member is unknown; a missing `price` is the same as an empty one. */
export interface ModelFacts {
  /** Tokens of input and output together. */
  readonly window?: number;
  /** Maximum tokens of one answer, thoughts included. */
  readonly max_output?: number;
  /** Minimum number of input tokens that the provider caches. */
  readonly cache_from?: number;
  readonly price?: readonly ModelPrice[];
  readonly inputs?: readonly ModelInput[];
  /** Whether a request may force the model to call a tool. */
  readonly forced_tools?: boolean;
  /** Supported values. Empty: the model has no such setting. */
  readonly effort?: readonly Effort[];
  readonly temperature?: (typeof TEMPERATURES)[number];
  /** Whether its thoughts can be shown without more reasoning. */
  readonly thoughts?: boolean;
}

/** Capabilities and prices of models: the platform's table, overridden by the operator's. */
export interface ModelTable {
  /** Returns the facts of a model, also for a dated edition. Empty if the model is not in the table. */
  factsOf(model: string): ModelFacts;
  /**
   * Returns the provider's charge for one request, in US dollars, at today's price. Returns `undefined` if no price is
   * known, which is logged once a day for each model. A local model costs nothing.
   *
   * @param ownPrice The workspace's own price, used instead of the table's.
   */
  costOf(provider: LlmProvider, model: string, usage: LlmUsage, ownPrice?: ModelPrice): number | undefined;
  /**
   * Reads the operator's table if it was not read in the last hour. Waits only for the first read; later ones run
   * in the background. Never throws: if a table is invalid or cannot be read, this is logged and the last good one
   * stays in use.
   */
  refresh(): Promise<void>;
}
