import type { Json } from '#core/base/json.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { TraceContent, TraceContents } from './trace-content.ts';

/** Kind of a part of a run that takes time. Its beginning and end are events of the trace. */
type SpanKind = 'llm_call' | 'tool_call' | 'queue' | 'setup_step' | 'sandbox';

/** See `docs/interface/runs.md#trace`. */
export type TraceEventType =
  | `${SpanKind}_${'started' | 'succeeded' | 'failed'}`
  | 'decision'
  | 'fallback_transition'
  | 'output_repair'
  | 'context_compacted'
  | 'policy_violation'
  | 'interrupted'
  | 'approval_requested'
  | 'approval_decided'
  | 'error';

/** One step of a run: names, counts and times. Its content is stored separately, see {@link TraceContents}. */
export interface TraceEvent {
  readonly event_type: TraceEventType;
  /** Epoch milliseconds. */
  readonly at: number;
  /** Number of the span in its run, from 1; on its start and end events. */
  readonly span?: number;
  /** Number of the parent span. @default - 0, the run itself */
  readonly parent?: number;
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

/** An event in the event stream. */
export interface LiveTraceEvent extends TraceEvent {
  readonly content?: TraceContent;
}

type Said = (contents: TraceContents) => TraceContent;

/** A run may have 50 turns with several calls each. Later events are dropped, but their tokens are still counted. */
const MAX_EVENTS = 1000;

/** Spans that a run's record shows only by their end events, which have durations. */
const SHOWN_BY_END = ['queue', 'setup_step', 'sandbox'] as const satisfies readonly SpanKind[];

interface OpenSpan {
  readonly kind: (typeof SHOWN_BY_END)[number];
  readonly parent?: number;
  readonly payload?: TraceEvent['payload'];
  readonly startedAt: number;
}

/** Collects the events of one run for its record, and passes each to `onAdd` at once. */
export class Trace {
  readonly #clock: Clock;
  readonly #onAdd: (type: 'trace', event: LiveTraceEvent) => void;
  readonly #contents: TraceContents | undefined;
  readonly #events: TraceEvent[] = [];
  readonly #open = new Map<number, OpenSpan>();
  #spans = 0;

  /**
   * @param contents Absent if no contents are stored.
   * @param past Events of a durable run that other processes added.
   */
  constructor(
    clock: Clock,
    onAdd: (type: 'trace', event: LiveTraceEvent) => void = () => {},
    contents?: TraceContents,
    past: readonly LiveTraceEvent[] = [],
  ) {
    this.#clock = clock;
    this.#onAdd = onAdd;
    this.#contents = contents;
    for (const { content, ...event } of past) {
      if (content !== undefined) contents?.keep(this.#events.length, content);
      this.#events.push(event);
      this.#spans = Math.max(this.#spans, event.span ?? 0);
    }
  }

  /** Adds an event. `said` returns its content, and is called only if contents are stored. */
  add(event: Omit<TraceEvent, 'at'>, said?: Said): void {
    const timed = { at: this.#clock.now(), ...event };
    const isKept = this.#events.length < MAX_EVENTS;
    const content = isKept && this.#contents !== undefined ? said?.(this.#contents) : undefined;
    if (content !== undefined) this.#contents!.keep(this.#events.length, content);
    if (isKept) this.#events.push(timed);
    const shown = content && this.#contents!.shownOf(content);
    this.#onAdd('trace', shown === undefined ? timed : { ...timed, content: shown });
  }

  /** Adds the start event of a span. Returns its number, for the end event. */
  begin(event: Omit<TraceEvent, 'at' | 'span'>, said?: Said): number {
    const span = ++this.#spans;
    this.add({ ...event, span }, said);
    return span;
  }

  /**
   * Opens a span of which the record keeps only the end. {@link Trace.close} ends it, or at the latest {@link
   * Trace.end}.
   */
  open(kind: OpenSpan['kind'], { parent, payload }: Pick<OpenSpan, 'parent' | 'payload'> = {}): number {
    const span = ++this.#spans;
    const at = this.#clock.now();
    this.#open.set(span, { kind, parent, payload, startedAt: at });
    this.#onAdd('trace', { event_type: `${kind}_started`, at, span, parent, payload });
    return span;
  }

  /** @param end.payload Replaces the payload that the span was opened with. */
  close(span: number, end: { readonly isFailed?: boolean; readonly payload?: TraceEvent['payload'] } = {}): void {
    const opened = this.#open.get(span);
    if (opened === undefined || !this.#open.delete(span)) return;
    const { kind, parent, startedAt } = opened;
    const { isFailed = false, payload = opened.payload } = end;
    const event_type = `${kind}_${isFailed ? 'failed' : 'succeeded'}` as const;
    this.add({ event_type, span, parent, payload, duration_ms: this.#clock.now() - startedAt });
  }

  /**
   * Closes all open spans when the run or an interrupted attempt has ended. Open waits and setup steps have failed; an
   * open
   * sandbox succeeded unless the attempt was interrupted.
   */
  end({ isInterrupted = false }: { readonly isInterrupted?: boolean } = {}): void {
    for (const [span, { kind }] of [...this.#open].reverse()) {
      this.close(span, { isFailed: isInterrupted || kind !== 'sandbox' });
    }
  }

  /** The last request to a model that another process made and did not see answered. */
  get unanswered(): TraceEvent | undefined {
    const last = this.#events.findLast(({ event_type }) => event_type.startsWith('llm_call_'));
    return last?.event_type === 'llm_call_started' ? last : undefined;
  }

  get events(): readonly TraceEvent[] {
    return this.#events;
  }

  /** Returns the contents as JSON for the record; `undefined` if none are stored. */
  contentFor(end: { readonly isFailed: boolean }): string | undefined {
    return this.#contents?.textFor(end);
  }
}

/**
 * Rebuilds the recorded events from the streamed ones, for a run whose process died. Open spans failed at the time of
 * the
 * last event.
 */
export function recordedEvents(told: readonly TraceEvent[]): TraceEvent[] {
  const events: TraceEvent[] = [];
  const open = new Map<number | undefined, { readonly kind: OpenSpan['kind']; readonly begun: TraceEvent }>();
  for (const event of told) {
    const kind = SHOWN_BY_END.find((each) => event.event_type === `${each}_started`);
    if (kind !== undefined) {
      open.set(event.span, { kind, begun: event });
      continue;
    }
    open.delete(event.span);
    events.push(event);
  }
  const at = told.at(-1)?.at ?? 0;
  for (const { kind, begun } of [...open.values()].reverse()) {
    events.push({ ...begun, event_type: `${kind}_failed`, at, duration_ms: at - begun.at });
  }
  return events.slice(0, MAX_EVENTS);
}
