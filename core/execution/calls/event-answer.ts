import { isPlatformError } from '#core/base/errors.ts';
import { errorEnvelope, withDocsUrl } from '#core/http/envelope.ts';
import { EventStream } from '#core/http/event-stream.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { ProgressEvent } from '../engines/progress.ts';
import type { Keep } from '../idempotency/idempotent.ts';
import { type AnswerableRequest, continuation, resultBody } from './answers.ts';
import type { StartedCall } from './call.ts';
import { answerWhileHeld } from './held-answer.ts';
import type { Call } from './prepare.ts';

/** Shorter than the idle timeouts of common proxies. */
const HEARTBEAT_MS = 15_000;

/**
 * Answers with a stream of events (`docs/interface/calls.md#streams`): `progress` while the run is in progress, then
 * `result` or `error`, or `continues` for a durable run that is not over. The run continues if the client disconnects.
 */
export function answerWithEvents(
  deps: Deps,
  incoming: AnswerableRequest,
  call: Call,
  { started, keep }: { readonly started: StartedCall; readonly keep?: Keep | undefined },
) {
  const progress = new ProgressStream(deps);
  const finish = async (): Promise<void> => {
    const work = started.finish(progress.emit);
    deps.background(work.then(ignore, ignore));
    const ended = await answerWhileHeld(deps, started, work).then(
      (answer): { status: number; body: unknown; sent?: unknown } | undefined =>
        answer && { status: 200, body: resultBody(deps, incoming, call, answer) },
      (error: unknown) => {
        if (!isPlatformError(error)) deps.log.error('run failed', { run_id: call.runId, error: String(error) });
        const { status, body } = errorEnvelope(error, call.runId);
        return { status, body, sent: withDocsUrl(body, deps.config) };
      },
    );
    if (ended === undefined) {
      // Before the position is read: no event is sent twice, or skipped.
      progress.stop();
      const { status, headers, body } = continuation(call);
      await keep?.({ status, headers, body: JSON.stringify(body) });
      const after = await started.position();
      return progress.events.end('continues', JSON.stringify({ run_id: call.runId, url: `${body.url}/events`, after }));
    }
    const { status, body, sent } = ended;
    const json = JSON.stringify(body);
    await keep?.({ status, body: json });
    progress.events.end(status === 200 ? 'result' : 'error', sent === undefined ? json : JSON.stringify(sent));
  };
  deps.background(finish().finally(() => progress.stop()));
  return {
    status: 200,
    raw: { contentType: 'text/event-stream', content: progress.events },
    headers: { 'cache-control': 'no-cache' },
  };
}

/** Stream of progress events, with a heartbeat after each idle interval. */
class ProgressStream {
  readonly events = new EventStream();
  readonly #clock: Deps['clock'];
  #lastEventAt: number;
  #cancelTimer: () => void;
  #isStopped = false;

  constructor({ clock }: Pick<Deps, 'clock'>) {
    this.#clock = clock;
    this.#lastEventAt = clock.now();
    this.#cancelTimer = clock.after(HEARTBEAT_MS, this.#sendHeartbeat);
  }

  readonly emit = (event: ProgressEvent): void => {
    if (this.#isStopped) return;
    this.events.offer('progress', event);
    this.#lastEventAt = this.#clock.now();
  };

  /** Drops further events, and ends the heartbeats. */
  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer();
  }

  readonly #sendHeartbeat = (): void => {
    const quietMs = this.#clock.now() - this.#lastEventAt;
    const isDue = quietMs >= HEARTBEAT_MS;
    if (isDue) this.emit({ type: 'heartbeat' });
    this.#cancelTimer = this.#clock.after(isDue ? HEARTBEAT_MS : HEARTBEAT_MS - quietMs, this.#sendHeartbeat);
  };
}

const ignore = (): void => {};
