import { createHash } from 'node:crypto';
import { lineOf, type SeenFile } from './files.ts';

/** The scripted answer or failure for one request. */
export interface ScriptedTurn {
  /** Text of the answer. @default 'ok', or none with tool calls */
  readonly text?: string;
  /** Whether to answer with the files of the conversation, one per line: `image/png 812x400`. */
  readonly look?: boolean;
  /** Whether to answer with the text of the last message (the prompt or the tool results) instead of `text`. */
  readonly echo?: boolean;
  /** Tool calls; several are parallel. */
  readonly toolCalls?: readonly ScriptedToolCall[];
  /** Parameters of a forced tool that the turn does not call. @default {"result": "forced"} */
  readonly forcedInput?: Readonly<Record<string, unknown>>;
  /** Signed thought before the text; the server refuses a conversation that returns it changed. */
  readonly thinking?: string;
  /** Number of hidden thinking tokens before the text; they count as output and toward the request's limit. */
  readonly thinkingTokens?: number;
  /**
   * `length`: cut at the output limit; `window`: cut because the model's window is full, and `pause`: to be continued,
   * both of which only Anthropic reports.
   */
  readonly finish?: 'length' | 'window' | 'pause' | 'content_filter';
  /** Overrides the server's token counts; with `input`, the cache is read and written only as given here. */
  readonly usage?: {
    readonly input?: number;
    readonly output?: number;
    readonly cacheRead?: number;
    readonly cacheWrite?: number;
  };

  /** Delay before the first byte. */
  readonly delayMs?: number;
  /** Delays the answer until this name is released, so that requests overlap even on a slow machine. */
  readonly waitFor?: string;
  /** Delay before each chunk of a stream after the first. */
  readonly chunkDelayMs?: number;

  /** Status of an error answer in the provider's form; `$KEY` in `message` is replaced with the request's key. */
  readonly status?: number;
  readonly message?: string;
  /** Seconds in the header `Retry-After` and in the provider's body. */
  readonly retryAfter?: number;
  /** Form of the retry delay: seconds, a date, the header `retry-after-ms`, or only the body. @default 'seconds' */
  readonly retryForm?: 'seconds' | 'date' | 'ms' | 'body';
  /** Value of the header `x-should-retry`. */
  readonly shouldRetry?: boolean;
  /** Provider's refusal for an exhausted quota or a conversation longer than the model's window. */
  readonly refusal?: Refusal;
  /**
   * Number of requests of one conversation and key that get this fault; then the next turn of the list answers. The
   * fault does not count as a turn of the model.
   */
  readonly times?: number;
  /** Whether a streamed answer fails midway with the provider's error event. */
  readonly streamError?: boolean;
  /** Whether a streamed answer begins with the provider's error event. */
  readonly errorFirst?: boolean;
  /** Whether to reset the connection after reading the request, without an answer. */
  readonly resetBeforeHeaders?: boolean;
  /** Number of stream events after which the answer hangs; an unstreamed answer hangs after its headers. */
  readonly hangAfter?: number;
  /** Whether to reset or to end the connection after half of the answer. */
  readonly breakOff?: 'reset' | 'end';
  /** Whether to answer 200 with truncated JSON. */
  readonly malformed?: boolean;
  /** Content type of an HTML page to answer, with `status` or 200. */
  readonly contentType?: string;
  /** Never answers. */
  readonly hang?: boolean;
  /** Whether to leave out the token counts, as some gateways do. Anthropic's form only. */
  readonly noUsage?: boolean;
  /** Whether to send the parameters of calls as objects instead of JSON text, as some local servers do. */
  readonly objectArguments?: boolean;
  /** Whether to compress the answer, though the client did not ask for it. */
  readonly gzip?: boolean;
}

export type Refusal = 'quota' | 'spend' | 'too-large' | 'overflow';

export interface ScriptedToolCall {
  readonly name: string;
  /** Parameters; `$TURN` in a text is replaced with the number of the turn. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** Raw invalid JSON instead of `input`. Anthropic sends it only in streams; Gemini cannot send it. */
  readonly rawInput?: string;
  readonly id?: string;
}

