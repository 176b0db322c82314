import { createHash } from 'node:crypto';
import { lineOf, type SeenFile } from './files.ts';

/** The scripted answer or failure for one request. */
export interface ScriptedTurn {
  /** @default 'ok', or nothing beside tool calls */
  readonly text?: string;
  /** Answers with the files of the conversation, one a line: `image/png 812x400`. */
  readonly look?: boolean;
  /** Answers with the text of the last message (the prompt, or the tools' results) instead of `text`. */
  readonly echo?: boolean;
  /** Several are called in parallel. */
  readonly toolCalls?: readonly ScriptedToolCall[];
  /** The parameters of a tool that the request forces and the turn does not call. @default {"result": "forced"} */
  readonly forcedInput?: Readonly<Record<string, unknown>>;
  /** Comes before the text, signed; the server refuses a conversation that brings it back changed. */
  readonly thinking?: string;
  /** Tokens that are thought before the text and do not show: they count as output, and for the request's limit. */
  readonly thinkingTokens?: number;
  /** `length`: cut at the output limit; `window`: cut because the model's window is full, which only Anthropic says. */
  readonly finish?: 'length' | 'window' | 'content_filter';
  /** Instead of what the server counts; with `input`, nothing is read from the cache or written to it but what stands here. */
  readonly usage?: {
    readonly input?: number;
    readonly output?: number;
    readonly cacheRead?: number;
    readonly cacheWrite?: number;
  };

  /** Before the first byte. */
  readonly delayMs?: number;
  /** Nothing is answered before this name is released: what is to be under way at once is, however slow the machine. */
  readonly waitFor?: string;
  /** Before each piece of a stream after the first. */
  readonly chunkDelayMs?: number;

  /** An error answer in the provider's form; `message` may hold `$KEY`, which becomes the key that was sent. */
  readonly status?: number;
  readonly message?: string;
  /** Seconds: the header `Retry-After`, and what the provider says in its body. */
  readonly retryAfter?: number;
  /** How it is said: as seconds, as a date, in the header `retry-after-ms`, or in the body only. @default 'seconds' */
  readonly retryForm?: 'seconds' | 'date' | 'ms' | 'body';
  /** The header `x-should-retry`. */
  readonly shouldRetry?: boolean;
  /** What the provider answers when the account's quota is used up, or the conversation is longer than the model reads. */
  readonly refusal?: Refusal;
  /**
   * A fault for this many requests of the same conversation with the same key; then the next turn of the list answers.
   * Such a turn is none of the model's.
   */
  readonly times?: number;
  /** A streamed answer fails half-way with the provider's own error event. */
  readonly streamError?: boolean;
  /** A streamed answer begins with the provider's own error event. */
  readonly errorFirst?: boolean;
  /** The request is read, then the connection is reset without an answer. */
  readonly resetBeforeHeaders?: boolean;
  /** The headers and this many events of a stream are sent, then nothing more; of a whole answer only the headers. */
  readonly hangAfter?: number;
  /** Half of the answer, then the connection is reset, or ends as if all were well. */
  readonly breakOff?: 'reset' | 'end';
  /** Status 200 and the right content type, but the JSON is cut. */
  readonly malformed?: boolean;
  /** Answers this content type and an HTML page, with `status` or 200. */
  readonly contentType?: string;
  /** Never answers. */
  readonly hang?: boolean;
}

export type Refusal = 'quota' | 'spend' | 'too-large' | 'overflow';

export interface ScriptedToolCall {
  readonly name: string;
  /** `$TURN` in a text becomes the number of the turn. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** Instead of `input`, as it stands: arguments that are no JSON. Anthropic sends it in streams only, Gemini cannot. */
  readonly rawInput?: string;
  readonly id?: string;
}

/** A turn that is filled in: what the wire formats write. */
export interface Answer {
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly toolCalls: readonly { readonly id: string; readonly name: string; readonly json: string }[];
  readonly thinking: string | undefined;
  readonly finish: 'stop' | 'tool_calls' | 'length' | 'window' | 'content_filter';
  /** {@link Asked.prefix} of the request: signatures bind a thought to it. */
  readonly prefix: string;
  readonly usage: Usage;
}

/** As providers count: for Anthropic, `input` is what is neither read nor written; for the others it is all of it. */
export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/** How the provider of a request caches. */
export interface CacheRule {
  /**
   * - `marks`: prefixes are kept at parts with `cache_control`, and found from one up to 20 parts back (Anthropic);
   * - `prefix`: the longest prefix that an earlier request had, in steps of 128 tokens (OpenAI);
   * - `implicit`: the same without steps (Gemini).
   */
  readonly kind: 'marks' | 'prefix' | 'implicit';
  /** Requests with another one go to other machines. */
  readonly route?: string;
  /** Parts of a message are other ones where this is. */
  readonly mode?: string;
}

