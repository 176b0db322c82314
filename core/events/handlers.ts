import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { visibleSession } from '#core/execution/sessions/visible-session.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { type Handlers, type KeyNeeds, rowOf } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findReadableRun } from '#core/runs/readable-run.ts';
import { RunStore } from '#core/runs/store.ts';
import { eventRoutes, WORKSPACE_EVENT_ID } from './routes.ts';
import { RunEvents } from './run-events.ts';
import { SESSION_EVENT_ID, SessionEvents } from './session-events.ts';
import { exportLines } from './session-export.ts';
import { recordOf, type Watched, WatchStream } from './watch.ts';
import { takePlace } from './watchers.ts';
import { type EventKind, timeOf, WorkspaceEvents } from './workspace-events.ts';

const MAX_AGE_MS = 3600_000;

type EventDeps = Pick<Deps, 'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'log' | 'watching'>;

type Operation = Exclude<(typeof eventRoutes)[number]['operationId'], 'exportSession'>;

/** Parts of a request that these handlers read. */
interface Asked {
  readonly caller: Caller;
  readonly headers: { readonly accept?: string | undefined; readonly 'last-event-id'?: string | undefined };
  readonly query: { readonly after?: string | undefined };
  readonly request: { readonly headers: RequestHeaders };
  readonly requestUuid: string;
}

/** `authenticate` throws if a caller with these headers has no access to the workspace. */
export function eventHandlers(
  deps: EventDeps,
  authenticate: (headers: RequestHeaders, workspaceId: string, row: KeyNeeds) => Promise<Caller>,
): Handlers<typeof eventRoutes> {
  /** `start`: cursor of a page without events. */
  async function answer(operation: Operation, asked: Asked, watched: Watched, start: string) {
    const { caller, headers, request, requestUuid } = asked;
    if (!/\btext\/event-stream\b/.test(headers.accept ?? '')) {
      const { events, isOver } = await watched.look();
      return { status: 200 as const, body: { events: [...events], next: events.at(-1)?.id ?? start, is_over: isOver } };
    }
    const row = rowOf(eventRoutes, operation);
    const onEnd = await takePlace(deps, caller.workspace.id);
    const check = async () => void (await authenticate(request.headers, caller.workspace.id, row));
    return {
      status: 200,
      raw: {
        contentType: 'text/event-stream',
        content: new WatchStream(deps, watched, { recordOf, requestUuid, check, onEnd }),
      },
      headers: { 'cache-control': 'no-cache' },
    };
  }

  return {
    async listRunEvents({ params, ...asked }) {
      const { caller } = asked;
      const { workspace } = caller;
      const after = afterOf(asked) ?? '0';
      if (!/^\d{1,8}$/.test(after)) throw badId(after);
      const { id } = await findReadableRun(new RunStore(deps, workspace.id), caller, params.run_id);
      const events = new RunEvents(deps, { workspaceId: workspace.id, id }, Number(after));
      return answer('listRunEvents', asked, caller.agent ? onlyShown(events) : events, after);
    },

    async listSessionEvents({ params, ...asked }) {
      const { caller, headers } = asked;
      const workspaceId = caller.workspace.id;
      const after = afterOf(asked) ?? '0.0';
      const place = SESSION_EVENT_ID.exec(after);
      if (place === null) throw badId(after);
      const { session } = await visibleSession(deps, { workspaceId, id: params.session_id, headers }, 1);
      const [number, event] = [Number(place[1]), Number(place[2])];
      const events = new SessionEvents(deps, { workspaceId, sessionId: session.id }, { number, event });
      return answer('listSessionEvents', asked, events, after);
    },

    async exportSession({ caller, params, headers }) {
      const workspaceId = caller.workspace.id;
      const found = await visibleSession(deps, { workspaceId, id: params.session_id, headers });
      return { status: 200, body: exportLines(deps, workspaceId, found) };
    },

    async listWorkspaceEvents(asked) {
      const { caller, query } = asked;
      const now = deps.clock.now();
      const after = afterOf(asked);
      if (after !== undefined && !WORKSPACE_EVENT_ID.test(after)) throw badId(after);
      if (after !== undefined && timeOf(after) < now - MAX_AGE_MS) {
        throw new PlatformError(
          'INVALID_INPUT',
          `query.after: "${after}" is more than an hour ago: list the current state, and watch from now on.`,
        );
      }
      const kinds = query.types.split(',') as EventKind[];
      return answer(
        'listWorkspaceEvents',
        asked,
        new WorkspaceEvents(deps, caller.workspace.id, { kinds, after }),
        String(now),
      );
    },
  };
}

/**
 * Leaves of a run's events what a streamed call shows its caller: an agent learns neither the steps of an agent that it
 * called nor what was said in them.
 */
const onlyShown = (events: Watched): Watched => ({
  async look() {
    const seen = await events.look();
    return { ...seen, events: seen.events.filter(({ type }) => type === 'progress' || type === 'end') };
  },
});

/** A reconnecting browser sends the original URL, with the ID of the last event in a header. */
const afterOf = ({ headers, query }: Pick<Asked, 'headers' | 'query'>): string | undefined =>
  headers['last-event-id'] ?? query.after;

const badId = (id: string): PlatformError =>
  new PlatformError(
    'INVALID_INPUT',
    `header.last-event-id: "${id.slice(0, 64)}" is not the id of an event of this stream.`,
  );
