import type { LlmProvider, LlmRequest } from '#core/ports/llm.ts';
import type { ProviderEndpoint } from '../endpoints.ts';
import type { BrokenMeter } from '../partial-usage.ts';
import { type ChosenForm, withSchema } from '../schema-for.ts';
import { headersOf, type ProviderResponse, wholeOf } from '../send.ts';
import { BrokenAnswerError, type Turn } from '../turn.ts';
import { anthropic } from './anthropic.ts';
import { EventReader } from './event-reader.ts';
import { openai } from './openai.ts';
import { type DirectProvider, EventError, type Pieces, type StreamReader } from './provider.ts';

const PROVIDERS: { readonly [Provider in LlmProvider]?: DirectProvider } = { anthropic, openai };

/** Whether a request is sent to its provider without the SDK. */
export function isDirect(request: LlmRequest, form: ChosenForm | undefined): boolean {
  const { transport, temperature, stop, seed } = request;
  // Only the SDK knows which models accept these.
  if ([temperature, stop, seed].some((setting) => setting !== undefined)) return false;
  if (transport?.via === 'bedrock' || form?.form.kind === 'tool') return false;
  return PROVIDERS[request.provider]?.takes(request, form) ?? false;
}

/**
 * Gets the model's turn for a request that {@link isDirect}. Throws {@link ProviderError} and other errors for
 * `provider-error.ts`.
 */
export async function askDirectly(
  request: LlmRequest,
  wire: ProviderEndpoint,
  form: ChosenForm | undefined,
  meter: BrokenMeter,
): Promise<Turn> {
  const provider = PROVIDERS[request.provider]!;
  const outgoing = {
    url: urlOf(provider.url(wire)),
    headers: { 'content-type': 'application/json', ...provider.headers(wire.apiKey ?? '', request) },
    body: JSON.stringify(provider.body(withSchema(request, form), form)),
  };
  try {
    const message = await wire.send(outgoing, request.signal);
    const status = message.statusCode!;
    if (status < 200 || status >= 300) throw new ProviderError('', message, (await wholeOf(message)).toString());
    return await (request.onText ? streamed(provider, message, request, meter) : whole(provider, message, request));
  } catch (error) {
    throw isOfNetwork(error) ? new ConnectionError(error) : error;
  }
}

/**
 * Parsed URLs by their text, oldest first. There are only a few: addresses of providers, workspace gateways and models.
 */
const urls = new Map<string, URL>();
const MAX_URLS = 200;

function urlOf(text: string): URL {
  let known = urls.get(text);
  if (known === undefined) {
    known = new URL(text);
    if (urls.size >= MAX_URLS) urls.delete(urls.keys().next().value!);
    urls.set(text, known);
  }
  return known;
}

async function whole(provider: DirectProvider, message: ProviderResponse, request: LlmRequest): Promise<Turn> {
  const text = (await wholeOf(message)).toString();
  try {
    return provider.turnOf(JSON.parse(text), request);
  } catch (error) {
    if (error instanceof EventError) throw providerErrorOf(error, message, text);
    throw new ProviderError('Invalid JSON response', message, text);
  }
}

const providerErrorOf = ({ failure }: EventError, message: ProviderResponse, text: string): ProviderError =>
  new ProviderError(failure.message, message, text, failure.statusCode ?? 500);

/** Text within this time after a piece is batched into the next: each piece costs its readers as much as its text. */
const PAUSE_MS = 5;

/**
 * How long a stream may stay open after its last event: its connection can be reused only after the end of the stream.
 */
const LINGER_MS = 1000;

