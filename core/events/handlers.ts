import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import type { eventRoutes } from './routes.ts';
import { RunEvents } from './run-events.ts';
import { type Watched, WatchStream } from './watch.ts';
import { takePlace } from './watchers.ts';

type EventDeps = Pick<Deps, 'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'log' | 'watching'>;

/** What these handlers read of a request. */
interface Asked {
  readonly caller: Caller;
  readonly headers: { readonly accept?: string | undefined; readonly 'last-event-id'?: string | undefined };
  readonly query: { readonly after?: string | undefined };
  readonly request: { readonly headers: RequestHeaders };
  readonly requestUuid: string;
}

/** `authenticate` throws when a caller with these headers has no access to the workspace. */
export function eventHandlers(
  deps: EventDeps,
  authenticate: (headers: RequestHeaders, workspaceId: string) => Promise<Caller>,
): Handlers<typeof eventRoutes> {
  async function answer(asked: Asked, watched: Watched, after: string) {
    const { caller, headers, request, requestUuid } = asked;
    if (!/\btext\/event-stream\b/.test(headers.accept ?? '')) {
      const { events, isOver } = await watched.look();
      return {
        status: 200 as const,
        body: { events: [...events], next: events.at(-1)?.id ?? after, is_over: isOver },
      };
    }
    const onEnd = await takePlace(deps, caller.workspace.id);
    const check = async () => void (await authenticate(request.headers, caller.workspace.id));
    return {
      status: 200,
      raw: {
        contentType: 'text/event-stream',
        content: new WatchStream(deps, watched, { requestUuid, check, onEnd }),
      },
      headers: { 'cache-control': 'no-cache' },
    };
  }

  return {
    async listRunEvents({ params, ...asked }) {
      const { workspace } = asked.caller;
      const after = afterOf(asked) ?? '0';
      if (!/^\d{1,8}$/.test(after)) throw badId(after);
      const { id } = await new RunStore(deps, workspace.id).findByName(params.run_id);
      return answer(asked, new RunEvents(deps, { workspaceId: workspace.id, id }, Number(after)), after);
    },
  };
}

/** A browser that connects again sends the first address, with the id of the last event beside it. */
const afterOf = ({ headers, query }: Pick<Asked, 'headers' | 'query'>): string | undefined =>
  headers['last-event-id'] ?? query.after;

const badId = (id: string): PlatformError =>
  new PlatformError(
    'INVALID_INPUT',
    `header.last-event-id: "${id.slice(0, 64)}" is the id of no event: send one that this address answered.`,
  );
