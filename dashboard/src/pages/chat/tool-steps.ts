import type { AnswerOf } from '../../api/client.ts';
import type { ToolStep } from '../../chat/transport.ts';

type TraceEvent = Pick<
  AnswerOf<'listTraceEvents'>['events'][number],
  'event_type' | 'span_id' | 'payload' | 'content'
> & { readonly duration_ms?: number | null };

/** Returns the calls of tools of a trace: the beginning of each has its arguments, the end its result. */
export function stepsOf(events: readonly TraceEvent[]): ToolStep[] {
  const steps = new Map<string, ToolStep>();
  for (const { event_type, span_id, payload, content, duration_ms } of events) {
    const [, outcome] = /^tool_call_(started|succeeded|failed)$/.exec(event_type) ?? [];
    if (outcome === undefined || span_id === undefined || span_id === null) continue;
    const { tool_name, turn } = payload as { readonly tool_name?: unknown; readonly turn?: unknown };
    steps.set(span_id, {
      tool: String(tool_name),
      turn: typeof turn === 'number' ? turn : undefined,
      ...steps.get(span_id),
      status: outcome === 'started' ? 'running' : outcome === 'failed' ? 'error' : 'ok',
      ...(typeof duration_ms === 'number' && { duration_ms }),
      ...(content?.arguments && { arguments: content.arguments.text }),
      ...(content?.result && { result: content.result.text }),
    });
  }
  return [...steps.values()];
}
