import { PlatformError } from '#core/base/errors.ts';
import { MAX_DURABLE_TURNS, MAX_TURNS } from '#core/manifest/definition.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { EngineRun } from '../engine.ts';
import { SUBMIT } from './submit.ts';

/** Number of remaining turns from which the model is told the number after each turn. */
const TOLD_TURNS = 2;
/** Remaining fraction of the run's time from which the model is told. */
const TOLD_TIME = 0.2;

/** Result of any other tool call in the last turn. */
export const LAST_TURN = `This was the last turn; only ${SUBMIT} is taken.`;

export const dependencyRequired = (tools: readonly string[]): string =>
  `Before a result is accepted, a call of one of these tools must succeed: ${tools.join(', ')}.`;

/**
 * Ends a loop at its limits (`docs/interface/loops.md#the-last-turn`): determines the last turn, the notices to the
 * model
 * before it, and the error after it. One of the `required` tools must succeed before a result is accepted; until then,
 * the
 * last turn is an ordinary one.
 */
export class LoopEnding {
  readonly #clock: Clock;
  readonly #run: EngineRun;
  readonly #startedAt: number;
  readonly #maxTurns: number;
  #maxCostUsd: number | undefined;
  #last: { readonly turn: number; readonly limit: 'max_turns' | 'max_cost_usd' };
  #costUsd = 0;
  #isUnpriced = false;

  constructor(clock: Clock, run: EngineRun) {
    const { max_turns, max_cost_usd } = run.agent.definition.loop!;
    this.#clock = clock;
    this.#run = run;
    this.#startedAt = clock.now();
    this.#maxTurns = max_turns;
    this.#maxCostUsd = max_cost_usd ?? undefined;
    this.#last = { turn: max_turns, limit: 'max_turns' };
  }

  /** Whether this turn accepts only a result. */
  takesOnlyResult(turn: number, required: readonly string[]): boolean {
    return turn >= this.#last.turn && required.length === 0;
  }

  /** Number of turns that can follow this one, not counting the turn that accepts only a result. */
  turnsAfter(turn: number): number {
    return this.#last.turn - turn;
  }

  /**
   * Whether no turn follows this one, which had no result. The last turn is followed by one more if a result would be
   * accepted.
   */
  isOver(turn: number, required: readonly string[]): boolean {
    return turn > this.#last.turn || (turn === this.#last.turn && required.length > 0);
  }

  /**
   * Returns whether another turn like this one would reach the cost limit.
   *
   * @param costUsd Cost of the run so far; `undefined` if a price is not known.
   */
  countCost(turn: number, costUsd: number | undefined): boolean {
    if (this.#maxCostUsd === undefined || turn >= this.#last.turn) return false;
    if (costUsd === undefined) {
      if (this.#isUnpriced) return false;
      this.#isUnpriced = true;
      this.#run.trace.add({
        event_type: 'decision',
        payload: { description: 'the price is not known: max_cost_usd has no effect' },
      });
      return false;
    }
    const next = costUsd + (costUsd - this.#costUsd);
    this.#costUsd = costUsd;
    return next >= this.#maxCostUsd;
  }

  /** What the run has cost, and what it may cost, in US dollars. Call it after {@link countCost} returned true. */
  get cost(): { readonly spentUsd: number; readonly maxUsd: number } {
    return { spentUsd: this.#costUsd, maxUsd: this.#maxCostUsd! };
  }

  /** Lets the run cost more. */
  raiseMaxCost(maxCostUsd: number): void {
    this.#maxCostUsd = maxCostUsd;
  }

  /** Makes the turn after this one the last one, because of the cost. */
  endByCost(turn: number): void {
    if (turn + 1 < this.#maxTurns) this.#last = { turn: turn + 1, limit: 'max_cost_usd' };
    const payload = { description: 'limit of cost', last_turn: this.#last.turn };
    this.#run.trace.add({ event_type: 'decision', payload });
  }

  /** Notice to the model after this turn, or before the first one (0). */
  noticeAfter(turn: number, required: readonly string[]): string | undefined {
    const say = this.#advice(turn, required);
    if (say === undefined) return undefined;
    const left = Math.max(0, Math.round((this.#run.deadline - this.#clock.now()) / 1000));
    return `[turn ${turn} of ${this.#maxTurns}, ${left} s left] ${say}`;
  }

  get error(): PlatformError {
    const isTurns = this.#last.limit === 'max_turns';
    const limit = isTurns ? `maximum turns (${this.#maxTurns})` : `its cost limit ($${this.#maxCostUsd})`;
    const most = this.#run.agent.definition.durable === undefined ? MAX_TURNS : MAX_DURABLE_TURNS;
    const raise = isTurns ? `loop.max_turns, up to ${most},` : 'loop.max_cost_usd';
    return new PlatformError('UNPROCESSABLE', `The agent reached ${limit} without submitting a result.`, {
      cause: this.#last.limit,
      hint: `Its author can raise ${raise} or give it less to do in one call.`,
    });
  }

  #advice(turn: number, required: readonly string[]): string | undefined {
    const { turn: last, limit } = this.#last;
    if (turn === last) return `One turn more, for the result only: call ${SUBMIT} now.`;
    if (turn + 1 === last) {
      const why = limit === 'max_cost_usd' ? 'The money for this run is nearly spent. ' : '';
      const what =
        required.length > 0
          ? `${dependencyRequired(required)} Do that and call ${SUBMIT} in it.`
          : `Call ${SUBMIT} now; no other tool is taken.`;
      return `${why}The next turn is the last one. ${what}`;
    }
    const now = this.#clock.now();
    const isLate = this.#run.deadline - now <= TOLD_TIME * (this.#run.deadline - this.#startedAt);
    if (turn === 0 || (turn < last - TOLD_TURNS && !isLate)) return undefined;
    const first = required.length > 0 ? `${dependencyRequired(required)} ` : '';
    return `${first}Call ${SUBMIT} now or in the next turn.`;
  }
}
