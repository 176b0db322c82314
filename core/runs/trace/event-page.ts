import { traitsOf } from '#core/manifest/engines.ts';
import type { Run } from '../run.ts';
import type { RunStore } from '../store.ts';
import { withSubCalls } from './trace-view.ts';

/** Selects a page of the events of a run. */
interface EventQuery {
  readonly limit: number;
  readonly offset: number;
  readonly cursor?: number | undefined;
  /** Only the events of this step. */
  readonly span_id?: string | undefined;
  /** Whether the events have the stored content of their steps. */
  readonly content: boolean;
}

/** Returns a page of the events of a run, with its direct sub-calls. */
export async function traceEventPage(runs: RunStore, run: Run, query: EventQuery) {
  const { id } = run;
  const [body, calls] = await Promise.all([runs.body(id), directSubCalls(runs, run)]);
  const contents = query.content && body?.hasContent ? await runs.content(id) : {};
  const all = withSubCalls(id, body?.trace ?? [], calls, contents).map((event, index) => ({
    id: `${id}:${index}`,
    trace_id: id,
    sequence_no: index,
    ...event,
  }));
  const trace = query.span_id === undefined ? all : all.filter(({ span_id }) => span_id === query.span_id);
  const start = query.cursor ?? query.offset;
  const wanted = trace.slice(start, start + query.limit);
  const events = query.content ? upToSize(wanted) : wanted;
  const end = start + events.length;
  const next = end < trace.length ? String(end) : null;
  return { events, total: trace.length, cursor: String(start), next_cursor: next };
}

/** Returns the runs that a run called directly. Prompts have no sandbox, so they call no other agents. */
export const directSubCalls = (runs: RunStore, run: Run): Promise<Run[]> =>
  traitsOf(run.engine).hasSandbox ? runs.subCallsOf(run) : Promise.resolve([]);

/**
 * Maximum content of a page. It stays below the response limit of a function, even with one more event and JSON
 * escapes.
 */
const MAX_PAGE_CHARACTERS = 1024 * 1024;

/** Returns the first events that fit on a page, at least one. */
function upToSize<Event extends object>(events: Event[]): Event[] {
  let characters = 0;
  const end = events.findIndex((event) => {
    const isFull = characters > MAX_PAGE_CHARACTERS;
    if ('content' in event) characters += JSON.stringify(event.content).length;
    return isFull;
  });
  return end < 0 ? events : events.slice(0, end);
}
