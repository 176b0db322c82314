import { hasEnded } from '#core/base/run-kinds.ts';
import type { Deps } from '#core/ports/deps.ts';
import { liveEventsOf } from '../live-events.ts';
import type { Run } from '../run.ts';
import type { RunStore } from '../store.ts';
import { directSubCalls } from './event-page.ts';
import type { TraceEvent } from './trace.ts';
import { parentOf, spanIdOf, subCallSteps, traceEventView } from './trace-view.ts';

/** Number of bodies read concurrently: each may be large. */
const AT_ONCE = 8;

type View = ReturnType<typeof traceEventView>;
/** An event or a sub-call. */
type Entry = Omit<View, 'event_type'> & { readonly event_type: string };

/**
 * Returns the runs of a chain with their steps, oldest first, starting with run number `from`: at least one run, and
 * more
 * until there are `limit` steps. A running run has the steps that it has written so far. The parent of a called run is
 * the
 * caller's step that was active when it began.
 */
export async function waterfallOf(
  deps: Pick<Deps, 'runs'>,
  store: RunStore,
  rootRunId: string,
  { from, limit }: { readonly from: number; readonly limit: number },
) {
  const ids = [rootRunId, ...(await store.callers(rootRunId)).keys()];
  const runs = (await store.findAll(ids)).sort((a, b) => (beginsBefore(a, b, rootRunId) ? -1 : 1));
  const traces = new Map<string, Promise<RunTrace>>();
  const traceOf = (run: Run): Promise<RunTrace> => {
    const trace = traces.get(run.id) ?? readTrace(deps, store, run);
    traces.set(run.id, trace);
    return trace;
  };
  const byId = new Map(runs.map((run) => [run.id, run]));
  const shown: Awaited<ReturnType<typeof show>>[] = [];
  const show = async (run: Run) => {
    const caller = run.parentRunId === null ? undefined : byId.get(run.parentRunId);
    const [{ views, hasContent }, callerTrace] = await Promise.all([traceOf(run), caller && traceOf(caller)]);
    return {
      ...runView(run),
      // A run whose caller's record has expired still belongs to the chain.
      parent_span_id:
        run.id === rootRunId
          ? null
          : ((caller && parentOf(run, callerTrace!.views)) ?? spanIdOf(caller?.id ?? rootRunId, 0)),
      has_content: hasContent,
      steps: stepsOf(run, views),
    };
  };
  let count = 0;
  let next = from;
  while (next < runs.length && count < limit) {
    for (const run of await Promise.all(runs.slice(next, next + AT_ONCE).map(show))) {
      if (shown.length > 0 && count + run.steps.length > limit) return page(next);
      shown.push(run);
      count += Math.max(1, run.steps.length);
      next++;
    }
  }
  return page(next);

  function page(end: number) {
    return {
      root_run_id: rootRunId,
      is_live: runs.some(({ status }) => !hasEnded(status)),
      total_runs: runs.length,
      runs: shown,
      next_cursor: end < runs.length ? String(end) : null,
    };
  }
}

/** Returns the steps of one run, its direct sub-calls among them, and whether their content is stored. */
export async function stepsOfRun(deps: Pick<Deps, 'runs'>, store: RunStore, run: Run) {
  const [{ views, hasContent }, calls] = await Promise.all([readTrace(deps, store, run), directSubCalls(store, run)]);
  return { steps: stepsOf(run, [...views, ...subCallSteps(run.id, calls, views)]), hasContent };
}

/** Orders runs by start, the root first, as host clocks differ. Times are ISO 8601 in UTC, which sort as text. */
function beginsBefore(a: Run, b: Run, rootRunId: string): boolean {
  if (a.id === rootRunId || b.id === rootRunId) return a.id === rootRunId;
  return a.startedAt === b.startedAt ? a.id < b.id : a.startedAt < b.startedAt;
}

/** Whether the steps of a run are in its events only: its record gets them at its end, and after each failed try. */
const isUnderWay = ({ status, hasBegun, nextTryAt }: Run): boolean =>
  status === 'running' || status === 'waiting' || (status === 'queued' && hasBegun && nextTryAt === null);

interface RunTrace {
  readonly views: readonly View[];
  readonly hasContent: boolean;
}

async function readTrace(deps: Pick<Deps, 'runs'>, store: RunStore, run: Run): Promise<RunTrace> {
  const { id, workspaceId } = run;
  if (!isUnderWay(run)) {
    const body = await store.body(id);
    const views = (body?.trace ?? []).map((event) => traceEventView(id, event));
    return { views, hasContent: body?.hasContent === true };
  }
  const views: View[] = [];
  for await (const { type, data } of liveEventsOf(deps, { workspaceId, runId: id }, 0)) {
    if (type !== 'trace') continue;
    const { content: _, ...event } = data as unknown as TraceEvent & { content?: unknown };
    views.push(traceEventView(id, event));
  }
  return { views, hasContent: false };
}

const runView = (run: Run) => ({
  run_id: run.id,
  parent_run_id: run.parentRunId,
  span_id: spanIdOf(run.id, 0),
  agent_name: run.agentName,
  agent_version: run.agentVersion,
  engine: run.engine,
  status: run.status,
  started_at: run.startedAt,
  completed_at: run.completedAt,
  duration_ms: run.durationMs,
  input_tokens: run.inputTokens,
  output_tokens: run.outputTokens,
  cost_usd: run.costUsd,
  llm_model: run.llmModel,
  error_code: run.errorCode,
  error_message: run.errorMessage,
});

/**
 * Merges the start and end events of each span into one step, ordered by start; other events are steps by themselves.
 */
function stepsOf(run: Run, views: readonly Entry[]) {
  const begun = new Map<string, Entry>();
  const ended = new Set<string>();
  for (const view of views) {
    if (view.span_id === undefined) continue;
    if (view.event_type.endsWith('_started')) begun.set(view.span_id, view);
    else ended.add(view.span_id);
  }
  const steps = views
    .filter(({ event_type, span_id }) => !event_type.endsWith('_started') || !ended.has(span_id ?? ''))
    .map((view) => stepOf(run, view, begun.get(view.span_id ?? '')));
  return steps.sort((a, b) => (a.started_at < b.started_at ? -1 : Number(a.started_at > b.started_at)));
}

function stepOf(run: Run, view: Entry, begin: Entry | undefined) {
  const { event_type, created_at, started_at = created_at, ended_at, payload, parent_span_id, ...rest } = view;
  const [, kind = event_type, state] = /^(.+)_(started|succeeded|failed)$/.exec(event_type) ?? [];
  // When the run has ended, so have all its steps.
  const open = isUnderWay(run) ? 'running' : 'failed';
  const status = state === 'started' ? open : (state ?? 'event');
  return {
    ...rest,
    kind,
    status: status as 'running' | 'succeeded' | 'failed' | 'event',
    parent_span_id: parent_span_id ?? begin?.parent_span_id ?? spanIdOf(run.id, 0),
    started_at,
    ended_at: ended_at ?? (status === 'running' ? null : created_at),
    payload: { ...begin?.payload, ...payload },
  };
}
