import type { LanguageModelV4CallOptions, LanguageModelV4Message } from '@ai-sdk/provider';
import type { LlmRequest } from '#core/ports/llm.ts';

/**
 * The parts of a request that let its model call only one tool, of an `only` message of the conversation. The list of tools
 * stays as it is: a change of it would lose the cache and, with some providers, the model's thoughts.
 */
export interface OnlyTool {
  /** In the place of the `only` message. */
  readonly messages: readonly LanguageModelV4Message[];
  readonly toolChoice?: LanguageModelV4CallOptions['toolChoice'];
  /** Of OpenAI. */
  readonly allowedTools?: { readonly toolNames: [string]; readonly mode: 'required' };
}

/** By the means that the provider has and the model takes; nothing where it has none. */
export function onlyTool({ provider, messages, tools = [], canBeForced }: LlmRequest): OnlyTool {
  const restriction = messages.findLast(({ role }) => role === 'only');
  if (restriction?.role !== 'only') return { messages: [] };
  const { tool } = restriction;
  if (provider === 'anthropic' && canBeForced !== true) {
    // https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
    const others = tools.filter(({ name }) => name !== tool);
    const toolChanges = others.map(({ name }) => ({ type: 'tool_removal', toolName: name }));
    if (toolChanges.length === 0) return { messages: [] };
    return { messages: [{ role: 'system', content: '', providerOptions: { anthropic: { toolChanges } } }] };
  }
  if (canBeForced === false) return { messages: [] };
  if (provider === 'openai') return { messages: [], allowedTools: { toolNames: [tool], mode: 'required' } };
  return { messages: [], toolChoice: { type: 'tool', toolName: tool } };
}
