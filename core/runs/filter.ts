import { PlatformError } from '#core/base/errors.ts';
import type { RunStatus } from '#core/base/run-kinds.ts';
import type { RunFilter } from './listing.ts';

/** Run filter of a request, from its query or body. */
export interface SentFilter {
  readonly agent_name?: string | undefined;
  readonly version?: string | undefined;
  readonly status?: RunStatus | undefined;
  readonly schedule_id?: string | undefined;
  readonly trigger_source?: string | undefined;
  readonly tenant_id?: string | undefined;
  readonly top_level?: boolean | undefined;
  readonly exhausted?: boolean | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** Converts a request's filter. Throws INVALID_INPUT if `from` is not before `to`. */
export function filterOf(sent: SentFilter): RunFilter {
  const from = timeOf(sent.from);
  const to = timeOf(sent.to);
  if (from !== undefined && to !== undefined && from >= to) {
    throw new PlatformError('INVALID_INPUT', `from: must be before to, but ${sent.from} is not before ${sent.to}.`);
  }
  return {
    agentName: sent.agent_name,
    version: sent.version?.replace(/^(?=\d+$)/, 'v'),
    status: sent.status,
    scheduleId: sent.schedule_id,
    triggerSource: sent.trigger_source,
    tenantId: sent.tenant_id,
    topLevel: sent.top_level,
    exhausted: sent.exhausted,
    from,
    to,
  };
}

const timeOf = (text: string | undefined): number | undefined => (text === undefined ? undefined : Date.parse(text));
