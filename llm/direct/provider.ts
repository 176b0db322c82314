import type { LlmMessage, LlmRequest } from '#core/ports/llm.ts';
import type { ChosenForm } from '../schema-for.ts';
import type { Turn } from '../turn.ts';
import type { Wire } from '../wires.ts';

/** A question of one message of text, as prompts ask it. */
export interface PlainQuestion extends Omit<LlmRequest, 'messages'> {
  readonly message: Omit<Extract<LlmMessage, { role: 'user' }>, 'files'>;
}

/** Gets the pieces of a streamed answer. */
export interface Pieces {
  readonly text: (piece: string) => void;
  readonly thought: (piece: string) => void;
}

/** One provider's API, for plain questions. What throws in it is of the provider's making: an answer that is none. */
export interface DirectProvider {
  /** Whether it can ask this of the model. */
  takes(request: LlmRequest, form: ChosenForm | undefined): boolean;
  url(wire: Wire, question: PlainQuestion): string;
  /** Names in lower case. */
  headers(apiKey: string): Record<string, string>;
  body(question: PlainQuestion, form: ChosenForm | undefined): object;
  /** The turn of an answer that came whole. Throws an {@link EventError}. */
  turnOf(answer: unknown): Turn;
  /** Reads the events of one streamed answer in turn; returns the model's turn with the last one. Throws an {@link EventError}. */
  events(pieces: Pieces): (event: unknown) => Turn | undefined;
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
