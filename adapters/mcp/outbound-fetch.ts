import { hasCode } from '#core/base/errors.ts';
import { countText } from '#core/base/size-text.ts';
import type { OutboundAnswer, OutboundExchanges, OutboundFailure } from '#core/ports/outbound.ts';
import { ToolServerFailure } from '#core/ports/tool-servers.ts';

/** Statuses whose `Response` must not have a body. */
const BODYLESS = [204, 205, 304];
/** Error code for a request whose response broke off, from the range that JSON-RPC reserves for implementations. */
export const BROKEN_ANSWER = -32_000;

export interface OutboundFetchOptions {
  readonly outbound: OutboundExchanges;
  /** Aborts all requests. */
  readonly ended: AbortSignal;
  /** Returns the maximum size of the next response. */
  readonly maxBytes: () => number;
  /** Called with the length of each chunk of a response. */
  readonly onBytes: (length: number) => void;
  /**
   * Called with the reason why a response is missing or incomplete. The SDK replaces some of these errors with its own.
   */
  readonly onFailure: (failure: ToolServerFailure) => void;
  /** Called when a response to a request of the server is sent, and when the server has accepted it. */
  readonly onAnswering: (change: 1 | -1) => void;
  /** Called with the header `WWW-Authenticate` of an answer 401 or 403. */
  readonly onChallenge?: (challenge: string | undefined) => void;
}

/**
 * `fetch` for the transport of MCP's SDK: every request is subject to the platform's rules for addresses that users
 * configure.
 *
 * Each request is sent once. The SDK would follow redirects, open a stream for unsolicited messages of the server, and
 * reconnect to resume a broken response: all three are refused. An event stream that ends without its response would
 * block the SDK forever, so each stream gets an error as its last event, which the SDK ignores after a response.
 */
export function outboundFetch(options: OutboundFetchOptions) {
  const { outbound, ended, maxBytes, onBytes, onFailure, onAnswering, onChallenge } = options;
  const failed = (error: unknown): unknown => {
    const failure = unreached(error);
    if (failure !== undefined) onFailure(failure);
    return failure ?? error;
  };
  return async (url: string | URL, { method, headers, body, signal }: RequestInit = {}): Promise<Response> => {
    if (method !== 'POST' && method !== 'DELETE') return new Response(null, { status: 405 });
    const { id, isAnswer } = sentMessage(body);
    if (isAnswer) onAnswering(1);
    try {
      const answer = await outbound.exchange({
        method,
        url: String(url),
        headers: Object.fromEntries(new Headers(headers)),
        ...(typeof body === 'string' && { body }),
        signal: signal ? AbortSignal.any([ended, signal]) : ended,
      });
      const { status } = answer;
      if (status >= 300 && status < 400) throw redirected(status);
      if (status === 401 || status === 403) onChallenge?.(answer.headers['www-authenticate']);
      const pieces = bounded(answer, maxBytes(), onBytes);
      const isStream = status < 300 && /^text\/event-stream\b/i.test(answer.headers['content-type'] ?? '');
      const content = isStream
        ? ReadableStream.from(withEnd(pieces, id, failed))
        : Buffer.concat(await Array.fromAsync(pieces));
      if (status === 200 && id !== undefined && Buffer.isBuffer(content)) checkAnswers(content, id);
      return new Response(BODYLESS.includes(status) ? null : content, { status, headers: answer.headers });
    } catch (error) {
      throw failed(error);
    } finally {
      if (isAnswer) onAnswering(-1);
    }
  };
}

const isFailure = (error: unknown): error is ToolServerFailure => hasCode(error, 'TOOL_SERVER_FAILED');

/** Returns the failure that an error of a request stands for; `undefined` for other errors. */
export function unreached(error: unknown): ToolServerFailure | undefined {
  if (isFailure(error)) return error;
  if (!hasCode(error, 'OUTBOUND_FAILED')) return undefined;
  const { message, isFinal } = error as OutboundFailure;
  return new ToolServerFailure(message, { isTransient: !isFinal });
}

export const redirected = (status: number): ToolServerFailure =>
  new ToolServerFailure(`it redirects (status ${status}), which is not followed: name the address that it leads to`);

/** Yields the body. Throws {@link ToolServerFailure} if it is too long. */
export async function* bounded(
  { body }: OutboundAnswer,
  maxBytes: number,
  onBytes: OutboundFetchOptions['onBytes'],
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    onBytes(piece.byteLength);
    bytes += piece.byteLength;
    if (bytes > maxBytes) throw new ToolServerFailure(`it answered more than ${countText(maxBytes)} bytes`);
    yield piece;
  }
}

/** Yields the events, followed by one that ends the request `id` with an error. */
async function* withEnd(
  pieces: AsyncIterable<Uint8Array>,
  id: unknown,
  failed: (error: unknown) => unknown,
): AsyncGenerator<Uint8Array> {
  let message = 'its answer ended without the result';
  try {
    yield* pieces;
  } catch (error) {
    const failure = failed(error);
    message = isFailure(failure) && !failure.isTransient ? failure.message : 'its answer broke off';
  }
  const error = { jsonrpc: '2.0', id, error: { code: BROKEN_ANSWER, message } };
  // The empty line terminates a truncated event.
  if (id !== undefined) yield Buffer.from(`\n\ndata: ${JSON.stringify(error)}\n\n`);
}

/** Parses a sent message. Notifications and responses have no request id. */
function sentMessage(body: RequestInit['body']): { readonly id?: unknown; readonly isAnswer: boolean } {
  if (typeof body !== 'string') return { isAnswer: false };
  const { id, method } = JSON.parse(body) as { id?: unknown; method?: unknown };
  return method === undefined ? { isAnswer: true } : { id, isAnswer: false };
}

/**
 * Throws if `content` is JSON but not the response to the request `id`: the SDK would wait for it forever. The SDK
 * would also process a batch of messages in a single turn of the event loop.
 */
function checkAnswers(content: Buffer, id: unknown): void {
  let message: unknown;
  try {
    message = JSON.parse(content.toString());
  } catch {
    return;
  }
  if (Array.isArray(message)) throw new ToolServerFailure('it answered with several messages at once');
  const { jsonrpc, id: answered } = Object(message) as { jsonrpc?: unknown; id?: unknown };
  if (jsonrpc === '2.0' && String(answered) !== String(id))
    throw new ToolServerFailure('it answered a different request');
}
