import { PlatformError } from '#core/base/errors.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { contextWindowExceeded } from '#core/models/context-window.ts';
import { type FittedSettings, fitSettings, type ModelSettings, settingsFor } from '#core/models/model-settings.ts';
import { rowOf } from '#core/models/providers.ts';
import type { Effort, LlmAnswer, LlmFailure, LlmRequest } from '#core/ports/llm.ts';
import type { EngineRun } from './engine.ts';
import type { AskDeps, AskedAt, ModelCalls } from './model-calls.ts';

/** Maximum output tokens of an answer, including thinking (`docs/interface/prompts.md#output-limit`). */
const DEFAULT_MAX_OUTPUT_TOKENS = 32_000;
/** Limit for a second attempt, after a model used all of {@link DEFAULT_MAX_OUTPUT_TOKENS} for thinking. */
const RAISED_MAX_OUTPUT_TOKENS = 64_000;

type Question = Pick<LlmRequest, 'system' | 'messages' | 'tools' | 'json' | 'outputSchema' | 'cache'>;
type Thoughts = Pick<LlmRequest, 'thoughts'>;

export interface AdaptiveAnswer {
  readonly choice: ModelChoice;
  readonly answer: LlmAnswer;
}

/** Asks the models of one run with enough tokens for thinking: an answer is never silently empty. */
export class AdaptiveModels {
  readonly #deps: AskDeps;
  readonly #run: EngineRun;
  readonly #calls: ModelCalls;
  /** Maximum output tokens of this run's models, learned from providers that rejected a higher limit. */
  readonly #learnedLimits = new Map<ModelChoice, number>();
  /** Models whose providers rejected a forced tool choice. */
  readonly #withoutForcedTool = new Set<ModelChoice>();
  /** Models whose providers rejected settings that they support according to the table. */
  readonly #withoutSettings = new Set<ModelChoice>();

  constructor(deps: AskDeps, run: EngineRun, calls: ModelCalls) {
    this.#deps = deps;
    this.#run = run;
    this.#calls = calls;
  }

