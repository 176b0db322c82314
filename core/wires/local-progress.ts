import { isPlatformError } from '#core/base/errors.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import { type End, tokensOf } from './run-mapping.ts';

/** Maximum of waiting text, so that a slow reader cannot exhaust the memory. It then gets what is stored. */
const MAX_CHARACTERS = 1024 * 1024;
/** Upper bound on the size of an event without its text. */
const EVENT_CHARACTERS = 300;

/** How a run ended, or `continues` if it continues in another process. */
type LocalOutcome = End | 'continues';

/** The progress of a run in this process, for one reader. */
export class LocalProgress {
  #events: ProgressEvent[] = [];
  #characters = 0;
  #isCut = false;
  #outcome: LocalOutcome | undefined;
  #tell: (() => void) | undefined;

  /**
   * @param finish Works on the run, as `StartedCall.finish` does.
   * @param runId A UUID, for the text of unexpected errors.
   */
  static of(
    { log }: Pick<Deps, 'log'>,
    finish: (emit: (event: ProgressEvent) => void) => Promise<CallAnswer>,
    runId: string,
  ): { readonly progress: LocalProgress; readonly work: Promise<void> } {
    const progress = new LocalProgress();
    const work = finish((event) => progress.#add(event)).then(
      ({ data, usage }) => progress.#end({ output: data, usage: usage && tokensOf(usage) }),
      (error: unknown) => {
        if (!isRunContinues(error) && !isPlatformError(error)) {
          log.error('run failed', { run_id: runId, error: String(error) });
        }
        progress.#end(isRunContinues(error) ? 'continues' : { error: errorEnvelope(error, runId).body.error });
      },
    );
    return { progress, work };
  }

  /** Returns what is new. `isCut`: the reader was too slow, and events are missing. */
  take(): {
    readonly events: readonly ProgressEvent[];
    readonly isCut: boolean;
    readonly outcome: LocalOutcome | undefined;
  } {
    const events = this.#events;
    this.#events = [];
    this.#characters = 0;
    return { events, isCut: this.#isCut, outcome: this.#outcome };
  }

  /** Waits until there is something new. Returns false if there was nothing for `ms`. Never throws. */
  async changed(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
    if (this.#hasNews) return true;
    const waited = new AbortController();
    const news = new Promise<void>((resolve) => {
      this.#tell = resolve;
    });
    const quiet = clock.sleep(Math.max(0, ms), AbortSignal.any([signal, waited.signal])).catch(() => {});
    await Promise.race([news, quiet]);
    waited.abort();
    this.#tell = undefined;
    return this.#hasNews;
  }

  get #hasNews(): boolean {
    return this.#events.length > 0 || this.#isCut || this.#outcome !== undefined;
  }

  #add(event: ProgressEvent): void {
    if (this.#isCut) return;
    this.#characters += EVENT_CHARACTERS + ('text' in event ? event.text.length : 0);
    if (this.#characters > MAX_CHARACTERS) {
      this.#isCut = true;
      this.#events = [];
    } else {
      this.#events.push(event);
    }
    this.#tell?.();
  }

  #end(outcome: LocalOutcome): void {
    this.#outcome = outcome;
    this.#tell?.();
  }
}
