import type { Json } from '#core/base/json.ts';
import { type OutboundExchanges, OutboundFailure } from '#core/ports/outbound.ts';
import type { Collector } from './store.ts';

/** A collector that takes longer counts as absent: spans are then sent again. */
const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024;
/** Statuses that say that these spans will never be taken. All others are tried again, since settings may be corrected. */
const REFUSES_SPANS = [400, 413, 415, 422];
const MAX_RETRY_AFTER_SECONDS = 300;

export interface Posted {
  /** Null if there was no answer. */
  readonly status: number | null;
  /** Beginning of the answer's text. */
  readonly answer: string;
  /** Why the spans were not taken, as a sentence of the platform; absent if they were. */
  readonly problem?: string;
  /** Whether the same spans would be refused again. */
  readonly isFinal: boolean;
  readonly retryAfterMs?: number;
}

/**
 * Posts one request of spans or metrics. Never throws because of the collector.
 *
 * @param stopping Aborted when the process is about to stop, which does not wait for the collector.
 */
export async function postOtlp(
  exchanges: OutboundExchanges,
  collector: Collector,
  body: string,
  stopping?: AbortSignal,
): Promise<Posted> {
  const over = new AbortController();
  const problem = `The collector did not answer within ${TIMEOUT_MS / 1000} seconds.`;
  const stop = () => over.abort(new Error('stopping'));
  stopping?.addEventListener('abort', stop);
  const timer = setTimeout(() => over.abort(new Error(problem)), TIMEOUT_MS);
  try {
    const {
      status,
      headers,
      body: answered,
    } = await exchanges.exchange({
      method: 'POST',
      url: collector.url,
      headers: { ...collector.headers, 'content-type': 'application/json' },
      body,
      signal: over.signal,
    });
    const answer = await beginningOf(answered);
    if (status >= 200 && status < 300) return { status, answer, isFinal: false, ...partialProblem(answer) };
    const retryAfter = Number(headers['retry-after']);
    return {
      status,
      answer,
      problem: `The collector answered ${status}.`,
      isFinal: REFUSES_SPANS.includes(status),
      ...(retryAfter > 0 && { retryAfterMs: Math.min(retryAfter, MAX_RETRY_AFTER_SECONDS) * 1000 }),
    };
  } catch (error) {
    if (!over.signal.aborted && !(error instanceof OutboundFailure)) throw error;
    const reason = over.signal.aborted ? problem : `The collector could not be reached: ${(error as Error).message}.`;
    return { status: null, answer: '', problem: reason, isFinal: false };
  } finally {
    clearTimeout(timer);
    stopping?.removeEventListener('abort', stop);
    // Closes the connection, even if the collector is still sending.
    over.abort(new Error('done'));
  }
}

async function beginningOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    if (bytes >= MAX_ANSWER_BYTES) break;
  }
  return Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES).toString();
}

/** A collector may take a request and still refuse some of its spans. These must not be sent again. */
function partialProblem(answer: string): Pick<Posted, 'problem' | 'isFinal'> | undefined {
  try {
    const { partialSuccess } = JSON.parse(answer) as { partialSuccess?: { rejectedSpans?: Json } };
    const count = Number(partialSuccess?.rejectedSpans ?? 0);
    return count > 0 ? { problem: `The collector refused ${count} spans of a request.`, isFinal: true } : undefined;
  } catch {
    return undefined;
  }
}