  /**
   * Asks like {@link ModelCalls}. A model that used up its tokens for thinking is asked once more, with more tokens and
   * less
   * effort. Throws LLM_ERROR if it does so again or declines to answer, UNPROCESSABLE if the context window is full,
   * and what
   * `ModelCalls` throws.
   */
  async ask(
    models: readonly ModelChoice[],
    question: (choice: ModelChoice) => Question,
    at: AskedAt,
  ): Promise<AdaptiveAnswer> {
    const { choice, answer, limit } = await this.#ask(models, question, at, DEFAULT_MAX_OUTPUT_TOKENS);
    if (!isAllThought(answer)) return unlessDeclined(unlessFull({ choice, answer }, at));
    const { effort: wanted = 'medium' } = this.#settingsOf(choice);
    const thinksLess = this.#deps.modelTable.factsOf(choice.model).effort?.includes('low') && !isLow(wanted);
    const effort = thinksLess ? 'low' : undefined;
    const more = this.#limitOf(choice, RAISED_MAX_OUTPUT_TOKENS);
    if (more === limit && effort === undefined) throw usedUp(choice);
    this.#run.trace.add({
      event_type: 'decision',
      payload: { reason: 'used up its tokens thinking', max_output_tokens: more, ...(effort && { effort }) },
      provider: choice.provider,
      model: choice.model,
    });
    const second = await this.#ask([choice], question, at, RAISED_MAX_OUTPUT_TOKENS, effort);
    if (isAllThought(second.answer)) throw usedUp(choice);
    return unlessDeclined(unlessFull({ choice, answer: second.answer }, at));
  }

  /** Asks once. If a provider rejects an optional part or the form of a schema, asks once more without it. */
  async #ask(
    models: readonly ModelChoice[],
    question: (choice: ModelChoice) => Question,
    at: AskedAt,
    room: number,
    effort?: LlmRequest['effort'],
  ): Promise<{ choice: ModelChoice; answer: LlmAnswer; limit: number }> {
    let asked = models[0]!;
    const roomy = (model: ModelChoice) => {
      asked = model;
      return {
        ...this.#possible(question(model), model),
        ...this.#fitted(question(model), model, at),
        maxOutputTokens: this.#limitOf(model, room),
        ...(effort && { effort }),
      };
    };
    for (let left = models; ; left = models.slice(models.indexOf(asked))) {
      try {
        const { choice, answer } = await this.#calls.ask(left, roomy, at);
        return { choice, answer, limit: this.#limitOf(choice, room) };
      } catch (error) {
        if (!this.#hasLearnt(asked, error as Partial<LlmFailure>)) throw error;
      }
    }
  }

  /** Whether a failure reveals a limitation of the model's provider that was not known yet. */
  #hasLearnt(
    choice: ModelChoice,
    { maxOutputTokens, refusesOnly = false, isSchemaRefusal = false, refusesSettings = false }: Partial<LlmFailure>,
  ): boolean {
    // The port knows the weaker form, and reports no such failure for the weakest one.
    if (isSchemaRefusal) return true;
    if (maxOutputTokens !== undefined) {
      if (maxOutputTokens >= (this.#learnedLimits.get(choice) ?? Number.POSITIVE_INFINITY)) return false;
      this.#learnedLimits.set(choice, maxOutputTokens);
      return true;
    }
    if (refusesSettings && !this.#withoutSettings.has(choice)) {
      this.#withoutSettings.add(choice);
      this.#calls.warn([`${choice.model} rejected its settings and is asked without them.`]);
      return true;
    }
    if (!refusesOnly || this.#withoutForcedTool.has(choice)) return false;
    this.#withoutForcedTool.add(choice);
    return true;
  }

  #possible(question: Question, choice: ModelChoice): Question & Pick<LlmRequest, 'canBeForced'> {
    if (this.#withoutForcedTool.has(choice)) {
      return { ...question, messages: question.messages.filter(({ role }) => role !== 'only') };
    }
    const { forced_tools } = this.#deps.modelTable.factsOf(choice.model);
    return { ...question, ...(forced_tools !== undefined && { canBeForced: forced_tools }) };
  }

  #settingsOf({ provider }: ModelChoice): ModelSettings {
    const { agent, input } = this.#run;
    return settingsFor(provider, agent.definition.model_settings, input.llmCredentials?.settings);
  }

  /** Adapts the settings to the model. Without any, prompts use less thinking than the provider's default. */
  #fitted(
    { tools = [] }: Question,
    choice: ModelChoice,
    { turn, isUnseen = false }: AskedAt,
  ): FittedSettings['request'] & Thoughts {
    if (this.#withoutSettings.has(choice)) return {};
    const { parallel_tool_calls, ...settings } = this.#settingsOf(choice);
    const facts = this.#deps.modelTable.factsOf(choice.model);
    const asked = { ...settings, ...(tools.length > 0 && { parallel_tool_calls }) };
    const { request, warnings } = fitSettings(choice, facts, asked);
    this.#calls.warn(warnings);
    const isDefault = turn === undefined && settings.effort === undefined && facts.effort?.includes('medium');
    return {
      ...(isDefault && { effort: 'medium' }),
      ...request,
      ...(this.#run.isWatched && !isUnseen && facts.thoughts && { thoughts: true }),
    };
  }

  #limitOf(choice: ModelChoice, given: number): number {
    const room = this.#settingsOf(choice).max_output_tokens ?? given;
    const { max_output = room } = this.#deps.modelTable.factsOf(choice.model);
    return Math.min(room, max_output, this.#learnedLimits.get(choice) ?? room);
  }
}

const isLow = (effort: Effort): boolean => effort === 'none' || effort === 'low';

const isAllThought = ({ finishReason, text, toolCalls }: LlmAnswer): boolean =>
  finishReason === 'length' && text.trim() === '' && toolCalls.length === 0;

/** Throws if the context window is full, except for a prompt with a partial answer. */
function unlessFull(asked: AdaptiveAnswer, { turn }: AskedAt): AdaptiveAnswer {
  const { finishReason, text } = asked.answer;
  if (finishReason !== 'window' || (turn === undefined && text.trim() !== '')) return asked;
  throw contextWindowExceeded(asked.choice);
}

function unlessDeclined(asked: AdaptiveAnswer): AdaptiveAnswer {
  if (asked.answer.finishReason !== 'content_filter') return asked;
  const message = `The model of ${rowOf(asked.choice.provider).title} declined to answer.`;
  throw new PlatformError('LLM_ERROR', message, { is_retryable: false });
}

const usedUp = ({ provider }: ModelChoice): PlatformError =>
  new PlatformError('LLM_ERROR', `The model of ${rowOf(provider).title} used up its tokens thinking.`, {
    hint: 'Ask for less in one call, or choose a model that thinks less.',
    is_retryable: false,
  });
