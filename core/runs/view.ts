import { attemptOf } from './retries.ts';
import type { Run } from './run.ts';

/** A run as everybody who may see it sees it. */
export const runSummaryOf = (run: Run) => ({
  id: run.id,
  agent_name: run.agentName,
  agent_version: run.agentVersion,
  status: run.status,
  error_message: run.errorMessage,
  duration_ms: run.durationMs,
  trigger_source: run.triggerSource,
  started_at: run.status === 'queued' && run.nextTryAt === null ? null : run.startedAt,
  created_at: run.createdAt,
  run_at: run.runAt,
});

/** A run as lists show it. */
export const listedRunOf = (run: Run) => ({
  ...runSummaryOf(run),
  attempt: run.retries && attemptOf(run.retries),
  next_attempt_at: run.nextTryAt,
  exhausted: run.isExhausted,
});
