import { MESSAGE_FORM, type ProviderApi } from './api.ts';
import { chatCompletions, loadChatCompletions } from './chat-completions.ts';

/** Any API that speaks OpenAI's chat completions: what it supports beyond them is not known. */
export const openaiCompatible: ProviderApi = {
  ...chatCompletions,
  load: () => loadChatCompletions(true),
  // LM Studio refuses the mode.
  hasJsonMode: false,
  // Some servers ignore a schema in `response_format`, others refuse it.
  answerForms: (_model, schema) => [{ kind: 'native', schema, isAlsoTold: true }, MESSAGE_FORM],
};
