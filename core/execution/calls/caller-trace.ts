import type { AgentCaller } from '#core/base/caller.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import type { Call } from './prepare.ts';

/**
 * Returns the trace that a request belongs to, if its caller takes part in tracing. Never throws.
 *
 * @param caller The calling agent of a sub-call.
 */
export async function callerTrace(headers: RequestHeaders, caller?: AgentCaller): Promise<Pick<Call, 'trace'>> {
  const isTraced = caller?.kind === 'run' && caller.context.trace !== undefined;
  if (!isTraced && !headers.has('traceparent')) return {};
  const { traceIn, traceOfSubCall } = await import('./tracing.ts');
  const trace = caller === undefined ? traceIn(headers) : traceOfSubCall(headers, caller);
  return trace === undefined ? {} : { trace };
}
