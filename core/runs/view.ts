import type { Run } from './run.ts';

/** A run as lists show it. */
export const runSummaryOf = (run: Run) => ({
  id: run.id,
  agent_name: run.agentName,
  agent_version: run.agentVersion,
  status: run.status,
  error_message: run.errorMessage,
  duration_ms: run.durationMs,
  trigger_source: run.triggerSource,
  started_at: run.status === 'queued' ? null : run.startedAt,
  created_at: run.createdAt,
  run_at: run.runAt,
});
