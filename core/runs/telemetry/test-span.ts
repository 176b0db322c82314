import type { Deps } from '#core/ports/deps.ts';
import { encodeSpan, tracesBody } from './otlp.ts';
import { type Posted, postOtlp } from './post-otlp.ts';
import { resourceOf } from './send.ts';
import { spanOfRun } from './span-ids.ts';
import type { Collector } from './store.ts';

/** Sends one span that belongs to no run. */
export function sendTestSpan(
  { exchanges, ids, clock }: Pick<Deps, 'exchanges' | 'ids' | 'clock'>,
  collector: Collector,
  workspaceId: string,
): Promise<Posted> {
  const now = clock.now();
  const { traceId, spanId } = spanOfRun({ id: ids.uuid() });
  const name = 'test of the export';
  const span = encodeSpan({ traceId, spanId, name, kind: 'internal', startedAt: now, endedAt: now, attributes: {} });
  return postOtlp(exchanges, collector, tracesBody(resourceOf(workspaceId), [JSON.stringify(span)]));
}
