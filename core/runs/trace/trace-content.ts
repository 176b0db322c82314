import type { TraceContentSetting } from '#core/base/workspace.ts';
import type { LlmAnswer, LlmFile, LlmMessage, LlmToolCall } from '#core/ports/llm.ts';
import { type SecretMask, shortenTo } from '../masking/masking.ts';

/** A masked text of a run. A truncated text keeps its beginning and end, with a note between them. */
export interface ContentValue {
  readonly text: string;
  /** Size of the untruncated text in UTF-8. */
  readonly bytes: number;
  readonly is_cut?: true;
}

export interface ContentMessage extends ContentValue {
  /** `tool_call` is a model's call of a tool, with its arguments as JSON; `tool` is the tool's result. */
  readonly role: 'system' | 'user' | 'assistant' | 'tool_call' | 'tool';
  readonly tool_name?: string;
  readonly is_error?: true;
  /** Attached files: names, types and sizes. */
  readonly files?: { readonly name: string; readonly media_type: string; readonly bytes: number }[];
}

/** Content of one step of a run (`docs/interface/runs.md#content`). */
export interface TraceContent {
  /**
   * For a request to a model, the messages that no earlier request of the run had; for a response, the model's message.
   */
  readonly messages?: ContentMessage[];
  /** Number of omitted messages: the oldest ones of a step with more than {@link MAX_MESSAGES}. */
  readonly left_out?: number;
  /** Arguments of a tool call, as JSON. */
  readonly arguments?: ContentValue;
  /** Result of a tool call. */
  readonly result?: ContentValue;
}

const MAX_VALUE_BYTES = 32 * 1024;
const MAX_MESSAGES = 100;
/** Maximum text of one step in the event stream. */
const MAX_SHOWN_BYTES = 32 * 1024;
/** Maximum text stored for one step, and for an entire run. */
const MAX_STEP_BYTES = 512 * 1024;
const MAX_RUN_BYTES = 4 * 1024 * 1024;

type Text = Omit<ContentMessage, keyof ContentValue> & { readonly text: string };

/** Collects the contents of one run's steps, as far as its workspace's setting allows. */
export class TraceContents {
  readonly #mask: SecretMask;
  readonly #setting: Exclude<TraceContentSetting, 'off'>;
  readonly #byEvent = new Map<number, TraceContent>();
  /** Messages and tool results that are already in a step. */
  readonly #seen = new WeakSet<object>();
  #system: string | undefined;
  #room = MAX_RUN_BYTES;

  constructor(setting: Exclude<TraceContentSetting, 'off'>, mask: SecretMask) {
    this.#setting = setting;
    this.#mask = mask;
  }

  /** Returns the content for the event stream; undefined if only failed runs keep their contents. */
  shownOf(content: TraceContent): TraceContent | undefined {
    return this.#setting === 'all' ? shortenContent(MAX_SHOWN_BYTES, content) : undefined;
  }

  /** Stores the content of the trace event with this number. */
  keep(event: number, content: TraceContent): void {
    this.#byEvent.set(event, content);
  }

