import type { LlmMessage, LlmRequest } from '#core/ports/llm.ts';
import type { ProviderEndpoint } from '../endpoints.ts';
import type { ChosenForm } from '../schema-for.ts';
import type { Turn } from '../turn.ts';

/** Receives the pieces of a streamed answer. */
export interface Pieces {
  readonly text: (piece: string) => void;
  readonly thought: (piece: string) => void;
  /** Receives the name of a tool that the model calls. */
  readonly tool: (name: string) => void;
  /** Receives a piece of the tool's parameters. */
  readonly input: (piece: string) => void;
}

/** Reads the events of one streamed answer in order. */
export interface StreamReader {
  /** Returns the model's turn at the last event. Throws an {@link EventError}. */
  read(event: unknown): Turn | undefined;
  /**
   * Reads a text delta without parsing it as JSON, which costs more than the rest of its handling. Returns false,
   * without consuming the event, if it is not a text delta in the expected form.
   */
  skim?(data: string): boolean;
}

/** One provider's API. Errors thrown in it mean that the provider's response is invalid. */
export interface DirectProvider {
  /** Whether it supports this request. */
  takes(request: LlmRequest, form: ChosenForm | undefined): boolean;
  url(wire: ProviderEndpoint): string;
  /** Returns the headers, with names in lower case. */
  headers(apiKey: string, request: LlmRequest): Record<string, string>;
  body(request: LlmRequest, form: ChosenForm | undefined): object;
  /** Returns the turn of a response that was not streamed. Throws an {@link EventError}. */
  turnOf(answer: unknown, request: LlmRequest): Turn;
  events(pieces: Pieces, request: LlmRequest): StreamReader;
}

/** Requests with files are sent through the SDK. */
export function hasFiles(message: LlmMessage): boolean {
  if (message.role === 'user') return (message.files ?? []).length > 0;
  return message.role === 'tool' && message.results.some(({ files = [] }) => files.length > 0);
}

/** A failure reported by the response or by one of its events. */
export class EventError extends Error {
  readonly failure: {
    readonly message: string;
    readonly type?: string;
    readonly code?: string;
    readonly statusCode?: number;
  };
  /** Whether the error is the whole answer, because no content came before it. */
  readonly isAnswer: boolean;

  constructor(failure: EventError['failure'], isAnswer: boolean) {
    super(failure.message);
    this.failure = failure;
    this.isAnswer = isAnswer;
  }
}
