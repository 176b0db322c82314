import { createHash } from 'node:crypto';

/** The scripted answer or failure for one request. */
export interface ScriptedTurn {
  /** @default 'ok', or nothing beside tool calls */
  readonly text?: string;
  /** Answers with the text of the last message (the prompt, or the tools' results) instead of `text`. */
  readonly echo?: boolean;
  /** Several are called in parallel. */
  readonly toolCalls?: readonly ScriptedToolCall[];
  /** Comes before the text, signed; the server refuses a conversation that brings it back changed. */
  readonly thinking?: string;
  /** `length`: cut at the output limit. */
  readonly finish?: 'length' | 'content_filter';
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
  /** A streamed answer fails half-way with the provider's own error event. */
  readonly streamError?: boolean;
  /** Half of the answer, then the connection is reset, or ends as if all were well. */
  readonly breakOff?: 'reset' | 'end';
  /** Status 200 and the right content type, but the JSON is cut. */
  readonly malformed?: boolean;
  /** Answers this content type and an HTML page, with `status` or 200. */
  readonly contentType?: string;
  /** Never answers. */
  readonly hang?: boolean;
}

export interface ScriptedToolCall {
  readonly name: string;
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
  readonly finish: 'stop' | 'tool_calls' | 'length' | 'content_filter';
  readonly usage: {
    readonly input: number;
    readonly output: number;
    readonly cacheRead: number;
    readonly cacheWrite: number;
  };
}

/** What the server reads of a request in any format. */
export interface Asked {
  readonly model: string;
  readonly stream: boolean;
  /** All text of the conversation. */
  readonly text: string;
  /** Of the last message. */
  readonly lastText: string;
  /** Turns of the model so far. */
  readonly turns: number;
  /** Why the provider would refuse the request with status 400. */
  readonly problem?: string;
}

/** One provider's wire format. */
export interface Wire {
  readonly keyOf: (headers: Readonly<Record<string, string | string[] | undefined>>) => string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of four APIs; each reads its own.
  readonly read: (body: any, url: URL, headers: Readonly<Record<string, string | string[] | undefined>>) => Asked;
  readonly body: (answer: Answer) => unknown;
  /** The records of a stream, each with its line ends. */
  readonly frames: (answer: Answer) => string[];
  readonly error: (status: number, message: string, retryAfter: number | undefined) => unknown;
  readonly errorFrame: (message: string) => string;
}

let counter = 0;
const nextId = (): string => (++counter).toString(36).padStart(8, '0');

export function fillIn(turn: ScriptedTurn, asked: Asked): Answer {
  const toolCalls = (turn.toolCalls ?? []).map((call) => ({
    id: call.id ?? `call_${nextId()}`,
    name: call.name,
    json: call.rawInput ?? JSON.stringify(call.input ?? {}),
  }));
  const text = turn.echo ? asked.lastText : (turn.text ?? (toolCalls.length > 0 ? '' : 'ok'));
  return {
    id: nextId(),
    model: asked.model,
    text,
    toolCalls,
    thinking: turn.thinking,
    finish: turn.finish ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop'),
    usage: {
      input: turn.usage?.input ?? tokens(asked.text),
      output: turn.usage?.output ?? tokens(text),
      cacheRead: turn.usage?.cacheRead ?? 0,
      cacheWrite: turn.usage?.cacheWrite ?? 0,
    },
  };
}

/** A rough, deterministic token count. */
const tokens = (text: string): number => Math.max(1, Math.ceil(text.length / 4));

/** Pieces as a model streams them: a few letters each. */
export function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,8}/g) ?? [];
}

/** Signature that proves that a thought was sent back unchanged. */
export const signatureOf = (thinking: string): string =>
  createHash('sha256').update(`scripted ${thinking}`).digest('base64');

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
