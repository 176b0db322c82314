import type { LlmMessage, LlmRequest, LlmTool } from '#core/ports/llm.ts';
import { onlyTool } from '../only-tool.ts';
import { assistantContent } from '../turn.ts';
import { hasFiles } from './provider.ts';

type Part = ReturnType<typeof assistantContent>[number];
interface Item {
  readonly [member: string]: unknown;
}

/** Whether a conversation has only texts, calls and results, and nothing that the SDK omits. */
export function isConversation(request: LlmRequest): boolean {
  const { messages, tools = [] } = request;
  const only = onlyTool(request).allowedTools?.toolNames[0];
  if (only !== undefined && tools.length > 0 && !tools.some(({ name }) => name === only)) return false;
  return messages.every((message) =>
    message.role === 'assistant' ? assistantContent(message, 'openai').every(isPlainPart) : !hasFiles(message),
  );
}

function isPlainPart(part: Part, index: number, parts: readonly Part[]): boolean {
  const { itemId, reasoningEncryptedContent, async, namespace, caller } = part.providerOptions?.openai ?? {};
  switch (part.type) {
    case 'text':
      return true;
    case 'reasoning': {
      const isSigned = typeof itemId === 'string' && typeof reasoningEncryptedContent === 'string';
      // An item with several summaries is sent back without empty ones.
      return isSigned && (part.text !== '' || !parts.slice(0, index).some((before) => isThought(before, itemId)));
    }
    case 'tool-call':
      // Only OpenAI's built-in tools are called in other ways.
      return typeof part.input !== 'string' && async == null && namespace == null && caller == null;
    default:
      return false;
  }
}

const isThought = (part: Part, itemId: string): boolean =>
  part.type === 'reasoning' && part.providerOptions?.openai?.itemId === itemId;

/** Returns the prompt without the tools. */
export const inputOf = ({ system, messages }: LlmRequest): Item[] => [
  ...(system === undefined ? [] : [{ role: 'developer', content: system }]),
  ...messages.flatMap(itemsOf),
];

function itemsOf(message: LlmMessage): Item[] {
  switch (message.role) {
    case 'user': {
      const texts = message.shared === undefined ? [message.text] : [message.shared, message.text];
      return [{ role: 'user', content: texts.map((text) => ({ type: 'input_text', text })) }];
    }
    case 'assistant':
      return itemsOfTurn(assistantContent(message, 'openai'));
    case 'tool':
      return message.results.map(({ id, text, isError }) => ({
        type: 'function_call_output',
        call_id: id,
        output: isError ? JSON.stringify({ error: text }) : text,
      }));
    case 'only':
      return [];
  }
}

/** Summaries of one item are sent back in one item. */
function itemsOfTurn(parts: readonly Part[]): Item[] {
  const thoughts = new Map<unknown, { readonly summary: object[]; encrypted_content: unknown }>();
  return parts.flatMap((part): Item[] => {
    const { itemId, phase, reasoningEncryptedContent } = part.providerOptions?.openai ?? {};
    switch (part.type) {
      case 'text':
        return [{ role: 'assistant', content: part.text, ...(phase != null && { phase }) }];
      case 'tool-call': {
        const { toolCallId, toolName, input } = part;
        return [{ type: 'function_call', call_id: toolCallId, name: toolName, arguments: JSON.stringify(input) }];
      }
      case 'reasoning': {
        const summary = part.text === '' ? [] : [{ type: 'summary_text', text: part.text }];
        const known = thoughts.get(itemId);
        if (known !== undefined) {
          known.summary.push(...summary);
          known.encrypted_content = reasoningEncryptedContent;
          return [];
        }
        const item = { type: 'reasoning', id: itemId, encrypted_content: reasoningEncryptedContent, summary };
        thoughts.set(itemId, item);
        return [item];
      }
      default:
        return [];
    }
  });
}

/** Returns the members of the request's body that concern tools. */
export function toolsOf(request: LlmRequest): object {
  const { tools = [], parallelToolCalls } = request;
  const only = onlyTool(request).allowedTools;
  return {
    ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
    ...(tools.length > 0 && { tools: tools.map(toolOf) }),
    ...(tools.length > 0 &&
      only && {
        tool_choice: {
          type: 'allowed_tools',
          mode: only.mode,
          tools: only.toolNames.map((name) => ({ type: 'function', name })),
        },
      }),
  };
}

const toolOf = ({ name, description, inputSchema, isStrict = false }: LlmTool): object =>
  // OpenAI's default rejects schemas with optional members, which authors use.
  ({ type: 'function', name, description, parameters: inputSchema, strict: isStrict });
