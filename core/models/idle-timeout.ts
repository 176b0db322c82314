import type { Clock } from '#core/ports/clock.ts';
import { LlmFailure, type LlmProvider, type LlmRequest } from '#core/ports/llm.ts';
import { rowOf } from './providers.ts';

/** Timeout to connect and send the request (`docs/interface/calls.md#tries`). */
const SEND_MS = 30_000;
/** Extra time for files, for a connection of about a megabit per second. */
const FILE_BYTES_PER_MS = 128;
/**
 * Sends a request with `send`, and aborts it with a transient {@link LlmFailure} if the provider is silent for too
 * long. A provider that does not stream may be silent until its answer begins.
 */
export async function withIdleTimeout<Answer>(
  clock: Clock,
  {
    provider,
    signal,
    isStreamed,
    fileBytes,
  }: { provider: LlmProvider; signal: AbortSignal; isStreamed: boolean; fileBytes: number },
  send: (watched: Required<Pick<LlmRequest, 'signal' | 'onSign'>>) => Promise<Answer>,
): Promise<Answer> {
  const stop = new AbortController();
  const sendMs = SEND_MS + Math.round(fileBytes / FILE_BYTES_PER_MS / 1000) * 1000;
  let stage: 'sending' | 'sent' | 'received' = 'sending';
  let since = clock.now();
  const onSign = (sign: 'sent' | 'received'): void => {
    // A provider may answer before it has read the whole request.
    if (stage !== 'received') stage = sign;
    since = clock.now();
  };
  let cancelTimer = (): void => {};
  const watch = (): void => {
    const limit = stage === 'sending' ? sendMs : rowOf(provider).silenceMs;
    const left = since + limit - clock.now();
    const mayBeSilent = stage === 'sent' && !isStreamed;
    if (left <= 0 && !mayBeSilent) stop.abort(silenceOf(provider, stage, limit));
    else cancelTimer = clock.after(left > 0 ? left : limit, watch);
  };
  const onAbort = (): void => stop.abort(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort);
  watch();
  try {
    return await send({ signal: stop.signal, onSign });
  } finally {
    cancelTimer();
    signal.removeEventListener('abort', onAbort);
  }
}

function silenceOf(provider: LlmProvider, stage: string, limitMs: number): LlmFailure {
  const name = rowOf(provider).title;
  const span = `${limitMs / 1000} seconds`;
  const message =
    stage === 'sending'
      ? `The request could not be sent to ${name} within ${span}.`
      : `The answer of ${name} stopped: nothing came for ${span}.`;
  return new LlmFailure('transient', message);
}
