import type { AgentCaller } from '#core/base/caller.ts';
import { type TraceContext, type TraceHeaders, traceContextOf, traceHeadersOf } from '#core/base/trace-context.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { partSpanId, spanIdOf, spanOfRun, storedTrace, traceFrom } from '#core/runs/telemetry/span-ids.ts';

/** What a run needs to take part in tracing. Loaded lazily: few callers and workspaces do. */
export interface Tracing {
  /** The caller's span, for the record of the run. */
  readonly stored?: string;
  /** The run's own span, for its sub-calls, if the trace began outside. */
  readonly own?: string;
  /** Headers that name the run's span or, given its number, a part of it. */
  readonly headers: (part?: number) => TraceHeaders;
  /** Variables of sandboxes, which OpenTelemetry's SDKs and tools read. */
  readonly environment: Readonly<Record<string, string>>;
}

interface TracedCall {
  /** Span of the caller. */
  readonly trace?: TraceContext | undefined;
  readonly runId: string;
  readonly lineage: { readonly rootRunId?: string | undefined };
}

export function tracingOf({ trace, runId, lineage }: TracedCall): Tracing {
  const stored = trace && storedTrace(trace);
  const span: TraceContext = {
    ...spanOfRun({ id: runId, rootRunId: lineage.rootRunId, trace: stored }),
    ...(trace?.tracestate !== undefined && { tracestate: trace.tracestate }),
  };
  const headers = (part?: number) =>
    traceHeadersOf(part === undefined ? span : { ...span, spanId: partSpanId(runId, part) });
  return {
    ...(stored !== undefined && { stored, own: storedTrace({ ...span, spanId: spanIdOf(runId) }) }),
    headers,
    environment: Object.fromEntries(Object.entries(headers()).map(([name, value]) => [name.toUpperCase(), value])),
  };
}

/** Reads the caller's span from the headers of a request. Never throws. */
export const traceIn = (headers: RequestHeaders): TraceContext | undefined =>
  traceContextOf((name) => headers.get(name) ?? undefined);

/**
 * Returns the trace of a run's sub-call: that of the calling run. A span that its program names is the parent only if it
 * belongs to that trace.
 */
export function traceOfSubCall(headers: RequestHeaders, caller: AgentCaller): TraceContext | undefined {
  const named = traceIn(headers);
  if (caller.kind !== 'run') return named;
  const { context, runId, workspace } = caller;
  if (context.trace === undefined && !workspace.telemetry) return named;
  const own = context.trace ? traceFrom(context.trace) : spanOfRun({ id: runId, rootRunId: context.rootRunId });
  if (named?.traceId === own.traceId) return named;
  // Without a trace from outside, the place of the sub-call follows from the ids of the runs.
  return context.trace === undefined ? undefined : own;
}