  /** Returns the contents to store with an ended run, as JSON; `undefined` if there are none. */
  textFor({ isFailed }: { readonly isFailed: boolean }): string | undefined {
    if (this.#byEvent.size === 0 || (this.#setting === 'errors' && !isFailed)) return undefined;
    return JSON.stringify(Object.fromEntries(this.#byEvent));
  }

  question({ system, messages }: { readonly system?: string; readonly messages: readonly LlmMessage[] }): TraceContent {
    const texts: Text[] = [];
    if (system !== undefined && system !== this.#system) texts.push({ role: 'system', text: system });
    this.#system = system;
    for (const message of messages) texts.push(...this.#newTextsOf(message));
    return this.#messages(texts);
  }

  answer({ message, text, toolCalls }: LlmAnswer): TraceContent {
    // The next request will repeat the message.
    this.#seen.add(message);
    return this.#messages([
      ...(text === '' ? [] : [{ role: 'assistant', text } as const]),
      ...toolCalls.map((call) => ({ role: 'tool_call', tool_name: call.name, text: argumentsOf(call) }) as const),
    ]);
  }

  call(call: LlmToolCall): TraceContent {
    return { arguments: this.#value(argumentsOf(call), MAX_VALUE_BYTES) };
  }

  result(text: string): TraceContent {
    return { result: this.#value(text, MAX_VALUE_BYTES) };
  }

  #newTextsOf(message: LlmMessage): Text[] {
    if (message.role === 'tool') {
      return message.results
        .filter((result) => this.#isNew(result))
        .map(({ name, text, isError, files }) => ({
          role: 'tool',
          tool_name: name,
          text,
          ...(isError && { is_error: true }),
          ...filesOf(files),
        }));
    }
    if (message.role === 'only' || !this.#isNew(message)) return [];
    if (message.role === 'user') {
      return [{ role: 'user', text: (message.shared ?? '') + message.text, ...filesOf(message.files) }];
    }
    return [
      { role: 'assistant', text: message.text },
      ...message.toolCalls.map(
        (call) => ({ role: 'tool_call', tool_name: call.name, text: argumentsOf(call) }) as const,
      ),
    ];
  }

  #isNew(part: object): boolean {
    if (this.#seen.has(part)) return false;
    this.#seen.add(part);
    return true;
  }

  #messages(texts: readonly Text[]): TraceContent {
    let room = MAX_STEP_BYTES;
    const messages = texts.slice(-MAX_MESSAGES).map(({ text, tool_name, ...message }) => {
      const value = this.#value(text, Math.min(MAX_VALUE_BYTES, room));
      room -= Buffer.byteLength(value.text);
      // The model may make up a tool name of any length.
      return { ...message, ...(tool_name !== undefined && { tool_name: this.#name(tool_name) }), ...value };
    });
    const left_out = texts.length - messages.length;
    return { messages, ...(left_out > 0 && { left_out }) };
  }

  #name(name: string): string {
    return this.#mask.text(name).slice(0, 64);
  }

  /** Masked before truncation, which could otherwise split a secret and expose a part of it. */
  #value(text: string, maxBytes: number): ContentValue {
    const value = cutTo(Math.min(maxBytes, this.#room), this.#mask.text(text));
    this.#room -= Buffer.byteLength(value.text);
    return value;
  }
}

/** Space for the truncation note and some text around it. */
const MIN_CUT_BYTES = 200;

function cutTo(maxBytes: number, text: string): ContentValue {
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxBytes) return { text, bytes };
  return { text: maxBytes < MIN_CUT_BYTES ? '' : shortenTo(maxBytes, text), bytes, is_cut: true };
}

const argumentsOf = ({ input }: LlmToolCall): string => (input === undefined ? '' : JSON.stringify(input));

/** File names are short: the platform derives them from the names that users give. */
const filesOf = (files: readonly LlmFile[] = []): Pick<ContentMessage, 'files'> =>
  files.length === 0
    ? {}
    : {
        files: files.map(({ name, mediaType, bytes }) => ({ name, media_type: mediaType, bytes: bytes.byteLength })),
      };

const valuesOf = ({ messages = [], arguments: given, result }: TraceContent): readonly ContentValue[] =>
  [...messages, given, result].filter((value) => value !== undefined);

/** Truncates the texts further, to about `maxBytes` in total. */
function shortenContent(maxBytes: number, content: TraceContent): TraceContent {
  const values = valuesOf(content);
  if (values.reduce((bytes, { text }) => bytes + Buffer.byteLength(text), 0) <= maxBytes) return content;
  const share = Math.max(MIN_CUT_BYTES, Math.floor(maxBytes / values.length));
  const shorten = <Value extends ContentValue>(value: Value): Value => {
    const { text, is_cut } = cutTo(share, value.text);
    return { ...value, text, ...(is_cut && { is_cut }) };
  };
  const { messages, arguments: given, result } = content;
  return {
    ...content,
    ...(messages && { messages: messages.map(shorten) }),
    ...(given && { arguments: shorten(given) }),
    ...(result && { result: shorten(result) }),
  };
}

/** Contents as stored by {@link TraceContents.textFor}, by event number. */
export type ContentByEvent = { readonly [event: string]: TraceContent };
