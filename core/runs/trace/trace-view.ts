import { isoTime } from '#core/ports/clock.ts';
import { hexOf } from '../items.ts';
import type { Run } from '../run.ts';
import type { LiveTraceEvent, TraceEvent } from './trace.ts';
import type { ContentByEvent } from './trace-content.ts';

/**
 * Returns the id of a span in OpenTelemetry's form: 16 hexadecimal digits. Span 0 is the run itself; its digits are the
 * first ones of the run's id.
 */
export function spanIdOf(runId: string, span: number): string {
  const digits = hexOf(runId).slice(0, 16);
  return span === 0 ? digits : (BigInt(`0x${digits}`) ^ BigInt(span)).toString(16).padStart(16, '0');
}

/** View of an event in the API. */
export function traceEventView(runId: string, { at, span, parent = 0, payload, ...rest }: LiveTraceEvent) {
  const isEnd = /_(succeeded|failed)$/.test(rest.event_type);
  return {
    ...rest,
    payload: { ...payload },
    ...(span !== undefined && {
      span_id: spanIdOf(runId, span),
      parent_span_id: spanIdOf(runId, parent),
      started_at: isoTime(isEnd ? at - (rest.duration_ms ?? 0) : at),
      ...(isEnd && { ended_at: isoTime(at) }),
    }),
    created_at: isoTime(at),
  };
}

type TraceStep = ReturnType<typeof traceEventView>;

/**
 * Merges the calls that a run made of other agents into its steps, by time. The caller's process does not see these
 * calls,
 * so they come from the called runs' records. A call shows the span of the called run; its parent is the tool or
 * sandbox that was active when it began.
 */
export function withSubCalls(
  runId: string,
  trace: readonly TraceEvent[],
  calls: readonly Run[],
  contents: ContentByEvent = {},
) {
  const steps = trace.map((event, number) =>
    traceEventView(runId, contents[number] ? { ...event, content: contents[number] } : event),
  );
  if (calls.length === 0) return steps;
  const all = [...steps, ...subCallSteps(runId, calls, steps)];
  return all.sort((a, b) => Date.parse(a.created_at) - Date.parse(b.created_at));
}

/** Returns the calls that a run made of other agents as steps of it. `steps` are its other steps. */
export const subCallSteps = (runId: string, calls: readonly Run[], steps: readonly TraceStep[]) =>
  calls.map((call) => subCallStep(call, parentOf(call, steps) ?? spanIdOf(runId, 0)));

function subCallStep(call: Run, parent_span_id: string) {
  const { status, completedAt, costUsd, durationMs, errorCode, errorMessage } = call;
  const end = status === 'completed' ? 'succeeded' : 'failed';
  return {
    event_type: `sub_call_${completedAt === null ? 'started' : end}`,
    payload: { run_id: call.id, agent_name: call.agentName, agent_version: call.agentVersion },
    span_id: spanIdOf(call.id, 0),
    parent_span_id,
    started_at: call.startedAt,
    ...(completedAt !== null && { ended_at: completedAt }),
    ...(durationMs !== null && { duration_ms: durationMs }),
    ...(costUsd !== null && { cost_usd: costUsd }),
    ...(errorCode !== null && { error_type: errorCode }),
    ...(errorMessage !== null && { error_message: errorMessage }),
    created_at: completedAt ?? call.startedAt,
  };
}

/**
 * Finds the parent span of a called run: the tool that was active when it began (with several, the last one to begin),
 * or
 * else the sandbox. The kind takes precedence over the time, as a sandbox and its first tool may begin in the same
 * millisecond. Times are ISO 8601 in UTC, which sort as text.
 */
export function parentOf({ startedAt }: Run, steps: readonly TraceStep[]): string | undefined {
  const lastAtWork = (end: RegExp) =>
    steps
      .filter((step) => end.test(step.event_type) && step.started_at! <= startedAt && startedAt <= step.ended_at!)
      .reduce<TraceStep | undefined>(
        (last, step) => (last && last.started_at! > step.started_at! ? last : step),
        undefined,
      );
  return (lastAtWork(/^tool_call_(succeeded|failed)$/) ?? lastAtWork(/^sandbox_(succeeded|failed)$/))?.span_id;
}
