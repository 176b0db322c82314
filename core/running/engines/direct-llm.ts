import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { costOf } from '#core/models/prices.ts';
import { PROVIDER_NAMES } from '#core/models/providers.ts';
import { type AskDeps, askModels } from './ask-model.ts';
import type { EngineResult, EngineRun } from './engine.ts';
import { parseReply, renderPrompt } from './prompt.ts';
import { stopSignal } from './stop-signal.ts';

/** `contract.md` 11.4. */
const MAX_OUTPUT_TOKENS = 4096;
/** Where the model's thoughts count as output, too. */
const MAX_OUTPUT_TOKENS_WITH_THOUGHTS = 16_384;

/**
 * Runs a prompt agent: one message to a model, its reply as JSON (`contract.md` 11.4). A provider that takes no more
 * requests for now is replaced by the next of `run.models`. Throws the reason of `run.signal` once that is aborted, and
 * MISSING_INPUT_FIELDS; whatever else goes wrong is in the result.
 */
export async function runPrompt(deps: AskDeps, run: EngineRun): Promise<EngineResult> {
  const { agent, mask } = run;
  const startedAt = deps.clock.now();
  const text = renderPrompt(run.skills, agent.definition.prompt ?? '', run.input.document);
  const result = (rest: Pick<EngineResult, 'data' | 'error'> & Partial<EngineResult>): EngineResult => ({
    warnings: [],
    stdout: '',
    stderr: '',
    exitCode: null,
    executionMs: deps.clock.now() - startedAt,
    ...rest,
  });

  const stop = stopSignal(deps.clock, run, 'The model had not answered');
  try {
    const { choice, answer } = await askModels(deps, run, run.models, ({ provider }) => ({
      messages: [{ role: 'user', text }],
      maxOutputTokens: provider === 'anthropic' ? MAX_OUTPUT_TOKENS : MAX_OUTPUT_TOKENS_WITH_THOUGHTS,
      json: wantsJsonMode(run, text),
      signal: stop.signal,
    }));
    const { inputTokens, outputTokens } = answer.usage;
    const spent = {
      usage: { input_tokens: inputTokens, output_tokens: outputTokens },
      model: { provider: choice.provider, model: choice.model },
      costUsd: costOf(choice.provider, choice.model, answer.usage),
    };
    if (answer.finishReason === 'content_filter') {
      const message = `The model of ${PROVIDER_NAMES[choice.provider]} declined to answer.`;
      return result({ error: new PlatformError('LLM_ERROR', message), ...spent });
    }
    const isCut = answer.finishReason === 'length';
    const data = mask.json(parseReply(answer.text, agent.definition.output_schema !== null));
    const done = result({
      data,
      warnings: isCut
        ? [{ code: 'TRUNCATED', message: 'The answer was longer than the model may write at once, and is cut.' }]
        : [],
      ...spent,
    });
    run.emit({ type: 'done', usage: spent.usage, execution_time_ms: done.executionMs });
    return done;
  } catch (error) {
    run.signal.throwIfAborted();
    if (!isPlatformError(error)) throw error;
    const { provider, model } = run.models[0]!;
    return result({
      error: new PlatformError(error.code, mask.text(error.message), error.extra),
      model: { provider, model },
    });
  } finally {
    stop.release();
  }
}

/** Providers take the mode for objects only, and only for prompts that speak of JSON. */
function wantsJsonMode({ agent }: EngineRun, text: string): boolean {
  const schema = agent.definition.output_schema;
  return schema !== null && (schema.type ?? 'object') === 'object' && /json/i.test(text);
}
