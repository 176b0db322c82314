import type { Deps } from '#core/ports/deps.ts';
import { isLlmFailure, type LlmAnswer, type LlmRequest, type LlmUsage } from '#core/ports/llm.ts';
import type { ModelChoice } from './choose.ts';
import { type Circuits, circuitsOf, type Outcome } from './circuit.ts';
import { withIdleTimeout } from './idle-timeout.ts';

/** Maximum requests to one model for one question (`docs/interface/calls.md#tries`). */
const TRIES = 4;
/** Maximum requests if another model can be asked, or if the answer was unreadable. */
const FEW_TRIES = 2;
/** Random backoff below a limit that starts at the first value and doubles up to the second. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** If a provider asks for a longer wait, the request is not retried. */
const LONGEST_GIVEN_WAIT_MS = 20_000;
/** Minimum time for an answer: a wait must end at least this long before the deadline. */
const ANSWER_MS = 15_000;

/** The part of a request that does not depend on the model. */
export type Question = Omit<
  LlmRequest,
  'provider' | 'model' | 'transport' | 'apiKey' | 'signal' | 'onSign' | 'onBroken'
>;

/** What follows a failed request: a retry with the same model after a wait, another model immediately, or nothing. */
export type NextTry = { readonly waitMs: number } | { readonly other: ModelChoice } | undefined;

export interface Asking {
  readonly signal: AbortSignal;
  /** Called for each request. */
  readonly question: (choice: ModelChoice) => Question;
  /** Whether the question may be asked again after a failure. False if a part of the answer was already shown. */
  readonly mayRepeat: () => boolean;
  readonly onStart: (choice: ModelChoice) => void;
  /** Called when a model is skipped because its circuit is open (`docs/interface/transports.md#circuit`). */
  readonly onSkip: (choice: ModelChoice, other: ModelChoice) => void;
  /** @param spent Estimated tokens of the broken-off answer. */
  readonly onFailure: (choice: ModelChoice, error: unknown, spent: LlmUsage | undefined, next: NextTry) => void;
}

/**
 * Wraps the port `llm` for one run: transient failures are retried, and silent providers time out. All retries of model
 * requests happen here (`docs/interface/calls.md#tries`).
 */
export class RetryingLlm {
  readonly #deps: Pick<Deps, 'llm' | 'clock'>;
  readonly #workspaceId: string;
  readonly #deadline: number;
  readonly #circuits: Circuits;

  /**
   * @param run.workspaceId Workspace whose keys are used.
   * @param run.deadline Epoch milliseconds.
   */
  constructor(
    deps: Pick<Deps, 'llm' | 'clock'>,
    { workspaceId, deadline }: { readonly workspaceId: string; readonly deadline: number },
  ) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
    this.#deadline = deadline;
    this.#circuits = circuitsOf(deps.clock);
  }

  /**
   * Asks `models` in order until one answers. Throws the last failure, after reporting each to `onFailure`, or the
   * reason of the signal.
   */
  async ask(models: readonly ModelChoice[], asking: Asking): Promise<{ choice: ModelChoice; answer: LlmAnswer }> {
    let [choice, ...others] = this.#withoutOpen(models, asking);
    for (let tries = 1; ; tries++) {
      let spent: LlmUsage | undefined;
      asking.onStart(choice);
      const end = this.#circuits.begin(this.#workspaceId, choice);
      try {
        const answer = await this.#send(choice, asking, (usage) => (spent = usage));
        end('answered');
        return { choice, answer };
      } catch (error) {
        end(outcomeOf(error));
        const next = asking.mayRepeat() ? this.#nextTry(error, tries, others[0]) : undefined;
        asking.onFailure(choice, error, spent, next);
        if (next === undefined) throw error;
        if ('other' in next) {
          [choice, ...others] = this.#withoutOpen(others, asking);
          tries = 0;
        } else {
          await this.#deps.clock.sleep(next.waitMs, asking.signal);
        }
      }
    }
  }

  /** Moves the first model with a closed circuit to the front, if there is one. */
  #withoutOpen(models: readonly ModelChoice[], { onSkip }: Asking): [ModelChoice, ...ModelChoice[]] {
    const first = models.findIndex((choice) => !this.#circuits.isOpen(this.#workspaceId, choice));
    if (first > 0) onSkip(models[0]!, models[first]!);
    return models.slice(Math.max(first, 0)) as [ModelChoice, ...ModelChoice[]];
  }

  #send(choice: ModelChoice, { question, signal }: Asking, onBroken: LlmRequest['onBroken']): Promise<LlmAnswer> {
    const { provider } = choice;
    const asked = question(choice);
    const isStreamed = asked.onText !== undefined;
    const fileBytes = fileBytesOf(asked);
    return withIdleTimeout(this.#deps.clock, { provider, signal, isStreamed, fileBytes }, (watched) =>
      this.#deps.llm.generate({ ...choice, ...asked, ...watched, onBroken }),
    );
  }

  /** @param tries Number of requests to the model so far. */
  #nextTry(error: unknown, tries: number, following: ModelChoice | undefined): NextTry {
    if (!isLlmFailure(error)) return undefined;
    const other = following && { other: following };
    switch (error.kind) {
      case 'overflow':
      case 'key':
      case 'refused':
        // Asking another model would hide a mistake.
        return undefined;
      case 'quota':
        return other;
      default:
    }
    if (other !== undefined && error.code === 'LLM_RATE_LIMITED') return other;
    const maxTries = other !== undefined || error.kind === 'unreadable' ? FEW_TRIES : TRIES;
    if (tries >= maxTries) return other;
    const limitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
    const waitMs = Math.max(error.retryAfterMs ?? 0, Math.round(Math.random() * limitMs));
    const isLate = this.#deps.clock.now() + waitMs > this.#deadline - ANSWER_MS;
    return waitMs > LONGEST_GIVEN_WAIT_MS || isLate ? other : { waitMs };
  }
}

function fileBytesOf({ messages }: Question): number {
  const files = messages.flatMap((message) => {
    if (message.role === 'user') return message.files ?? [];
    return message.role === 'tool' ? message.results.flatMap((result) => result.files ?? []) : [];
  });
  return files.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
}

/** A provider that rejects the request is working. */
function outcomeOf(error: unknown): Outcome {
  if (!isLlmFailure(error)) return 'given-up';
  return ['transient', 'unreadable', 'quota'].includes(error.kind) ? 'failed' : 'answered';
}