/** What the server reads of a request in any format. */
export interface Asked {
  readonly model: string;
  readonly stream: boolean;
  /** All text of the conversation. */
  readonly text: string;
  /** Of the last message. */
  readonly lastText: string;
  /** The request's limit of output tokens. */
  readonly maxTokens: number | undefined;
  /** Turns of the model so far. */
  readonly turns: number;
  /** The one tool that the model has to call. */
  readonly forced?: string;
  /** Input and output of the model together, at most. */
  readonly window: number;
  /** What the model reads, in its order: tools, system message, then the parts of all messages. */
  readonly parts: readonly unknown[];
  /** For each part, the tokens up to its end. */
  readonly ends: readonly number[];
  /** The last of these. */
  readonly inputTokens: number;
  /** A hash for each part of the request that the model reads: of it and all parts before it. */
  readonly prefixes: readonly string[];
  /** The last of these. */
  readonly prefix: string;
  /** Absent where there is no cache. */
  readonly cache?: CacheRule;
  /** Images, PDFs and recordings of the conversation, in their order. */
  readonly files: readonly SeenFile[];
  /** The tool that the model is to answer by: a text that is a JSON object becomes a call of it, other text stays. */
  readonly answersBy?: string;
  /** Of thoughts that the request does not ask to see. @default - they are shown */
  readonly hidden?: 'empty' | 'absent';
  /** Why the provider would refuse the request with status 400. */
  readonly problem?: string;
}

/** What a wire format reads of a request itself. */
export interface Read extends Omit<Asked, 'window' | 'ends' | 'inputTokens' | 'prefixes' | 'prefix'> {
  /** Signed thoughts among the parts. */
  readonly signed?: readonly Signed[];
}

export interface Signed {
  /** Place among the parts. */
  readonly part: number;
  readonly signature: string;
}

/** One provider's wire format. */
export interface Wire {
  readonly keyOf: (headers: Readonly<Record<string, string | string[] | undefined>>) => string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs; each reads its own.
  readonly read: (body: any, url: URL, headers: Readonly<Record<string, string | string[] | undefined>>) => Read;
  readonly body: (answer: Answer) => unknown;
  /** The records of a stream, each with its line ends. */
  readonly frames: (answer: Answer) => string[];
  readonly error: (status: number, message: string, retryAfter: number | undefined) => unknown;
  readonly errorFrame: (message: string) => string;
  /** What the provider says to a limit of output tokens that is above what the model can write. */
  readonly tooManyTokens: (asked: Asked, most: number) => string;
  /** Status and body of {@link ScriptedTurn.refusal}, in the provider's own words. */
  readonly refusals: { readonly [Kind in Refusal]?: readonly [status: number, body: unknown] };
}

let counter = 0;
const nextId = (): string => (++counter).toString(36).padStart(8, '0');

/** Fills a turn in, and cuts it at the request's limit of output tokens as the models do: thoughts come first. */
export function fillIn(turn: ScriptedTurn, asked: Asked, input: Omit<Usage, 'output'>): Answer {
  const number = String(asked.turns + 1);
  const calls = callsOf(turn, asked).map((call) => ({
    id: call.id ?? `call_${nextId()}`,
    name: call.name,
    json: call.rawInput ?? JSON.stringify(call.input ?? {}).replaceAll('$TURN', number),
  }));
  const said = turn.look
    ? asked.files.map(lineOf).join('\n') || 'no files'
    : turn.echo
      ? asked.lastText
      : (turn.text ?? (calls.length > 0 ? '' : 'ok'));
  const isByTool = asked.answersBy !== undefined && isJsonObject(said);
  if (isByTool) calls.push({ id: `call_${nextId()}`, name: asked.answersBy, json: said });
  const whole = isByTool ? '' : said;
  const thinks = turn.thinking !== undefined || turn.thinkingTokens !== undefined;
  const thought = turn.thinkingTokens ?? (turn.thinking === undefined ? 0 : tokens(turn.thinking));
  const room = Math.max(0, asked.window - asked.inputTokens);
  const most = Math.min(asked.maxTokens ?? Number.POSITIVE_INFINITY, room);
  const left = Math.max(0, most - thought);
  const fits = tokens(whole) <= left;
  const text = fits ? whole : whole.slice(0, left * TOKEN_CHARACTERS);
  const toolCalls = fits ? calls : [];
  return {
    id: nextId(),
    model: asked.model,
    text,
    toolCalls,
    thinking: thinks ? shownThought(turn.thinking, asked) : undefined,
    finish:
      turn.finish ?? (!fits ? (most === room ? 'window' : 'length') : toolCalls.length > 0 ? 'tool_calls' : 'stop'),
    prefix: asked.prefix,
    usage: {
      ...(turn.usage?.input === undefined ? input : { ...NO_CACHE, ...turn.usage, input: turn.usage.input }),
      output: turn.usage?.output ?? (fits ? (turn.thinkingTokens ?? 0) + tokens(text) : most),
    },
  };
}

