import { findOwnOrDev } from '#core/agents/access.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { agentLogRoutes } from './routes.ts';
import { type AgentRun, listAgentRuns } from './store.ts';

type LogDeps = Pick<Deps, 'config' | 'main' | 'runs' | 'blobs' | 'clock' | 'ids' | 'endedRuns'>;

export const agentLogHandlers = (deps: LogDeps): Handlers<typeof agentLogRoutes> => ({
  async listAgentLogs({ caller, params, query: { limit, before } }) {
    const version = await findOwnOrDev(deps, caller, params.id);
    const runs = await listAgentRuns(deps, version.id, {
      limit,
      ...(before !== undefined && { before: isoTime(Date.parse(before)) }),
    });
    return { status: 200, body: runs.map(logEntry) };
  },
});

const LOG_STATUS = {
  queued: 'running',
  running: 'running',
  waiting: 'running',
  cancelled: 'error',
  completed: 'success',
  failed: 'error',
  timeout: 'timeout',
} as const;

const logEntry = (run: AgentRun) => ({
  id: run.id,
  request_id: requestIdOf(run.id),
  agent_id: run.agentId,
  started_at: run.startedAt,
  completed_at: run.completedAt,
  duration_ms: run.durationMs,
  status: LOG_STATUS[run.status],
  trigger_source: run.triggerSource,
  error_message: run.errorMessage,
  exit_code: run.exitCode,
  stdout: run.stdout,
  stderr: run.stderr,
});
