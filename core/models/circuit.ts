import { createHash } from 'node:crypto';
import type { Clock } from '#core/ports/clock.ts';
import type { ModelChoice } from './choose.ts';

/** Consecutive failures within a period that open a circuit. */
const FAILURES = 5;
const WINDOW_MS = 30_000;
/** How long an open circuit diverts requests before it lets a probe through. */
const OPEN_MS = 15_000;
/** Maximum number of circuits in memory, because callers choose models. */
const MAX_CIRCUITS = 1000;

/** Outcome of a request for its circuit: `given-up` means nothing about the provider. */
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
 * Circuit breakers, one for each combination of workspace, model, transport and key
 * (`docs/interface/transports.md#circuit`). They are only advice: a caller without another model asks anyway. Only
 * failures are stored.
 */
export class Circuits {
  readonly #clock: Clock;
  readonly #circuits = new Map<string, Circuit>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns whether to ask another model, because this one failed recently and its probe is not due, or is in flight.
   */
  isOpen(workspaceId: string, choice: ModelChoice): boolean {
    if (this.#circuits.size === 0) return false;
    const { openUntil, isProbing } = this.#circuits.get(keyOf(workspaceId, choice)) ?? {};
    return openUntil !== undefined && (isProbing === true || this.#clock.now() < openUntil);
  }

  /** Begins a request. Call the returned function when it has ended. */
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
    // Reinserted, to keep the newest last.
    this.#circuits.delete(key);
    this.#circuits.set(key, circuit);
    if (this.#circuits.size > MAX_CIRCUITS) this.#circuits.delete(this.#circuits.keys().next().value!);
    circuit.failures = [...circuit.failures.filter((at) => now - at < WINDOW_MS), now].slice(-FAILURES);
    const opens = circuit.openUntil === undefined ? circuit.failures.length === FAILURES : isProbe;
    if (opens) circuit.openUntil = now + OPEN_MS;
  }
}

/** Uses a hash, so that keys are not stored. */
const keyOf = (workspaceId: string, { provider, model, transport, apiKey }: ModelChoice): string =>
  createHash('sha256')
    .update(JSON.stringify([workspaceId, provider, model, transport, apiKey]))
    .digest('base64');