/** Turn with all defaults, as the wire formats write it. */
export interface Answer {
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly toolCalls: readonly { readonly id: string; readonly name: string; readonly json: string }[];
  readonly thinking: string | undefined;
  readonly finish: 'stop' | 'tool_calls' | 'length' | 'window' | 'pause' | 'content_filter';
  /** {@link ScriptedTurn.noUsage} */
  readonly noUsage: boolean;
  /** {@link ScriptedTurn.objectArguments} */
  readonly objectArguments: boolean;
  /** {@link Asked.prefix} of the request, to which signatures bind a thought. */
  readonly prefix: string;
  readonly usage: Usage;
}

/**
 * Usage as providers count it: Anthropic's `input` excludes tokens read from or written to the cache; others include
 * them.
 */
export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/** Caching rule of a request's provider. */
export interface CacheRule {
  /**
   * - `marks`: prefixes are cached at parts with `cache_control`, and found up to 20 parts back (Anthropic);
   * - `prefix`: the longest prefix of an earlier request, in steps of 128 tokens (OpenAI);
   * - `implicit`: the same without steps (Gemini).
   */
  readonly kind: 'marks' | 'prefix' | 'implicit';
  /** Routing key; requests with different keys do not share a cache. */
  readonly route?: string;
  /** Settings that invalidate the cached message parts when they change. */
  readonly mode?: string;
}

/** Fields that the server reads from a request in any format. */
export interface Asked {
  readonly model: string;
  readonly stream: boolean;
  /** All text of the conversation. */
  readonly text: string;
  /** Text of the last message. */
  readonly lastText: string;
  /** Output token limit of the request. */
  readonly maxTokens: number | undefined;
  /** Turns of the model so far. */
  readonly turns: number;
  /** Tool that the model must call. */
  readonly forced?: string;
  /** Maximum number of input and output tokens together. */
  readonly window: number;
  /** Parts that the model reads, in order: tools, system message, then the parts of all messages. */
  readonly parts: readonly unknown[];
  /** Cumulative token count at the end of each part. */
  readonly ends: readonly number[];
  /** Total number of input tokens. */
  readonly inputTokens: number;
  /** Cumulative hash at each part of the request. */
  readonly prefixes: readonly string[];
  /** Hash of the whole request. */
  readonly prefix: string;
  /** Absent if the request is not cached. */
  readonly cache?: CacheRule;
  /** Images, PDFs and recordings of the conversation, in their order. */
  readonly files: readonly SeenFile[];
  /** Tool for the answer: a text that is a JSON object becomes a call of it; any other text stays. */
  readonly answersBy?: string;
  /** Form of thoughts that the request does not ask to see. @default - they are shown */
  readonly hidden?: 'empty' | 'absent';
  /** Reason why the provider would refuse the request with status 400. */
  readonly problem?: string;
}

/** Fields that a wire format itself reads from a request. */
export interface Read extends Omit<Asked, 'window' | 'ends' | 'inputTokens' | 'prefixes' | 'prefix'> {
  /** Signed thoughts among the parts. */
  readonly signed?: readonly Signed[];
}

export interface Signed {
  /** Index among the parts. */
  readonly part: number;
  readonly signature: string;
}

/** One provider's wire format. */
export interface Wire {
  readonly keyOf: (headers: Readonly<Record<string, string | string[] | undefined>>) => string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs; each reads its own.
  readonly read: (body: any, url: URL, headers: Readonly<Record<string, string | string[] | undefined>>) => Read;
  readonly body: (answer: Answer) => unknown;
  /** Returns the records of a stream with their line endings. */
  readonly frames: (answer: Answer) => string[];
  readonly error: (status: number, message: string, retryAfter: number | undefined) => unknown;
  readonly errorFrame: (message: string) => string;
  /** Returns the provider's error for an output token limit above the model's maximum. */
  readonly tooManyTokens: (asked: Asked, most: number) => string;
  /** Status and body of {@link ScriptedTurn.refusal}, in the provider's own words. */
  readonly refusals: { readonly [Kind in Refusal]?: readonly [status: number, body: unknown] };
}