function streamed(
  provider: DirectProvider,
  message: ProviderResponse,
  request: LlmRequest,
  meter: BrokenMeter,
): Promise<Turn> {
  const pieces = new JoinedPieces(request, meter);
  const reader = provider.events(pieces, request);
  const events = new EventReader();
  let chunks: Buffer[] = [];
  let turn: Turn | undefined;
  let pause: NodeJS.Timeout | undefined;
  return new Promise<Turn>((resolve, reject) => {
    const fail = (error: unknown): void => {
      message.off('data', onData);
      message.destroy();
      reject(error);
    };
    /** Reads all chunks that have arrived. */
    const readChunks = (): void => {
      clearTimeout(pause);
      pause = undefined;
      const arrived = chunks;
      chunks = [];
      if (arrived.length === 0 || turn !== undefined) return;
      try {
        for (const data of events.push(arrived.length === 1 ? arrived[0]! : Buffer.concat(arrived))) {
          if (turn !== undefined || data === '[DONE]') continue;
          turn = readEvent(reader, data, message, meter);
        }
      } catch (error) {
        fail(error);
        return;
      } finally {
        pieces.pass();
      }
      if (turn === undefined) return;
      message.off('data', onData);
      // The end of the response frees the connection.
      const tooLong = setTimeout(() => message.destroy(), LINGER_MS);
      message.once('close', () => clearTimeout(tooLong));
      resolve(turn);
    };
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk);
      if (chunks.length > 1) return;
      const early = pieces.passedAt + PAUSE_MS - performance.now();
      if (early > 0) pause = setTimeout(readChunks, early);
      // Read together with the other chunks of the same packet.
      else queueMicrotask(readChunks);
    };
    message.on('data', onData);
    message.once('end', () => {
      readChunks();
      if (turn === undefined) reject(new BrokenAnswerError(meter.hasBegun ? 'BROKEN_ANSWER' : 'NO_ANSWER'));
    });
    message.on('error', (error) => {
      readChunks();
      reject(error);
    });
    message.resume();
  });
}

/** Joins consecutive pieces into one: every piece costs its reader as much as its text. */
class JoinedPieces implements Pieces {
  readonly #request: LlmRequest;
  readonly #meter: BrokenMeter;
  #kind: 'text' | 'thought' = 'text';
  #waiting = '';
  /** Time of `performance.now()`. */
  passedAt = Number.NEGATIVE_INFINITY;

  constructor(request: LlmRequest, meter: BrokenMeter) {
    this.#request = request;
    this.#meter = meter;
  }

  text(piece: string): void {
    this.#add('text', piece);
  }

  thought(piece: string): void {
    this.#add('thought', piece);
  }

  tool(name: string): void {
    this.pass();
    this.#request.onTool?.(name);
  }

  input(piece: string): void {
    this.#meter.characters += piece.length;
  }

  /** Flushes the waiting pieces. */
  pass(): void {
    const text = this.#waiting;
    if (text === '') return;
    this.#waiting = '';
    this.passedAt = performance.now();
    if (this.#kind === 'text') this.#request.onText?.(text);
    else this.#request.onThought?.(text);
  }

  #add(kind: 'text' | 'thought', piece: string): void {
    this.#meter.characters += piece.length;
    if (kind !== this.#kind) this.pass();
    this.#kind = kind;
    this.#waiting += piece;
  }
}

function readEvent(
  reader: StreamReader,
  data: string,
  message: ProviderResponse,
  meter: BrokenMeter,
): Turn | undefined {
  if (reader.skim?.(data)) return undefined;
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch {
    throw new UnreadableError(`JSON parsing failed: Text: ${data}.`);
  }
  meter.read(event);
  try {
    return reader.read(event);
  } catch (error) {
    if (!(error instanceof EventError)) throw new UnreadableError(`Type validation failed: Value: ${data}.`);
    throw error.isAnswer ? providerErrorOf(error, message, data) : error.failure;
  }
}

/** An error response of the provider. It has the same members as the SDK's errors. */
class ProviderError extends Error {
  readonly statusCode: number;
  readonly responseHeaders: Readonly<Record<string, string>>;
  readonly responseBody: string;

  constructor(text: string, message: ProviderResponse, responseBody: string, statusCode = message.statusCode!) {
    super(text);
    this.statusCode = statusCode;
    this.responseHeaders = headersOf(message);
    this.responseBody = responseBody;
  }
}

/** An event that is not JSON or not in the provider's format. Test the code. */
class UnreadableError extends Error {
  readonly code = 'UNREADABLE';
}

/** The connection failed or was closed early. Test the code. */
class ConnectionError extends Error {
  readonly code = 'NO_CONNECTION';

  constructor(cause: Error) {
    super(`Cannot connect to API: ${cause.message}`, { cause });
  }
}

/** Errors of Node's sockets and resolver. */
const isOfNetwork = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'syscall' in error ? true : (error as NodeJS.ErrnoException | null)?.code === 'ECONNRESET';
