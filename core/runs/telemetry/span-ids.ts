import { hash } from 'node:crypto';
import type { TraceContext } from '#core/base/trace-context.ts';
import { hexOf } from '../items.ts';

/** Part of a run's record that its place in a trace follows from. */
export interface TracedRun {
  readonly id: string;
  readonly parentRunId?: string | null | undefined;
  readonly rootRunId?: string | null | undefined;
  /** See {@link storedTrace}. Absent if the run began a trace, or its parent's span is the one that follows from its id. */
  readonly trace?: string | undefined;
}

/** Returns the caller's span as records keep it: ids without dashes, and the flag. */
export const storedTrace = ({ traceId, spanId, sampled }: TraceContext): string =>
  `${traceId}${spanId}${sampled ? 1 : 0}`;

/**
 * Returns the span of a run itself. Nothing of it is stored: a run that began a trace gives its id to the trace, and the
 * span of each run has the last digits of the run's id, which are random.
 */
export const spanOfRun = ({ id, rootRunId, trace }: TracedRun): TraceContext => ({
  traceId: trace?.slice(0, 32) ?? hexOf(rootRunId ?? id),
  spanId: spanIdOf(id),
  sampled: trace?.[48] !== '0',
});

/** Returns the id of the span above a run; `undefined` if it began its trace. */
export const parentSpanId = ({ parentRunId, trace }: TracedRun): string | undefined =>
  trace?.slice(32, 48) ?? (parentRunId ? spanIdOf(parentRunId) : undefined);

/** Returns the id of a part of a run, by its number in the trace. The same part always has the same id. */
export const partSpanId = (runId: string, span: number): string => hash('sha256', `${runId}:${span}`).slice(0, 16);

/** Returns the id of the span of a run. */
export const spanIdOf = (runId: string): string => hexOf(runId).slice(16);

/** Reads what {@link storedTrace} returns. */
export const traceFrom = (stored: string): TraceContext => ({
  traceId: stored.slice(0, 32),
  spanId: stored.slice(32, 48),
  sampled: stored[48] !== '0',
});
