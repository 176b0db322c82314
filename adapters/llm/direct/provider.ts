import type { LlmMessage, LlmRequest } from '#core/ports/llm.ts';
import type { ProviderEndpoint } from '../endpoints.ts';
import type { ChosenForm } from '../schema-for.ts';
import type { Turn } from '../turn.ts';

/** Gets the pieces of a streamed answer. */
export interface Pieces {
  readonly text: (piece: string) => void;
  readonly thought: (piece: string) => void;
  /** The name of a tool that is called. */
  readonly tool: (name: string) => void;
  /** Of its parameters. */
  readonly input: (piece: string) => void;
}

/** Reads the events of one streamed answer in turn. */
export interface StreamReader {
  /** Returns the model's turn with the last event. Throws an {@link EventError}. */
  read(event: unknown): Turn | undefined;
  /**
   * Reads an event that brings a piece of text without parsing it as JSON, which costs more than all else that is done with it.
   * Returns false if it is any other event, or has it in another form: then nothing has been read.
   */
  skim?(data: string): boolean;
}

/** One provider's API. What throws in it is of the provider's making: an answer that is none. */
export interface DirectProvider {
  /** Whether it can ask this of the model. */
  takes(request: LlmRequest, form: ChosenForm | undefined): boolean;
  url(wire: ProviderEndpoint): string;
  /** Names in lower case. */
  headers(apiKey: string, request: LlmRequest): Record<string, string>;
  body(request: LlmRequest, form: ChosenForm | undefined): object;
  /** The turn of an answer that came whole. Throws an {@link EventError}. */
  turnOf(answer: unknown, request: LlmRequest): Turn;
  events(pieces: Pieces, request: LlmRequest): StreamReader;
}

/** The SDK sends files. */
export function hasFiles(message: LlmMessage): boolean {
  if (message.role === 'user') return (message.files ?? []).length > 0;
  return message.role === 'tool' && message.results.some(({ files = [] }) => files.length > 0);
}

/** A failure that the answer tells, or an event of it. */
export class EventError extends Error {
  readonly failure: {
    readonly message: string;
    readonly type?: string;
    readonly code?: string;
    readonly statusCode?: number;
  };
  /** Nothing was answered before it: it is the answer. */
  readonly isAnswer: boolean;

  constructor(failure: EventError['failure'], isAnswer: boolean) {
    super(failure.message);
    this.failure = failure;
    this.isAnswer = isAnswer;
  }
}
