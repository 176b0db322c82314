import { LlmFailure, type LlmRequest } from '#core/ports/llm.ts';
import { answererOf } from './providers.ts';

/** @param said Message of the provider, with its leading punctuation mark. */
export const contextWindowExceeded = (to: Pick<LlmRequest, 'provider' | 'transport'>, said = '.'): LlmFailure =>
  new LlmFailure('overflow', `The conversation is longer than the model of ${answererOf(to)} reads${said}`, {
    hint: 'Send less input, let tools print less, or use a model with a larger window.',
  });
