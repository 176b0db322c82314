import { isoTime } from '#core/ports/clock.ts';
import { hexOf } from './items.ts';
import type { TraceEvent } from './trace.ts';

/**
 * The id of a span, in the form of OpenTelemetry: 16 hexadecimal digits. Span 0 is the run itself, whose digits begin those
 * of its id.
 */
export function spanIdOf(runId: string, span: number): string {
  const digits = hexOf(runId).slice(0, 16);
  return span === 0 ? digits : (BigInt(`0x${digits}`) ^ BigInt(span)).toString(16).padStart(16, '0');
}

/** An event as the API shows it. */
export function traceEventView(runId: string, { at, span, parent = 0, payload, ...rest }: TraceEvent) {
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
