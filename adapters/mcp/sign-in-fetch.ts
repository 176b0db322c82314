import { countText } from '#core/base/size-text.ts';
import type { OutboundExchanges } from '#core/ports/outbound.ts';
import { ToolSignInFailure } from '#core/ports/tool-sign-in.ts';

/** Timeout of one request: API Gateway waits 29 seconds for a whole sign-in, and a refresh must end within its lease. */
const REQUEST_MS = 6000;
/** Maximum size of a document or an answer. */
const MAX_BYTES = 128 * 1024;
const BODYLESS = [204, 205, 304];

export interface SignInRequest extends RequestInit {
  /** Whether only status and headers of the answer matter. */
  readonly isProbe?: boolean;
}

/** `fetch` for sign-in: the platform's rules for addresses that users name, and bounds on time and size. No redirects. */
export function signInFetch(outbound: OutboundExchanges) {
  return async (
    url: string | URL,
    { method = 'GET', headers, body, isProbe }: SignInRequest = {},
  ): Promise<Response> => {
    const answer = await outbound
      .exchange({
        method: method as 'GET' | 'POST',
        url: String(url),
        headers: {
          ...(body instanceof URLSearchParams && { 'content-type': 'application/x-www-form-urlencoded' }),
          ...Object.fromEntries(new Headers(headers)),
        },
        ...(body !== undefined && body !== null && { body: String(body) }),
        signal: AbortSignal.timeout(REQUEST_MS),
      })
      .catch((error: unknown) => {
        throw timedOut(error);
      });
    const { status, headers: given } = answer;
    if (isProbe) {
      for await (const _ of answer.body) break;
      return new Response(null, { status: status < 200 || BODYLESS.includes(status) ? 204 : status, headers: given });
    }
    if (status >= 300 && status < 400) {
      throw new ToolSignInFailure('unfit', `it redirects (status ${status}), which is not followed`);
    }
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const piece of answer.body) {
        bytes += piece.byteLength;
        if (bytes > MAX_BYTES)
          throw new ToolSignInFailure('unfit', `it answered more than ${countText(MAX_BYTES)} bytes`);
        pieces.push(piece);
      }
    } catch (error) {
      throw timedOut(error);
    }
    return new Response(BODYLESS.includes(status) ? null : Buffer.concat(pieces), { status, headers: given });
  };
}

const timedOut = (error: unknown): unknown =>
  (error as Error).name === 'TimeoutError'
    ? new ToolSignInFailure('unreachable', `it did not answer within ${REQUEST_MS / 1000} seconds`)
    : error;
