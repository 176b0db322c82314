import type { LlmMessage, LlmRequest, LlmTool } from '#core/ports/llm.ts';
import { breakpointsOf } from '../breakpoints.ts';
import { assistantContent } from '../turn.ts';
import { hasFiles } from './provider.ts';

type Part = ReturnType<typeof assistantContent>[number];
type Block = { readonly type: string; readonly [member: string]: unknown };
interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: Block[];
}

const BREAKPOINT = { cache_control: { type: 'ephemeral' } };
/** Makes models follow the schemas of strict tools. The SDK sends it with all tools. */
const TOOL_BETA = { 'anthropic-beta': 'structured-outputs-2025-11-13' };

/** Whether a conversation has only texts, calls and results, and nothing that the SDK moves or omits. */
export function isConversation({ messages }: LlmRequest): boolean {
  return messages.every(
    (message, index) =>
      isPlainMessage(message) &&
      // Excludes an answer to be continued, and an answer in two messages.
      (message.role !== 'assistant' || (messages[index + 1]?.role ?? 'assistant') !== 'assistant'),
  );
}

function isPlainMessage(message: LlmMessage): boolean {
  if (message.role !== 'assistant') return message.role !== 'only' && !hasFiles(message);
  const parts = assistantContent(message, 'anthropic');
  return parts.length > 0 && parts.every((part, index) => isPlainPart(part, parts[index - 1]));
}

function isPlainPart(part: Part, before: Part | undefined): boolean {
  const options = part.providerOptions?.anthropic;
  switch (part.type) {
    case 'text':
      return options === undefined && before?.type !== 'tool-call';
    case 'reasoning':
      return typeof (options?.signature ?? options?.redactedData) === 'string';
    case 'tool-call':
      // A call by the model's own code may only be sent back together with that code.
      if (options?.caller !== undefined && !isDirectCaller(options.caller)) return false;
      return typeof part.input === 'object' && part.input !== null && !Array.isArray(part.input);
    default:
      return false;
  }
}

const isDirectCaller = (caller: unknown): boolean => (caller as { readonly type?: unknown } | null)?.type === 'direct';

export const toolHeaders = ({ tools = [] }: LlmRequest): Record<string, string> => (tools.length > 0 ? TOOL_BETA : {});

/** Returns the prompt: system message, tools and messages, with cache breakpoints. */
export function promptOf(request: LlmRequest): object {
  const { system, messages, tools = [], parallelToolCalls, onText } = request;
  const marks = breakpointsOf(request);
  const sent: Message[] = [];
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = blocksOf(message, marks.shared);
    const last = content.at(-1);
    if (last !== undefined && marks.messages.has(message)) Object.assign(last, BREAKPOINT);
    // Anthropic expects consecutive user turns in one message.
    if (sent.at(-1)?.role === role) sent.at(-1)!.content.push(...content);
    else sent.push({ role, content });
  }
  return {
    ...(system !== undefined && { system: [textBlock(system, marks.system)] }),
    messages: sent,
    ...(tools.length > 0 && {
      tools: tools.map((tool) => toolOf(tool, onText !== undefined)),
      ...(parallelToolCalls === false && { tool_choice: { type: 'auto', disable_parallel_tool_use: true } }),
    }),
  };
}

/** Keeps the SDK's order of members, because the SDK may send the next turn, and a cached prefix must match exactly. */
function toolOf({ name, description, inputSchema, isStrict }: LlmTool, isStream: boolean): object {
  return {
    name,
    description,
    input_schema: inputSchema,
    // Streams parameters while they are generated, like texts.
    ...(isStream && { eager_input_streaming: true }),
    ...(isStrict && { strict: true }),
  };
}

function blocksOf(message: LlmMessage, isSharedMarked: boolean): Block[] {
  switch (message.role) {
    case 'user': {
      const { shared, text } = message;
      return [...(shared === undefined ? [] : [textBlock(shared, isSharedMarked)]), textBlock(text, false)];
    }
    case 'assistant':
      return assistantContent(message, 'anthropic').flatMap(blockOf);
    case 'tool':
      return message.results.map(({ id, text, isError }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: text,
        ...(isError && { is_error: true }),
      }));
    case 'only':
      return [];
  }
}

const textBlock = (text: string, isMarked: boolean): Block => ({ type: 'text', text, ...(isMarked && BREAKPOINT) });

function blockOf(part: Part): Block[] {
  const { signature, redactedData, caller } = part.providerOptions?.anthropic ?? {};
  switch (part.type) {
    case 'text':
      return [textBlock(part.text, false)];
    case 'reasoning':
      if (signature != null) return [{ type: 'thinking', thinking: part.text, signature }];
      return [{ type: 'redacted_thinking', data: redactedData }];
    case 'tool-call': {
      const { toolCallId: id, toolName: name, input } = part;
      return [{ type: 'tool_use', id, name, input, ...(caller !== undefined && { caller: { type: 'direct' } }) }];
    }
    default:
      return [];
  }
}
