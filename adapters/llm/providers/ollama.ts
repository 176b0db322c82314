import { forcedTool, MESSAGE_FORM, type ProviderApi } from './api.ts';
import { sdkOptions } from './sdk-options.ts';

export const ollama: ProviderApi = {
  async load({ ollamaSchemas }) {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    return ({ model }, wire) =>
      createOpenAICompatible({
        name: 'ollama',
        ...sdkOptions(wire),
        includeUsage: true,
        supportsStructuredOutputs: ollamaSchemas,
      })(model);
  },
  hasJsonMode: true,
  declaresLooseTools: false,
  // Not every local server supports lists of parts, and results in chat completions are text.
  takesParts: false,
  marksCache: false,
  answerForms: (_model, schema, { ollamaSchemas }) =>
    ollamaSchemas ? [{ kind: 'native', schema }, MESSAGE_FORM] : [MESSAGE_FORM],
  onlyTool: forcedTool,
  options: ({ effort, parallelToolCalls }) => ({
    ollama: {
      ...(effort && { reasoningEffort: effort }),
      ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
    },
  }),
};
