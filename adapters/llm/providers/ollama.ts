import { isObject, type Members } from '../direct/members.ts';
import type { Repair } from '../http-fetch.ts';
import { forcedTool, MESSAGE_FORM, type ProviderApi } from './api.ts';
import { sdkOptions } from './sdk-options.ts';

/** Writes the parameters of calls as JSON text, which some servers send as objects. */
const withTextArguments: Repair = (value) => {
  if (!Array.isArray(value.choices)) return value;
  const choices = value.choices.map((choice: Members) => {
    const fixed = (part: unknown): unknown =>
      isObject(part) && Array.isArray(part.tool_calls) ? { ...part, tool_calls: part.tool_calls.map(withText) } : part;
    const { message, delta } = choice;
    return {
      ...choice,
      ...(message !== undefined && { message: fixed(message) }),
      ...(delta !== undefined && { delta: fixed(delta) }),
    };
  });
  return { ...value, choices };
};

function withText(call: Members): Members {
  const { function: called } = call;
  if (!isObject(called) || !isObject(called.arguments)) return call;
  return { ...call, function: { ...called, arguments: JSON.stringify(called.arguments) } };
}

export const ollama: ProviderApi = {
  async load({ ollamaSchemas }) {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    return ({ model }, wire) =>
      createOpenAICompatible({
        name: 'ollama',
        ...sdkOptions(wire, withTextArguments),
        includeUsage: true,
        supportsStructuredOutputs: ollamaSchemas,
      })(model);
  },
  hasJsonMode: true,
  declaresLooseTools: false,
  // Not every local server supports lists of parts, and results in chat completions are text.
  takesParts: false,
  marksCache: false,
  writesCalls: true,
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
