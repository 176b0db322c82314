import { MESSAGE_FORM, type ProviderApi } from './api.ts';
import { chatCompletions, loadChatCompletions } from './chat-completions.ts';

export const ollama: ProviderApi = {
  ...chatCompletions,
  load: ({ ollamaSchemas }) => loadChatCompletions(ollamaSchemas),
  hasJsonMode: true,
  answerForms: (_model, schema, { ollamaSchemas }) =>
    ollamaSchemas ? [{ kind: 'native', schema }, MESSAGE_FORM] : [MESSAGE_FORM],
};
