import { timelineSince } from '#core/accounts/workspaces/timeline.ts';
import { versionsSince } from '#core/agents/store.ts';
import { MessageStore } from '#core/collaboration/messages/store.ts';
import { TaskStore } from '#core/collaboration/tasks/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { LAST_TIME, LONGEST_RUN_MS, longRunsOf, runsStartedBetween } from '#core/runs/lookup.ts';
import { outcomeOf, type Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import type { EVENT_KINDS } from './routes.ts';
import type { Watched, WatchedEvent } from './watch.ts';

export type EventKind = (typeof EVENT_KINDS)[number];

type WorkspaceEventDeps = Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'ids' | 'config'>;

/**
 * A record may be written, and appear in an index, some time after the moment it names: a run has the arrival time of
 * its call.
 */
const OVERLAP_MS = 10_000;
/** Maximum number of events of one kind per poll. */
const MAX_FOUND = 1000;
const MAX_RUNS = 2000;

/** Kinds with entries in the timeline of a workspace. */
const TIMELINE_KINDS = ['schedule', 'service', 'agent'] as const;

/** Returns the time in an event ID, in epoch milliseconds. */
export const timeOf = (id: string): number => Number(id.split('.')[0]);

/**
 * Events of a workspace. They need no writes of their own: existing records have the times when runs started and ended,
 * versions were published and messages sent. Each poll reads new records from their indexes, with some overlap with the
 * previous poll, and returns those not yet reported.
 */
export class WorkspaceEvents implements Watched {
  readonly #deps: WorkspaceEventDeps;
  readonly #workspaceId: string;
  readonly #kinds: ReadonlySet<EventKind>;
  /** Epoch milliseconds: earlier events are not reported. */
  readonly #begin: number;
  #since: number;
  /** IDs that were reported or need no report, with their times. */
  readonly #told = new Map<string, number>();
  /** Runs that have not ended; `undefined` before the first poll. */
  #open: Set<string> | undefined;

  /**
   * `after`: the last received event, or a time (epoch milliseconds) as text. Events shortly before it are reported
   * again, because records may be late. Without `after`, only new events are reported.
   */
  constructor(
    deps: WorkspaceEventDeps,
    workspaceId: string,
    { kinds, after }: { readonly kinds: readonly EventKind[]; readonly after?: string | undefined },
  ) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
    this.#kinds = new Set(kinds);
    this.#since = after === undefined ? deps.clock.now() : timeOf(after);
    this.#begin = after === undefined ? this.#since : this.#since - OVERLAP_MS;
    if (after !== undefined) this.#told.set(after, this.#since);
  }

  async look(): Promise<{ events: WatchedEvent[]; isOver: boolean }> {
    const now = this.#deps.clock.now();
    const from = this.#since - OVERLAP_MS;
    const sources: { readonly [Kind in EventKind]?: (from: number) => Promise<WatchedEvent[]> } = {
      run: this.#runs,
      message: this.#messages,
      task: this.#tasks,
      agent: this.#agents,
    };
    const found = await Promise.all([
      ...[...this.#kinds].map((kind) => sources[kind]?.(from) ?? []),
      ...(TIMELINE_KINDS.some((kind) => this.#kinds.has(kind)) ? [this.#timelines(from)] : []),
    ]);
    const events = found
      .flat()
      .filter(({ id }) => timeOf(id) >= this.#begin && !this.#told.has(id))
      .sort((a, b) => timeOf(a.id) - timeOf(b.id));
    for (const { id } of events) this.#told.set(id, timeOf(id));
    this.#since = now;
    for (const [id, at] of this.#told) if (at < from - LONGEST_RUN_MS) this.#told.delete(id);
    return { events, isOver: false };
  }

  readonly #runs = async (from: number): Promise<WatchedEvent[]> => {
    const isFirst = this.#open === undefined;
    this.#open ??= new Set();
    const start = isoTime(isFirst ? from - LONGEST_RUN_MS : from);
    const events: WatchedEvent[] = [];
    const seen = new Set<string>();
    for await (const run of runsStartedBetween(this.#deps, this.#workspaceId, [start, LAST_TIME], 200)) {
      if (seen.size >= MAX_RUNS) break;
      seen.add(run.id);
      events.push(...this.#ofRun(run));
    }
    if (isFirst) {
      for await (const run of longRunsOf(this.#deps, this.#workspaceId)) this.#open.add(run.id);
    }
    const others = [...this.#open].filter((id) => !seen.has(id));
    for (const run of await new RunStore(this.#deps, this.#workspaceId).findAll(others)) {
      events.push(...this.#ofRun(run));
    }
    return events;
  };

  #ofRun(run: Run): WatchedEvent[] {
    // It has not begun: it is found again when it does.
    if (!run.hasBegun) return [];
    const data = {
      run_id: run.id,
      agent_name: run.agentName,
      agent_version: run.agentVersion,
      endpoint: run.endpoint,
      trigger_source: run.triggerSource,
      schedule_id: run.scheduleId,
      parent_run_id: run.parentRunId,
      root_run_id: run.rootRunId,
      tenant_id: run.tenantId,
      started_at: run.startedAt,
    };
    const started = this.#open!.has(run.id) ? [] : [event('run.started', run.startedAt, run.id, data)];
    // The record of a lost run has no end until the sweep writes one.
    if (run.completedAt === null) {
      this.#open!.add(run.id);
      return started;
    }
    this.#open!.delete(run.id);
    return [...started, event('run.ended', run.completedAt, run.id, { ...data, ...outcomeOf(run) })];
  }

  readonly #messages = async (from: number): Promise<WatchedEvent[]> => {
    const messages = await new MessageStore(this.#deps, this.#workspaceId).since(isoTime(from), MAX_FOUND);
    return messages.map(({ id, agentName, title, level, createdAt }) =>
      event('message', createdAt, id, { id, agent_name: agentName, title, level }),
    );
  };

  readonly #tasks = async (from: number): Promise<WatchedEvent[]> => {
    const changes = await new TaskStore(this.#deps, this.#workspaceId).changesSince(from, MAX_FOUND);
    return changes.map(({ id, at, task }) => event('task', at, id, task));
  };

  readonly #agents = async (from: number): Promise<WatchedEvent[]> => {
    const versions = await versionsSince(this.#deps, this.#workspaceId, from);
    return versions.map(({ id, name, version, createdAt }) =>
      event('agent.published', createdAt, id, { agent_id: id, agent_name: name, version }),
    );
  };

  /** Returns the timeline events of schedules and services, and the changes of channels. */
  readonly #timelines = async (from: number): Promise<WatchedEvent[]> => {
    const { items } = await this.#deps.main.query({ ...timelineSince(this.#workspaceId, from), limit: MAX_FOUND });
    return items.flatMap(({ pk, gsi1sk, id, event_type, message, agent_name, channel }) => {
      const [owner, ownerId] = pk.split('#') as [string, string];
      // An agent has no id of its own, so its entries are in a partition of its workspace.
      const kind = owner === 'WS' ? 'agent' : owner === 'SCHEDULE' ? 'schedule' : 'service';
      const data = kind === 'agent' ? { agent_name, channel, message } : { [`${kind}_id`]: ownerId, message };
      return this.#kinds.has(kind) ? [event(`${kind}.${event_type}`, gsi1sk!.split('#')[0]!, String(id), data)] : [];
    });
  };
}

/** `at` in ISO 8601; `key` makes the ID unique within its kind. */
const event = (type: string, at: string, key: string, data: WatchedEvent['data']): WatchedEvent => ({
  id: `${Date.parse(at)}.${type}.${key}`,
  type,
  created_at: at,
  data,
});
