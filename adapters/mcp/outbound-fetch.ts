import { hasCode } from '#core/base/errors.ts';
import { countText } from '#core/base/size-text.ts';
import type { OutboundAnswer, OutboundExchanges, OutboundFailure } from '#core/ports/outbound.ts';
import { ToolServerFailure } from '#core/ports/tool-servers.ts';

/** Statuses whose `Response` must not have a body. */
const BODYLESS = [204, 205, 304];
/** The error that ends a request whose answer broke off: one of those that JSON-RPC leaves to implementations. */
export const BROKEN_ANSWER = -32_000;

export interface OutboundFetchOptions {
  readonly outbound: OutboundExchanges;
  /** Ends all requests. */
  readonly ended: AbortSignal;
  /** Asked for each answer: how many bytes it may have. */
  readonly maxBytes: () => number;
  /** Told the length of each piece of an answer. */
  readonly onBytes: (length: number) => void;
  /** Told why a request got no whole answer. The SDK replaces some of these errors by its own. */
  readonly onFailure: (failure: ToolServerFailure) => void;
  /** Told when an answer to a request of the server is sent, and when the server has taken it. */
  readonly onAnswering: (change: 1 | -1) => void;
}

/**
 * `fetch` for the transport of MCP's SDK: every request goes through the platform's rules for addresses that users name.
 *
 * Each request is sent once. The SDK would follow redirects, open a stream of what the server says of its own accord, and open
 * it again to resume an answer that broke off: all three are refused. An event stream that ends without its answer would leave
 * the SDK waiting for ever, so each stream gets an error as its last event; after an answer the SDK ignores it.
 */
export function outboundFetch({ outbound, ended, maxBytes, onBytes, onFailure, onAnswering }: OutboundFetchOptions) {
  const failed = (error: unknown): unknown => {
    const failure = hasCode(error, 'OUTBOUND_FAILED') ? unreached(error as OutboundFailure) : error;
    if (isFailure(failure)) onFailure(failure);
    return failure;
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

const unreached = ({ message, isFinal }: OutboundFailure): ToolServerFailure =>
  new ToolServerFailure(message, { isTransient: !isFinal });

const redirected = (status: number): ToolServerFailure =>
  new ToolServerFailure(`it redirects (status ${status}), which is not followed: name the address that it leads to`);

async function* bounded(
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

/** The events, and a last one that ends the request `id` with an error. */
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
  // The empty line ends an event that was cut.
  if (id !== undefined) yield Buffer.from(`\n\ndata: ${JSON.stringify(error)}\n\n`);
}

/** What a body is: the id of a request, which notifications and answers have none of. */
function sentMessage(body: RequestInit['body']): { readonly id?: unknown; readonly isAnswer: boolean } {
  if (typeof body !== 'string') return { isAnswer: false };
  const { id, method } = JSON.parse(body) as { id?: unknown; method?: unknown };
  return method === undefined ? { isAnswer: true } : { id, isAnswer: false };
}

/**
 * Throws if `content` is JSON, but not the answer to the request `id`: the SDK would go on waiting for that, though nothing else can
 * come. Of several messages at once, it would deal with all in one turn of the event loop.
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
    throw new ToolServerFailure('it answered another request than it was asked');
}
