import { isObject, type Members } from '../direct/members.ts';
import type { Repair } from '../http-fetch.ts';
import { forcedTool, type ModelFactory, type ProviderApi } from './api.ts';
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

/** Name of these providers in the options of the AI SDK. */
const OPTIONS = 'chat';

/** Loads the AI SDK's client of OpenAI's chat completions. */
export async function loadChatCompletions(supportsStructuredOutputs: boolean): Promise<ModelFactory> {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
  return ({ model }, wire) =>
    createOpenAICompatible({
      name: OPTIONS,
      ...sdkOptions(wire, withTextArguments),
      includeUsage: true,
      supportsStructuredOutputs,
    })(model);
}

/** What all servers of chat completions have in common. */
export const chatCompletions = {
  declaresLooseTools: false,
  // Not every server supports lists of parts, and results in chat completions are text.
  takesParts: false,
  marksCache: false,
  writesCalls: true,
  onlyTool: forcedTool,
  options: ({ effort, parallelToolCalls }) => ({
    [OPTIONS]: {
      ...(effort && { reasoningEffort: effort }),
      ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
    },
  }),
} as const satisfies Partial<ProviderApi>;
