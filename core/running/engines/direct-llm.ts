import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { PROVIDER_NAMES } from '#core/models/providers.ts';
import { type AskDeps, askModels } from './ask-model.ts';
import type { EngineResult, EngineRun } from './engine.ts';
import { renderPrompt } from './prompt.ts';
import { outputOfReply } from './reply.ts';
import { spendingOf } from './spending.ts';
import { type StopSignal, stopSignal } from './stop-signal.ts';

/** See `docs/interface/prompts.md#output-limit`. */
const MAX_OUTPUT_TOKENS = 4096;
/** For providers that count the model's reasoning as output. */
const MAX_OUTPUT_TOKENS_WITH_REASONING = 16_384;

/**
 * Runs a prompt agent: one message to a model, its reply as JSON (`docs/interface/prompts.md`). If a provider limits
 * its rate, the next of `run.models` is asked. Throws MISSING_INPUT_FIELDS, and the reason of `run.signal` once that is
 * aborted; other failures are in the result.
 */
export async function runPrompt(deps: AskDeps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  const text = renderPrompt(run.skills, run.agent.definition.prompt ?? '', run.input.document);
  const stop = stopSignal(deps.clock, run, 'The model had not answered');
  try {
    const outcome = await askOnce(deps, run, text, stop);
    const result = withoutProgram(outcome, deps.clock.now() - startedAt);
    if (result.error === undefined) {
      run.emit({ type: 'done', usage: result.usage, execution_time_ms: result.executionMs });
    }
    return result;
  } catch (error) {
    run.signal.throwIfAborted();
    if (!isPlatformError(error)) throw error;
    const { provider, model } = run.models[0]!;
    return withoutProgram(
      {
        warnings: [],
        error: new PlatformError(error.code, run.mask.text(error.message), error.extra),
        model: { provider, model },
      },
      deps.clock.now() - startedAt,
    );
  } finally {
    stop.release();
  }
}

type ModelOutcome = Omit<EngineResult, 'stdout' | 'stderr' | 'exitCode' | 'executionMs'>;

const withoutProgram = (outcome: ModelOutcome, executionMs: number): EngineResult => ({
  stdout: '',
  stderr: '',
  exitCode: null,
  executionMs,
  ...outcome,
});

async function askOnce(deps: AskDeps, run: EngineRun, text: string, stop: StopSignal): Promise<ModelOutcome> {
  const { choice, answer } = await askModels(deps, run, run.models, ({ provider }) => ({
    messages: [{ role: 'user', text }],
    maxOutputTokens: provider === 'anthropic' ? MAX_OUTPUT_TOKENS : MAX_OUTPUT_TOKENS_WITH_REASONING,
    json: wantsJsonMode(run, text),
    signal: stop.signal,
  }));
  const spending = spendingOf(choice, answer.usage);
  if (answer.finishReason === 'content_filter') {
    const message = `The model of ${PROVIDER_NAMES[choice.provider]} declined to answer.`;
    return { warnings: [], error: new PlatformError('LLM_ERROR', message), ...spending };
  }
  return { ...outputOfReply(run, answer), ...spending };
}

/** Providers accept JSON mode only for objects, and only if the prompt mentions JSON. */
function wantsJsonMode({ agent }: EngineRun, text: string): boolean {
  const schema = agent.definition.output_schema;
  return schema !== null && (schema.type ?? 'object') === 'object' && /json/i.test(text);
}
