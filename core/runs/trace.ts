import type { Json } from '#core/base/json.ts';
import type { Clock } from '#core/ports/clock.ts';

/** See `docs/interface/runs.md#trace`. */
export type TraceEventType =
  | `${'llm_call' | 'tool_call'}_${'started' | 'succeeded' | 'failed'}`
  | 'decision'
  | 'fallback_transition'
  | 'output_repair'
  | 'context_compacted'
  | 'policy_violation'
  | 'error';

/** One step of a run: names, counts and times only, no prompts and no answers. */
export interface TraceEvent {
  readonly event_type: TraceEventType;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly payload?: { readonly [member: string]: Json };
  readonly provider?: string;
  readonly model?: string;
  readonly token_input?: number;
  readonly token_output?: number;
  readonly cache_read_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly cost_usd?: number;
  readonly duration_ms?: number;
  readonly error_type?: string;
  readonly error_message?: string;
}

/** A run may take 50 turns with several calls each. Later events are dropped; the run's record still counts its tokens. */
const MAX_EVENTS = 1000;

/** Collects the events of one run for its record. */
export class Trace {
  readonly #clock: Clock;
  readonly #events: TraceEvent[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(event: Omit<TraceEvent, 'at'>): void {
    if (this.#events.length < MAX_EVENTS) this.#events.push({ at: this.#clock.now(), ...event });
  }

  get events(): readonly TraceEvent[] {
    return this.#events;
  }
}
