import { hasEnded, type RunStatus } from '#core/base/run-kinds.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import { outcomeOf, type Run, type RunBody } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { TraceEvent } from '#core/runs/trace/trace.ts';
import { traceEventView } from '#core/runs/trace/trace-view.ts';
import type { Watched, WatchedEvent } from './watch.ts';

type RunEventDeps = Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>;
type RunEvent = WatchedEvent<'progress' | 'trace' | 'sub_call' | 'end'>;

/**
 * The events of a run after number `after`: those written while it ran, or else those in its record, and finally its
 * end. Sub-calls are read from their own records, so they have no number: they have the ID of the previous event.
 */
export class RunEvents implements Watched {
  readonly #deps: RunEventDeps;
  readonly #runs: RunStore;
  readonly #runId: string;
  readonly #place: { readonly workspaceId: string; readonly runId: string };
  /** Statuses that were already reported. */
  readonly #subCalls = new Map<string, RunStatus>();
  #last: number;

  constructor(deps: RunEventDeps, { workspaceId, id }: Pick<Run, 'workspaceId' | 'id'>, after: number) {
    this.#deps = deps;
    this.#runId = id;
    this.#place = { workspaceId, runId: id };
    this.#runs = new RunStore(deps, workspaceId);
    this.#last = after;
  }

  async look(): Promise<{ events: RunEvent[]; isOver: boolean }> {
    // Read before the events, because a run writes all events before its end.
    const run = await this.#runs.find(this.#runId);
    const isOver = run === undefined || hasEnded(run.status);
    const events = await this.#written();
    if (run === undefined) return { events, isOver };
    if (isOver && !(await this.#hasWritten(events))) {
      events.push(...this.#recorded(run, await this.#runs.body(run.id)));
    }
    events.push(...(await this.#changedSubCalls(run)));
    if (isOver) events.push(this.#endOf(run));
    return { events, isOver };
  }

  async #hasWritten(found: readonly RunEvent[]): Promise<boolean> {
    if (found.length > 0) return true;
    for await (const _ of liveEventsOf(this.#deps, this.#place, 0)) return true;
    return false;
  }

  async #written(): Promise<RunEvent[]> {
    const events: RunEvent[] = [];
    for await (const { number, type, at, data } of liveEventsOf(this.#deps, this.#place, this.#last)) {
      this.#last = number;
      const shown = type === 'trace' ? traceEventView(this.#runId, data as unknown as TraceEvent) : data;
      events.push({ id: String(number), type, created_at: isoTime(at), data: shown });
    }
    return events;
  }

  /** Returns the events of a run that was too short to write any, or whose events have expired. */
  #recorded(run: Run, body: RunBody | undefined): RunEvent[] {
    const created_at = run.completedAt ?? isoTime(this.#deps.clock.now());
    const steps = (body?.trace ?? []).map((event) => ({
      type: 'trace' as const,
      created_at: isoTime(event.at),
      data: traceEventView(run.id, event),
    }));
    const printed = (['stdout', 'stderr'] as const)
      .filter((type) => (body?.[type] ?? '') !== '')
      .map((type) => ({ type: 'progress' as const, created_at, data: { type, text: body![type] } }));
    const events = [...steps, ...printed].map((event, index) => ({ id: String(index + 1), ...event }));
    const unseen = events.slice(this.#last);
    this.#last = Math.max(this.#last, events.length);
    return unseen;
  }

  async #changedSubCalls(run: Run): Promise<RunEvent[]> {
    // Prompts have no sandbox that could make sub-calls.
    if (!traitsOf(run.engine).hasSandbox) return [];
    const isKnown = (id: string) => hasEnded(this.#subCalls.get(id) ?? 'running');
    const changed: RunEvent[] = [];
    for (const call of await this.#runs.subCallsOf(run, isKnown)) {
      if (this.#subCalls.get(call.id) === call.status) continue;
      this.#subCalls.set(call.id, call.status);
      changed.push({
        id: String(this.#last),
        type: 'sub_call',
        created_at: call.completedAt ?? call.startedAt,
        data: {
          run_id: call.id,
          agent_name: call.agentName,
          agent_version: call.agentVersion,
          started_at: call.startedAt,
          ...outcomeOf(call),
        },
      });
    }
    return changed;
  }

  #endOf(run: Run): RunEvent {
    return {
      id: String(this.#last),
      type: 'end',
      created_at: run.completedAt ?? isoTime(this.#deps.clock.now()),
      data: { run_id: run.id, ...outcomeOf(run) },
    };
  }
}
