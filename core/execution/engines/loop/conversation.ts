import {
  type LlmAnswer,
  type LlmMessage,
  type LlmTool,
  type LlmToolCall,
  type LlmToolResult,
  toolJson,
} from '#core/ports/llm.ts';

/** Fewer bytes than the tokens of most texts have, so that estimates are too high rather than too low. */
export const TOKEN_BYTES = 3;

/** Approximate tokens of an image, until the provider has counted them. */
const FILE_TOKENS = 1600;

type UserMessage = Extract<LlmMessage, { role: 'user' }>;

/** Messages after the model's last answer. */
interface Newest {
  readonly calls: readonly LlmToolCall[];
  readonly results: readonly LlmToolResult[];
  /** Texts from the platform. */
  readonly texts: readonly string[];
  /** Messages that restrict the model to one tool from here on. */
  readonly restrictions: readonly LlmMessage[];
}

/**
 * The messages of a loop. They are append-only, because providers bind a model's thinking to everything before it. Only
 * messages after the last answer may change, and the conversation may be compacted
 * (`docs/interface/loops.md#compaction`).
 */
export class Conversation {
  readonly system: string;
  readonly tools: readonly LlmTool[];
  #messages: LlmMessage[] = [];
  #tokens = 0;
  #firstTokens = 0;
  #textBytes = 0;

  /** @param options.earlier What was said in the session before. @default - nothing */
  constructor({
    system,
    tools,
    first,
    earlier = [],
  }: {
    readonly system: string;
    readonly tools: readonly LlmTool[];
    readonly first: UserMessage;
    readonly earlier?: readonly LlmMessage[];
  }) {
    this.system = system;
    this.tools = tools;
    this.beginAnew(first);
    this.#messages = [...earlier, first];
    for (const message of earlier) this.#count(message);
  }

  get messages(): readonly LlmMessage[] {
    return this.#messages;
  }

  /** Input tokens of the next request: the provider's last count plus an estimate for what was added since. */
  get tokens(): number {
    return Math.round(this.#tokens);
  }

  /** Size of all messages, without files. */
  get textBytes(): number {
    return this.#textBytes;
  }

  /** Estimated tokens of the first request, without what was said in the session before. */
  get firstTokens(): number {
    return this.#firstTokens;
  }

  /** Whether there is an answer to take notes from, and the model may still write them. */
  get canBeginAnew(): boolean {
    const at = this.#messages.findLastIndex(({ role }) => role === 'assistant');
    return at >= 0 && !this.#messages.slice(0, at).some(({ role }) => role === 'only');
  }

  /** Messages after the model's last answer, with the calls in that answer. */
  get newest(): Newest {
    const at = this.#messages.findLastIndex(({ role }) => role === 'assistant');
    const answer = this.#messages[at];
    const after = this.#messages.slice(at + 1);
    return {
      calls: answer?.role === 'assistant' ? answer.toolCalls : [],
      results: after.flatMap((message) => (message.role === 'tool' ? message.results : [])),
      texts: after.flatMap((message) => (message.role === 'user' ? message.text : [])),
      restrictions: after.filter(({ role }) => role === 'only'),
    };
  }

  add(message: LlmMessage): void {
    this.#messages.push(message);
    this.#count(message);
  }

  #count(message: LlmMessage): void {
    this.#tokens += tokensOf(message);
    this.#textBytes += textBytesOf(message);
  }

  addAnswer({ message, usage, text, toolCalls }: LlmAnswer): void {
    // Local servers may not count tokens.
    const isCounted = usage.inputTokens > 0;
    const bytes = Buffer.byteLength(text + JSON.stringify(toolCalls));
    this.#textBytes += bytes;
    const written = bytes / TOKEN_BYTES;
    this.#tokens = isCounted ? usage.inputTokens + usage.outputTokens : this.#tokens + written;
    this.#messages.push(message);
  }

  /** Replaces results that have no answer yet. */
  replaceNewest(change: ReadonlyMap<LlmToolResult, LlmToolResult>): void {
    this.#messages = this.#messages.map((message) => {
      if (message.role !== 'tool' || !message.results.some((result) => change.has(result))) return message;
      const changed = { ...message, results: message.results.map((result) => change.get(result) ?? result) };
      this.#tokens += tokensOf(changed) - tokensOf(message);
      this.#textBytes += textBytesOf(changed) - textBytesOf(message);
      return changed;
    });
  }

  beginAnew(first: UserMessage, more: readonly LlmMessage[] = []): void {
    this.#messages = [first];
    const fixed = Buffer.byteLength(`${this.system}[${this.tools.map(toolJson)}]`) / TOKEN_BYTES;
    this.#tokens = fixed + tokensOf(first);
    this.#firstTokens = this.#tokens;
    this.#textBytes = textBytesOf(first);
    for (const message of more) this.add(message);
  }
}

const partsOf = (message: LlmMessage): readonly (LlmMessage | LlmToolResult)[] =>
  message.role === 'tool' ? message.results : [message];

/** Size of a message without files. */
export const textBytesOf = (message: LlmMessage): number =>
  message.role === 'assistant'
    ? Buffer.byteLength(message.text + JSON.stringify(message.toolCalls))
    : partsOf(message).reduce((bytes, part) => bytes + ('text' in part ? Buffer.byteLength(part.text) : 0), 0);

function tokensOf(message: LlmMessage): number {
  const files = partsOf(message).reduce((count, part) => count + ('files' in part ? (part.files?.length ?? 0) : 0), 0);
  return textBytesOf(message) / TOKEN_BYTES + FILE_TOKENS * files;
}