let counter = 0;
const nextId = (): string => (++counter).toString(36).padStart(8, '0');

/**
 * Fills in the defaults of a turn, and cuts it at the request's output token limit as models do: thoughts come first.
 */
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
    noUsage: turn.noUsage === true,
    objectArguments: turn.objectArguments === true,
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
/** A forced tool replaces the calls of the turn. */
function callsOf({ toolCalls = [], forcedInput = { result: 'forced' } }: ScriptedTurn, { forced }: Asked) {
  if (forced === undefined) return toolCalls;
  const allowed = toolCalls.filter(({ name }) => name === forced);
  return allowed.length > 0 ? allowed : [{ name: forced, input: forcedInput }];
}

/** Default turn of a model that calls a missing tool forever, each time with different input. */
export const ONLY_TOOLS: ScriptedTurn = { toolCalls: [{ name: 'nothing', input: { turn: '$TURN' } }] };
function isJsonObject(text: string): boolean {
  try {
    return /^\s*\{/.test(text) && JSON.parse(text) !== undefined;
  } catch {
    return false;
  }
}

const TOKEN_CHARACTERS = 4;
/** Estimates a deterministic token count. */
const tokens = (text: string): number => tokensOf(text.length);
const tokensOf = (characters: number): number => Math.max(1, Math.ceil(characters / TOKEN_CHARACTERS));

/** Returns the cumulative token count at the end of each part. */
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

/** A file counts as a large image, not by its base64. */
const withoutFile = (name: string, value: unknown): unknown =>
  FILE_MEMBERS.includes(name) && typeof value === 'string' ? 'x'.repeat(1_600 * TOKEN_CHARACTERS) : value;

const FILE_MEMBERS = ['data', 'image_url', 'file_data', 'url'];

/** Splits a text into chunks of a few letters, as models stream it. */
export function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,8}/g) ?? [];
}

/** Returns a signature that proves that a thought is unchanged and follows its original conversation. */
export const signatureOf = (thinking: string, prefix: string): string => `${hashOf(`scripted ${thinking}`)}.${prefix}`;

/** Returns whether the thought itself is unchanged. */
export const isSigned = (thinking: string, signature: unknown): boolean =>
  typeof signature === 'string' && signature.split('.')[0] === hashOf(`scripted ${thinking}`);

/** Returns the hash of the conversation that a thought is bound to. */
export const prefixIn = (signature: string): string => signature.split('.')[1] ?? '';

/** Returns the cumulative hash at each part. Cache markers are excluded, because the model does not read them. */
export function prefixesOf(parts: readonly unknown[]): string[] {
  let before = '';
  return parts.map((part) => {
    const text = JSON.stringify(part, (name, value) => (name === 'cache_control' ? undefined : value));
    before = hashOf(`${before} ${text}`);
    return before;
  });
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64');

/** Joins the texts of a conversation. */
export const joined = (texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n');

export const sse = (event: string, data: unknown): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

export const bearer = (headers: Readonly<Record<string, string | string[] | undefined>>): string | undefined =>
  typeof headers.authorization === 'string' ? headers.authorization.replace(/^Bearer\s+/i, '') || undefined : undefined;

/**
 * Checks the calls and results of a conversation in order: each result matches an open call, and no call stays open.
 */
export class ToolLedger {
  readonly #open = new Set<string>();
  readonly #known = new Set<string>();
  problem: string | undefined;

  call(id: string): void {
    if (this.#known.has(id)) this.problem ??= `The ids of tool calls must be unique, but ${id} occurs twice.`;
    this.#known.add(id);
    this.#open.add(id);
  }

  result(id: string): void {
    if (!this.#open.delete(id)) this.problem ??= `No tool call found for the tool result with id ${id}.`;
  }

  /** Called before any part that is not a result. */
  settle(): void {
    if (this.#open.size > 0) this.problem ??= `No tool result found for the tool calls ${[...this.#open].join(', ')}.`;
    this.#open.clear();
  }
}
