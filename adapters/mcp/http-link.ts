import type { OutboundExchanges } from '#core/ports/outbound.ts';
import { type ToolServerAddress, ToolServerFailure } from '#core/ports/tool-servers.ts';
import { type Link, type LinkOptions, MAX_OPENING_BYTES, MAX_RESULT_BYTES, type Sdk } from './link.ts';
import { bounded, outboundFetch, redirected, unreached } from './outbound-fetch.ts';

/** Connects the SDK to a server over Streamable HTTP. */
export function httpLink(
  sdk: Sdk,
  outbound: OutboundExchanges,
  { url, headers }: ToolServerAddress,
  { ended, answering }: LinkOptions,
): Link {
  let bytesLeft = MAX_OPENING_BYTES;
  let failure: ToolServerFailure | undefined;
  let challenge: string | undefined;
  const fetch = outboundFetch({
    outbound,
    ended,
    maxBytes: () => Math.min(bytesLeft, MAX_RESULT_BYTES),
    onBytes(length) {
      bytesLeft -= length;
    },
    onFailure(error) {
      failure ??= error;
    },
    onAnswering: answering,
    onChallenge(given) {
      challenge = given;
    },
  });
  const transport = new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers }, fetch });
  return {
    transport,
    failure: () => failure,
    challenge() {
      const last = challenge;
      challenge = undefined;
      return last;
    },
    opened() {
      bytesLeft = Number.POSITIVE_INFINITY;
    },
    // Servers of the current revision have no session, and others may refuse to end theirs.
    end: () => transport.terminateSession(),
  };
}

/**
 * Connects the SDK to a server of the revision 2024-11-05, which answers all requests on one event stream. The stream is
 * opened once: if it ends, so do the session and the calls that wait for their answers.
 */
export function sseLink(
  sdk: Sdk,
  outbound: OutboundExchanges,
  { url, headers }: ToolServerAddress,
  { ended, answering }: LinkOptions,
): Link {
  let bytesLeft = MAX_OPENING_BYTES;
  let failure: ToolServerFailure | undefined;
  let isAsked = false;
  const broken = (error: unknown) => {
    failure ??= unreached(error) ?? new ToolServerFailure('its event stream ended', { isTransient: true });
  };
  const post = outboundFetch({
    outbound,
    ended,
    maxBytes: () => MAX_RESULT_BYTES,
    onBytes() {},
    onFailure() {},
    onAnswering: answering,
  });
  async function* eventsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      for await (const piece of pieces) {
        bytesLeft -= piece.byteLength;
        if (bytesLeft < 0) throw new ToolServerFailure('it sent more on its event stream than its answers may have');
        yield piece;
      }
      broken(undefined);
    } catch (error) {
      broken(error);
    }
    await transport.close();
  }
  const fetch = async (target: string | URL, init: RequestInit = {}): Promise<Response> => {
    if ((init.method ?? 'GET') !== 'GET') return post(target, init);
    // The SDK would connect again after the end of a stream. This status makes it stop.
    if (isAsked) return new Response(null, { status: 204 });
    isAsked = true;
    const { signal } = init;
    try {
      const answer = await outbound.exchange({
        method: 'GET',
        url: String(target),
        headers: Object.fromEntries(new Headers(init.headers)),
        signal: signal ? AbortSignal.any([ended, signal]) : ended,
      });
      const { status, headers: given, body } = answer;
      if (status >= 300 && status < 400) throw redirected(status);
      if (status !== 200) {
        await Array.fromAsync(bounded(answer, MAX_OPENING_BYTES, () => {}));
        return new Response(null, { status });
      }
      return new Response(ReadableStream.from(eventsOf(body)), { status, headers: given });
    } catch (error) {
      failure ??= unreached(error);
      throw error;
    }
  };
  const transport = new sdk.SSEClientTransport(new URL(url), {
    requestInit: { headers },
    eventSourceInit: { fetch: fetch as never },
    fetch,
  });
  return {
    transport,
    failure: () => failure,
    broken: () => failure,
    opened() {
      bytesLeft = 0;
    },
    beforeCall(calls) {
      bytesLeft = Math.max(bytesLeft, calls * MAX_RESULT_BYTES);
    },
    async end() {},
  };
}
