import { PlatformError } from '#core/base/errors.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { cancelRun, waitForEnd } from './cancellation.ts';
import { filterOf } from './filter.ts';
import { listRuns, runsWithPrefix } from './listing.ts';
import { findReadableRun } from './readable-run.ts';
import type { runRoutes } from './routes.ts';
import { type Branch, hasTurns, momentView, type Run, type RunBody } from './run.ts';
import { RunStore } from './store.ts';
import { buildDag } from './trace/dag.ts';
import { traceEventPage } from './trace/event-page.ts';
import { spanIdOf } from './trace/trace-view.ts';
import { waterfallOf } from './trace/waterfall.ts';
import { listedRunOf } from './view.ts';

/** Maximum number of branches that are listed. */
const MAX_BRANCHES = 200;

type RunDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config' | 'runSignals' | 'wakeRun'>;

type RunHandlers = Handlers<typeof runRoutes>;

export const runHandlers = (deps: RunDeps): RunHandlers => ({ ...recordHandlers(deps), ...traceHandlers(deps) });

function recordHandlers(
  deps: RunDeps,
): Pick<RunHandlers, 'listRuns' | 'getRun' | 'cancelRun' | 'requestRunCancel' | 'getRunLogs' | 'listRunBranches'> {
  const storeOf = (workspaceId: string) => new RunStore(deps, workspaceId);

  async function cancel(workspaceId: string, name: string) {
    const runs = storeOf(workspaceId);
    const found = await runs.findByName(name);
    const { id } = found;
    if (isInstallation(found)) {
      throw new PlatformError('CONFLICT', `The run ${id} is an installation of an agent: it cannot be cancelled.`);
    }
    if (await cancelRun(deps, workspaceId, id)) await waitForEnd(deps, runs, id);
    const run = await runs.findByName(id);
    return { status: 200 as const, body: detailOf(run, await runs.body(id)) };
  }

  return {
    async listRuns({ caller, query }) {
      const { run_id_prefix: prefix, limit, offset, cursor } = query;
      const filter = filterOf(query);
      if (prefix === undefined) {
        if (cursor !== undefined && offset > 0) {
          throw new PlatformError('INVALID_INPUT', 'query.offset: cannot be combined with a cursor.');
        }
        const page = await listRuns(deps, caller.workspace.id, filter, { limit, offset, cursor });
        return {
          status: 200,
          body: {
            runs: page.runs.map(listedRunOf),
            total: page.total,
            total_is_exact: page.isExact,
            next_cursor: page.nextCursor,
          },
        };
      }
      if (cursor !== undefined) {
        throw new PlatformError('INVALID_INPUT', 'query.cursor: cannot be combined with run_id_prefix; use offset.');
      }
      const found = await runsWithPrefix(deps, caller.workspace.id, prefix, filter);
      const runs = found.slice(offset, offset + limit).map(listedRunOf);
      return { status: 200, body: { runs, total: found.length, total_is_exact: true, next_cursor: null } };
    },

    async getRun({ caller, params, query }) {
      const runs = storeOf(caller.workspace.id);
      const run = await findReadableRun(runs, caller, params.run_id);
      return { status: 200, body: detailOf(run, query.body ? await runs.body(run.id) : undefined) };
    },

    cancelRun: ({ caller, params }) => cancel(caller.workspace.id, params.run_id),
    requestRunCancel: ({ caller, params }) => cancel(caller.workspace.id, params.run_id),

    async listRunBranches({ caller, params }) {
      const runs = storeOf(caller.workspace.id);
      const { id } = await runs.findByName(params.run_id);
      const branches = (await runs.branchesOf(id, MAX_BRANCHES)).map((run) => ({
        ...listedRunOf(run),
        ...branchView(run.branch!),
      }));
      return { status: 200, body: { run_id: id, branches } };
    },

    async getRunLogs({ caller, params }) {
      const runs = storeOf(caller.workspace.id);
      const run = await runs.findByName(params.run_id);
      const body = await runs.body(run.id);
      return {
        status: 200,
        body: {
          run_id: run.id,
          agent_name: run.agentName,
          agent_version: run.agentVersion,
          run_status: run.status,
          error_message: run.errorMessage,
          input_data: body?.input ?? null,
          output_data: body?.output ?? null,
          has_execution_log: body !== undefined && (body.stdout !== '' || body.stderr !== ''),
          stdout: body?.stdout ?? null,
          stderr: body?.stderr ?? null,
          exit_code: run.exitCode,
          execution_time_ms: run.executionMs,
        },
      };
    },
  };
}

function traceHandlers(
  deps: RunDeps,
): Pick<RunHandlers, 'getRunDag' | 'getRunWaterfall' | 'getRunTrace' | 'listTraceEvents'> {
  const storeOf = (workspaceId: string) => new RunStore(deps, workspaceId);
  return {
    async getRunDag({ caller, params }) {
      const runs = storeOf(caller.workspace.id);
      const run = await runs.findByName(params.run_id);
      const tree = await runs.tree(run.rootRunId);
      if (tree.length < 2) {
        throw new PlatformError('NOT_FOUND', `The run ${run.id} called no other agent and was called by none.`);
      }
      return { status: 200, body: buildDag(tree) };
    },

    async getRunWaterfall({ caller, params, query: { cursor: from, limit } }) {
      const runs = storeOf(caller.workspace.id);
      const run = await runs.findByName(params.run_id);
      return { status: 200, body: await waterfallOf(deps, runs, run.rootRunId, { from, limit }) };
    },

    async getRunTrace({ caller, params }) {
      const run = await storeOf(caller.workspace.id).findByName(params.run_id);
      return {
        status: 200,
        body: {
          trace: {
            id: run.id,
            run_id: run.id,
            span_id: spanIdOf(run.id, 0),
            parent_run_id: run.parentRunId,
            root_run_id: run.rootRunId,
            workspace_id: run.workspaceId,
            status: run.status,
            created_at: run.startedAt,
            ...(run.completedAt !== null && { completed_at: run.completedAt }),
          },
        },
      };
    },

    async listTraceEvents({ caller, params, query }) {
      const runs = storeOf(caller.workspace.id);
      return { status: 200, body: await traceEventPage(runs, await runs.findByName(params.trace_id), query) };
    },
  };
}

const branchView = ({ fromTurn, changed }: Branch) => ({ from_turn: fromTurn, changed: [...changed] });

function detailOf(run: Run, body: RunBody | undefined) {
  return {
    ...listedRunOf(run),
    endpoint: run.endpoint,
    error_code: run.errorCode,
    completed_at: run.completedAt,
    parent_run_id: run.parentRunId,
    root_run_id: run.rootRunId,
    replay_of_run_id: run.replayOf,
    branch: run.branch && branchView(run.branch),
    has_turns: hasTurns(run),
    tenant_id: run.tenantId,
    session_id: run.sessionId,
    deadline: isoTime(run.deadline),
    schedule_id: run.scheduleId,
    ...(run.scheduled
      ? momentView(run.scheduled)
      : { scheduled_at: null, scheduled_local: null, scheduled_zone: null }),
    input_tokens: run.inputTokens,
    output_tokens: run.outputTokens,
    cache_read_tokens: run.cacheReadTokens,
    cache_write_tokens: run.cacheWriteTokens,
    llm_provider: run.llmProvider,
    llm_model: run.llmModel,
    cost_usd: run.costUsd,
    credits_cents: run.creditsCents,
    input_data: body?.input ?? null,
    output_data: body?.output ?? null,
    max_attempts: run.retries && run.retries.policy.max + 1,
    failed_attempts: [...(run.retries?.failed ?? [])],
  };
}
