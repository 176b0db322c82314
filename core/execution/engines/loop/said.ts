import { hash } from 'node:crypto';
import {
  type LlmFile,
  type LlmMessage,
  type LlmTool,
  type LlmToolCall,
  type LlmToolResult,
  toolJson,
} from '#core/ports/llm.ts';
import type { PastTurn } from '#core/runs/sessions/session.ts';
import { textOfAnswer } from '../../calls/answer-text.ts';
import { textBytesOf } from './conversation.ts';

/** What was said in the session of a loop's run, for the run of the next message. */
export interface Said {
  /** Fingerprint of the system message and the tools. */
  readonly frame: string;
  /** Model that answered last. */
  readonly model: string;
  readonly messages: readonly LlmMessage[];
}

/** See `docs/interface/sessions.md#loops`. */
const MAX_TEXT_BYTES = 400 * 1024;
/** What is left of a text that was too long. Half of it, so that the beginning stays the same for many messages. */
const LEFT_TEXT_BYTES = MAX_TEXT_BYTES / 2;
const MAX_FILES = 10;
const LEFT_FILES = 5;
const MAX_FILE_BYTES = 10 * 1024 * 1024;

const NO_RESULT =
  '[ERROR] The run was ended before the result of this call was known. Whether it took effect is unknown: check before repeating.';
const CUT = '[Earlier messages of this conversation are left out, because it was long.]';
const RESULT_LEFT_OUT = '[This result is left out, because the conversation was long.]';
const NOT_SHOWN = '[A file that was shown here is not shown any more.]';

/** Returns the fingerprint of what providers sign with a model's thoughts, besides the messages. */
export const frameOf = (system: string, tools: readonly LlmTool[]): string =>
  hash('sha256', `${system}\0[${tools.map(toolJson)}]`, 'base64url');

/** Returns what was said before for a run with this frame and model. Thoughts of others are left out. */
export const saidBefore = ({ frame, model, messages }: Said, now: Pick<Said, 'frame' | 'model'>): LlmMessage[] =>
  frame === now.frame && model === now.model ? [...messages] : messages.map(unsigned);

/** Returns a turn of which only the input and the output are known. */
export const messagesOfTurn = ({ input, output }: PastTurn): LlmMessage[] => [
  { role: 'user', text: JSON.stringify(input, null, 2) },
  { role: 'assistant', text: textOfAnswer(output), toolCalls: [] },
];

/**
 * Returns a conversation of a run that has ended, so that another message can follow: each call of a tool has a result, and
 * its size is bounded. Providers sign thoughts together with all that went before: what follows a change has none.
 *
 * @param resultOf Returns the result of a call that was not added to the conversation; `undefined` if there is none.
 */
export function settled(
  messages: readonly LlmMessage[],
  resultOf: (call: LlmToolCall) => LlmToolResult | undefined,
): LlmMessage[] {
  const all: LlmMessage[] = [];
  let isChanged = false;
  for (const [index, message] of messages.entries()) {
    if (message.role === 'only') {
      isChanged = true;
      continue;
    }
    all.push(isChanged ? unsigned(message) : message);
    if (message.role !== 'assistant' || message.toolCalls.length === 0 || messages[index + 1]?.role === 'tool')
      continue;
    const results = message.toolCalls.map(
      (call) => resultOf(call) ?? { id: call.id, name: call.name, text: NO_RESULT, isError: true },
    );
    all.push({ role: 'tool', results });
  }
  return withFewFiles(withShortText(all));
}

function unsigned(message: LlmMessage): LlmMessage {
  if (message.role !== 'assistant' || message.raw === undefined) return message;
  const { raw: _, ...plain } = message;
  return plain;
}

const sizeOf = (messages: readonly LlmMessage[]): number =>
  messages.reduce((bytes, message) => bytes + textBytesOf(message), 0);

/** Leaves out the oldest messages of a long conversation, and results where that is not enough. */
function withShortText(messages: LlmMessage[]): LlmMessage[] {
  let bytes = sizeOf(messages);
  if (bytes <= MAX_TEXT_BYTES) return messages;
  let from = 0;
  let last = 0;
  for (const [index, message] of messages.entries()) {
    if (message.role === 'user') {
      last = index;
      from ||= bytes <= LEFT_TEXT_BYTES ? index : 0;
    }
    bytes -= textBytesOf(message);
  }
  const rest = messages.slice(from || last).map(unsigned);
  let tooMuch = sizeOf(rest) - LEFT_TEXT_BYTES;
  const left = rest.map((message): LlmMessage => {
    if (tooMuch <= 0 || message.role !== 'tool') return message;
    const results = message.results.map((result) => ({ ...result, text: RESULT_LEFT_OUT, files: [] }));
    const short: LlmMessage = { ...message, results };
    tooMuch -= textBytesOf(message) - textBytesOf(short);
    return short;
  });
  return [{ role: 'user', text: CUT }, ...left];
}

/** Leaves out the oldest files if there are many. */
function withFewFiles(messages: LlmMessage[]): LlmMessage[] {
  const all = messages.flatMap(filesOf);
  const isFull = all.length > MAX_FILES || bytesOf(all) > MAX_FILE_BYTES;
  if (!isFull) return messages;
  const kept = new Set<LlmFile>();
  for (const file of all.toReversed()) {
    if (kept.size >= LEFT_FILES || bytesOf([...kept, file]) > MAX_FILE_BYTES) break;
    kept.add(file);
  }
  const shown = <T extends { readonly text: string; readonly files?: readonly LlmFile[] }>(part: T): T => {
    const files = (part.files ?? []).filter((file) => kept.has(file));
    if (files.length === (part.files?.length ?? 0)) return part;
    return { ...part, text: `${part.text}\n${NOT_SHOWN}`, files };
  };
  const first = messages.findIndex((message) => filesOf(message).some((file) => !kept.has(file)));
  return messages.map((message, index) => {
    if (message.role === 'user') return shown(message);
    if (message.role === 'tool') return { ...message, results: message.results.map(shown) };
    return index > first ? unsigned(message) : message;
  });
}

const filesOf = (message: LlmMessage): readonly LlmFile[] =>
  message.role === 'tool'
    ? message.results.flatMap(({ files = [] }) => files)
    : message.role === 'user'
      ? (message.files ?? [])
      : [];

const bytesOf = (files: readonly LlmFile[]): number => files.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
