import { type LlmFile, type LlmMessage, type LlmRequest, toolJson } from '#core/ports/llm.ts';
import { apiOf } from './providers.ts';

/** Approximate number of characters per token in a request. */
const TOKEN_CHARACTERS = 3.5;
const FROM_TOKENS = 1024;
/** Approximate size of an image that is not small. */
const FILE_CHARACTERS = 1_000 * TOKEN_CHARACTERS;

/** Breakpoints of Anthropic's cache: each caches everything up to it (`docs/models.md#caching`). */
export interface Breakpoints {
  /** Whether to cache the system message and the tools before it. */
  readonly system: boolean;
  /** Whether to cache the part that the first message shares with other requests. */
  readonly shared: boolean;
  /** Messages whose last part gets a breakpoint. */
  readonly messages: ReadonlySet<LlmMessage>;
}

const NONE: Breakpoints = { system: false, shared: false, messages: new Set() };

/**
 * Returns the breakpoints of a request, at most three; none for other providers, which cache repeated input by
 * themselves. A conversation has one at the end of its latest user turn, and one at the end of the previous user turn,
 * where the last request had it: Anthropic searches for an earlier one only 20 blocks back, fewer than ten parallel
 * calls with their results. Parts that are too short to be cached get none.
 */
export function breakpointsOf({ provider, cache, system = '', tools = [], messages }: LlmRequest): Breakpoints {
  const { again, fromTokens = FROM_TOKENS } = cache ?? {};
  if (!apiOf(provider).marksCache || again === undefined) return NONE;
  if (again === 'shared') return { ...NONE, shared: true };
  const minimum = fromTokens * TOKEN_CHARACTERS;
  let size = tools.reduce((sum, tool) => sum + toolJson(tool).length + 1, system.length + 1);
  const isSystemLong = system !== '' && size >= minimum;
  const ends = messages.filter((message, index) => {
    if (size < minimum) size += sizeOf(message);
    const next = messages[index + 1];
    const isEnd = isUsers(message) && (next === undefined || !isUsers(next));
    return isEnd && size >= minimum;
  });
  return { ...NONE, system: isSystemLong, messages: new Set(ends.slice(-2)) };
}

const isUsers = ({ role }: LlmMessage): boolean => role === 'user' || role === 'tool';

function sizeOf(message: LlmMessage): number {
  switch (message.role) {
    case 'user':
      return (message.shared ?? '').length + message.text.length + sizeOfFiles(message);
    case 'assistant':
      return message.text.length + JSON.stringify(message.toolCalls).length;
    case 'tool':
      return message.results.reduce((size, result) => size + result.text.length + sizeOfFiles(result), 0);
    case 'only':
      return 0;
  }
}

const sizeOfFiles = ({ files = [] }: { readonly files?: readonly LlmFile[] }): number => files.length * FILE_CHARACTERS;
