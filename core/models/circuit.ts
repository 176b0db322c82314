import { createHash } from 'node:crypto';
import type { Clock } from '#core/ports/clock.ts';
import type { ModelChoice } from './choose.ts';

/** Failures without an answer in between that open a circuit, and the time in which they count together. */
const FAILURES = 5;
const WINDOW_MS = 30_000;
/** How long an open circuit sends requests elsewhere before it lets one through. */
const OPEN_MS = 15_000;
/** Circuits that are remembered: callers choose models. */
const MAX_CIRCUITS = 1000;

/** How a request ended, for its circuit: `given-up` says nothing of the provider. */
export type Outcome = 'answered' | 'failed' | 'given-up';

interface Circuit {
  /** Epoch milliseconds. */
  failures: number[];
  /** Absent: the circuit is closed. */
  openUntil?: number;
  isProbing: boolean;
}

/** One process has one clock; tests have several. */
const ofClock = new WeakMap<Clock, Circuits>();

/** The circuits of this process. */
export function circuitsOf(clock: Clock): Circuits {
  const known = ofClock.get(clock) ?? new Circuits(clock);
  ofClock.set(clock, known);
  return known;
}

/**
 * Circuit breakers, one for each model, way to it and key of a workspace (`docs/interface/transports.md#circuit`). They only
 * advise: a caller that has no other model asks anyway. Only what fails is remembered.
 */
export class Circuits {
  readonly #clock: Clock;
  readonly #circuits = new Map<string, Circuit>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether to ask another model: this one failed lately, and its probe is not due, or is under way. */
  isOpen(workspaceId: string, choice: ModelChoice): boolean {
    if (this.#circuits.size === 0) return false;
    const { openUntil, isProbing } = this.#circuits.get(keyOf(workspaceId, choice)) ?? {};
    return openUntil !== undefined && (isProbing === true || this.#clock.now() < openUntil);
  }

  /** Begins a request. Call the result once it has ended. */
  begin(workspaceId: string, choice: ModelChoice): (outcome: Outcome) => void {
    const circuit = this.#circuits.size === 0 ? undefined : this.#circuits.get(keyOf(workspaceId, choice));
    const isProbe = circuit?.openUntil !== undefined && !circuit.isProbing && this.#clock.now() >= circuit.openUntil;
    if (isProbe) circuit!.isProbing = true;
    return (outcome) => {
      if (isProbe) circuit!.isProbing = false;
      if (outcome === 'given-up' || (outcome === 'answered' && this.#circuits.size === 0)) return;
      const key = keyOf(workspaceId, choice);
      if (outcome === 'answered') this.#circuits.delete(key);
      else this.#fail(key, isProbe);
    };
  }

  #fail(key: string, isProbe: boolean): void {
    const now = this.#clock.now();
    const circuit = this.#circuits.get(key) ?? { failures: [], isProbing: false };
    // The newest come last.
    this.#circuits.delete(key);
    this.#circuits.set(key, circuit);
    if (this.#circuits.size > MAX_CIRCUITS) this.#circuits.delete(this.#circuits.keys().next().value!);
    circuit.failures = [...circuit.failures.filter((at) => now - at < WINDOW_MS), now].slice(-FAILURES);
    const opens = circuit.openUntil === undefined ? circuit.failures.length === FAILURES : isProbe;
    if (opens) circuit.openUntil = now + OPEN_MS;
  }
}

/** A hash: keys are not kept. */
const keyOf = (workspaceId: string, { provider, model, transport, apiKey }: ModelChoice): string =>
  createHash('sha256')
    .update(JSON.stringify([workspaceId, provider, model, transport, apiKey]))
    .digest('base64');
