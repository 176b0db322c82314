import { isoTime } from '#core/ports/clock.ts';
import { attemptOf } from './retries.ts';
import type { HeldBy, Run } from './run.ts';

/** A run as everybody who may see it sees it. */
export const runSummaryOf = (run: Run) => ({
  id: run.id,
  agent_name: run.agentName,
  agent_version: run.agentVersion,
  status: run.status,
  error_message: run.errorMessage,
  duration_ms: run.durationMs,
  trigger_source: run.triggerSource,
  started_at: run.hasBegun ? run.startedAt : null,
  created_at: run.createdAt,
  run_at: run.runAt,
});

/** A run as lists show it. */
export const listedRunOf = (run: Run) => ({
  ...runSummaryOf(run),
  channel: run.channel?.name ?? null,
  is_canary: run.channel?.isCanary ?? false,
  attempt: run.retries && attemptOf(run.retries),
  next_attempt_at: run.nextTryAt,
  held_by: run.heldBy && heldByOf(run.heldBy),
  exhausted: run.isExhausted,
});

/** The rule that keeps a run from beginning or continuing. */
export const heldByOf = ({ rule, key, limit, seconds, priority, due, until }: HeldBy) => ({
  ...{ rule, key, limit, seconds, priority },
  begins_at: due === null ? null : isoTime(due),
  until: isoTime(until),
});
