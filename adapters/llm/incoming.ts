import type { LanguageModelV4Content, LanguageModelV4ToolCall } from '@ai-sdk/provider';
import type { LlmRequest } from '#core/ports/llm.ts';
import { isObject } from './direct/members.ts';
import { apiOf } from './providers.ts';
import { parseInput, type Turn } from './turn.ts';

/**
 * Makes a model's turn acceptable as a part of later requests, whatever the provider sent
 * (`docs/models.md#what-models-get-wrong`): calls written as text become calls, and every call gets a name and an id
 * that all providers accept, each id once in a conversation.
 */
export function readable(turn: Turn, request: LlmRequest): Turn {
  const content = apiOf(request.provider).writesCalls
    ? turn.content.flatMap((part) => callsInText(part, request))
    : turn.content;
  if (!content.some(isCall)) return turn;
  const ids = new CallIds(request);
  const calls = content.map((part) =>
    isCall(part) ? { ...part, toolCallId: ids.next(part.toolCallId), toolName: nameOf(part, request) } : part,
  );
  const isNew = content.length !== turn.content.length || content.some((part, index) => part !== turn.content[index]);
  return { ...turn, content: calls, ...(isNew && { finishReason: { unified: 'tool-calls', raw: 'tool_calls' } }) };
}

const isCall = (part: LanguageModelV4Content): part is LanguageModelV4ToolCall => part.type === 'tool-call';

/** Ids that all providers accept. */
const ID = /^[\w-]{1,64}$/;

/** Gives each call of a conversation an id of its own. */
class CallIds {
  readonly #taken: Set<string>;

  constructor({ messages }: LlmRequest) {
    this.#taken = new Set(
      messages.flatMap((message) => (message.role === 'assistant' ? message.toolCalls.map(({ id }) => id) : [])),
    );
  }

  next(given: string): string {
    let id = given;
    for (let number = this.#taken.size + 1; !ID.test(id) || this.#taken.has(id); number++) id = `call_${number}`;
    this.#taken.add(id);
    return id;
  }
}

/** Models of OpenAI may write the namespace in which they are shown the tools. */
const NAMESPACE = /^functions\./;
const MAX_NAME_CHARACTERS = 64;

function nameOf({ toolName }: LanguageModelV4ToolCall, { tools = [] }: LlmRequest): string {
  if (tools.some(({ name }) => name === toolName)) return toolName;
  const name = toolName
    .replace(NAMESPACE, '')
    .replaceAll(/[^\w-]/g, '_')
    .slice(0, MAX_NAME_CHARACTERS);
  return name === '' ? 'unnamed' : name;
}

/** How open models are trained to call tools. Their servers should read it, but not all do for every model. */
const CALL_START = '<tool_call>';
const CALL_END = '</tool_call>';

/** Returns a text's calls of offered tools, and the text without them. */
function callsInText(part: LanguageModelV4Content, request: LlmRequest): LanguageModelV4Content[] {
  if (part.type !== 'text') return [part];
  const [before, ...pieces] = part.text.split(CALL_START);
  const calls: LanguageModelV4ToolCall[] = [];
  const texts = [before];
  for (const piece of pieces) {
    const end = piece.indexOf(CALL_END);
    const call = end < 0 ? undefined : writtenCall(piece.slice(0, end), request);
    if (call === undefined) texts.push(CALL_START, piece);
    else {
      calls.push(call);
      texts.push(piece.slice(end + CALL_END.length));
    }
  }
  const text = texts.join('').trim();
  if (calls.length === 0) return [part];
  return [...(text === '' ? [] : [{ ...part, text }]), ...calls];
}

function writtenCall(text: string, { tools = [] }: LlmRequest): LanguageModelV4ToolCall | undefined {
  const call = parseInput(text);
  if (!isObject(call) || !tools.some(({ name }) => name === call.name)) return undefined;
  const { name, arguments: input = {} } = call;
  return {
    type: 'tool-call',
    toolCallId: '',
    toolName: name as string,
    input: typeof input === 'string' ? input : JSON.stringify(input),
  };
}