const shownThought = (text = '', { hidden }: Asked): string | undefined =>
  hidden === 'absent' ? undefined : hidden === 'empty' ? '' : text;

const NO_CACHE = { cacheRead: 0, cacheWrite: 0 };
/** A model that has to call a tool calls that one, whatever else it would do. */
function callsOf({ toolCalls = [], forcedInput = { result: 'forced' } }: ScriptedTurn, { forced }: Asked) {
  if (forced === undefined) return toolCalls;
  const allowed = toolCalls.filter(({ name }) => name === forced);
  return allowed.length > 0 ? allowed : [{ name: forced, input: forcedInput }];
}

/** As the default, a model that calls a tool for ever that is not there. No two calls are the same. */
export const ONLY_TOOLS: ScriptedTurn = { toolCalls: [{ name: 'nothing', input: { turn: '$TURN' } }] };
function isJsonObject(text: string): boolean {
  try {
    return /^\s*\{/.test(text) && JSON.parse(text) !== undefined;
  } catch {
    return false;
  }
}

const TOKEN_CHARACTERS = 4;
/** A rough, deterministic token count. */
const tokens = (text: string): number => tokensOf(text.length);
const tokensOf = (characters: number): number => Math.max(1, Math.ceil(characters / TOKEN_CHARACTERS));

/** For each part, the tokens up to its end. */
export function endsOf(parts: readonly unknown[]): number[] {
  let characters = 0;
  return parts.map((part) => {
    characters += charactersOf(part);
    return tokensOf(characters);
  });
}

function charactersOf(part: unknown): number {
  if (typeof part === 'string') return part.length;
  if (Array.isArray(part)) return part.reduce((sum: number, each) => sum + charactersOf(each), 0);
  const { text } = (part ?? {}) as { readonly text?: unknown };
  return typeof text === 'string' ? text.length : JSON.stringify(part, withoutFile).length;
}

/** A file counts as a large image does, not by its base64. */
const withoutFile = (name: string, value: unknown): unknown =>
  FILE_MEMBERS.includes(name) && typeof value === 'string' ? 'x'.repeat(1_600 * TOKEN_CHARACTERS) : value;

const FILE_MEMBERS = ['data', 'image_url', 'file_data', 'url'];

/** Pieces as a model streams them: a few letters each. */
export function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,8}/g) ?? [];
}

/** Signature that proves that a thought was sent back unchanged, behind the conversation that it was thought in. */
export const signatureOf = (thinking: string, prefix: string): string => `${hashOf(`scripted ${thinking}`)}.${prefix}`;

/** Whether a thought itself is unchanged. */
export const isSigned = (thinking: string, signature: unknown): boolean =>
  typeof signature === 'string' && signature.split('.')[0] === hashOf(`scripted ${thinking}`);

/** The conversation that a thought is bound to. */
export const prefixIn = (signature: string): string => signature.split('.')[1] ?? '';

/** For each part, a hash of it and all parts before it. Markers for caches are not part of what the model reads. */
export function prefixesOf(parts: readonly unknown[]): string[] {
  let before = '';
  return parts.map((part) => {
    const text = JSON.stringify(part, (name, value) => (name === 'cache_control' ? undefined : value));
    before = hashOf(`${before} ${text}`);
    return before;
  });
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64');

/** The texts of a conversation as one. */
export const joined = (texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n');

export const sse = (event: string, data: unknown): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

export const bearer = (headers: Readonly<Record<string, string | string[] | undefined>>): string | undefined =>
  typeof headers.authorization === 'string' ? headers.authorization.replace(/^Bearer\s+/i, '') || undefined : undefined;

/** The calls and results of a conversation, in order: each result belongs to an open call, none stays open. */
export class ToolLedger {
  readonly #open = new Set<string>();
  problem: string | undefined;

  call(id: string): void {
    this.#open.add(id);
  }

  result(id: string): void {
    if (!this.#open.delete(id)) this.problem ??= `No tool call found for the tool result with id ${id}.`;
  }

  /** Before anything but results. */
  settle(): void {
    if (this.#open.size > 0) this.problem ??= `No tool result found for the tool calls ${[...this.#open].join(', ')}.`;
    this.#open.clear();
  }
}
