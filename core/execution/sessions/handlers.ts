import { PlatformError } from '#core/base/errors.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import type { Handlers } from '#core/http/route.ts';
import { writtenVersion } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import { eraseSession } from '#core/runs/sessions/erase.ts';
import { listSessions } from '#core/runs/sessions/listing.ts';
import { type FoundSession, noSession, SessionStore } from '#core/runs/sessions/store.ts';
import { findTarget } from '../calls/target.ts';
import { interruptTurns } from './begin-turn.ts';
import { forkSession } from './fork.ts';
import { openSession } from './join.ts';
import type { sessionRoutes } from './routes.ts';
import { messageViews, SHOWN_TURNS, sessionViews } from './view.ts';
import { visibleSession } from './visible-session.ts';

type SessionDeps = Pick<
  Deps,
  'main' | 'runs' | 'counters' | 'blobs' | 'clock' | 'ids' | 'config' | 'runSignals' | 'wakeRun'
>;

/** Maximum text of a page of messages. */
const MAX_PAGE_BYTES = 4 * 1024 * 1024;

export function sessionHandlers(deps: SessionDeps): Handlers<typeof sessionRoutes> {
  const viewOf = async (workspaceId: string, found: FoundSession) =>
    (await sessionViews(deps, workspaceId, [found]))[0]!;
  const shown = async (workspaceId: string, id: string) => {
    const found = await new SessionStore(deps, workspaceId).find(id, SHOWN_TURNS);
    if (found === undefined) throw noSession(id);
    return viewOf(workspaceId, found);
  };

  return {
    async openSession({ caller, headers, body }) {
      const [org, name] = body.agent.split('/') as [string, string];
      const version = body.pin_version && writtenVersion(body.pin_version);
      const { agent } = await findTarget(deps, { org, agent: name, version: version ?? 'latest' }, caller, true);
      const workspace = caller.workspace;
      const { id, isNew } = await openSession(
        deps,
        { workspace, agent, tenantId: headers['x-platform-tenant'] },
        {
          externalId: body.external_id,
          title: body.title,
          metadata: body.metadata,
          pinVersion: version,
          busy: body.busy,
          ttlDays: body.ttl_days,
        },
      );
      return { status: isNew ? 201 : 200, body: await shown(workspace.id, id) };
    },

    async listSessions({ caller, headers, query }) {
      const workspaceId = caller.workspace.id;
      const tenantId = headers['x-platform-tenant'] ?? query.tenant_id;
      const { limit, cursor, agent } = query;
      // Another tenant has none here.
      const isOther = query.tenant_id !== undefined && query.tenant_id !== tenantId;
      if (isOther) return { status: 200, body: { sessions: [], next_cursor: null } };
      const page = await listSessions(deps, workspaceId, { agent, tenantId }, { limit, cursor, turns: 2 });
      const sessions = await sessionViews(deps, workspaceId, page.found);
      return { status: 200, body: { sessions, next_cursor: page.nextCursor } };
    },

    async getAgentSession({ caller, params, headers }) {
      const workspaceId = caller.workspace.id;
      const found = await visibleSession(deps, { workspaceId, id: params.session_id, headers });
      return { status: 200, body: await viewOf(workspaceId, found) };
    },

    async updateSession({ caller, params, headers, body }) {
      const workspaceId = caller.workspace.id;
      const { session } = await visibleSession(deps, { workspaceId, id: params.session_id, headers }, 1);
      if (!(await new SessionStore(deps, workspaceId).change(session.id, body))) throw noSession(session.id);
      return { status: 200, body: await shown(workspaceId, session.id) };
    },

    async deleteAgentSession({ caller, params, headers }) {
      const workspaceId = caller.workspace.id;
      const { session } = await visibleSession(deps, { workspaceId, id: params.session_id, headers }, 1);
      if (!(await eraseSession(deps, workspaceId, session.id))) throw noSession(session.id);
      return { status: 200, body: { deleted: true, id: session.id } };
    },

    async listSessionMessages({ caller, params, headers, query }) {
      const workspaceId = caller.workspace.id;
      const { session } = await visibleSession(deps, { workspaceId, id: params.session_id, headers }, 1);
      const { id } = session;
      const { limit, cursor, order } = query;
      const reverse = order === 'desc';
      const listing = ['messages', workspaceId, id, order];
      const after =
        cursor === undefined
          ? reverse
            ? Number.MAX_SAFE_INTEGER
            : 0
          : readCursor(cursor, listing, ([number]) => (Number.isSafeInteger(number) ? (number as number) : undefined));
      const store = new SessionStore(deps, workspaceId);
      const turns = await store.turns(id, { after, limit: limit + 1, reverse });
      const page = withinBytes(turns.slice(0, limit));
      const hasMore = page.length < turns.length;
      const items = await messageViews(deps, workspaceId, id, page);
      return {
        status: 200,
        body: { items, next_cursor: hasMore ? writeCursor(listing, [page.at(-1)!.number]) : null },
      };
    },

    async interruptSession({ caller, params, headers }) {
      const workspaceId = caller.workspace.id;
      const { newest } = await visibleSession(deps, { workspaceId, id: params.session_id, headers });
      const runId = await interruptTurns(deps, workspaceId, newest);
      return { status: 200, body: { run_id: runId ?? null } };
    },

    async forkSession({ caller, params, headers, body }) {
      const { workspace } = caller;
      const from = await visibleSession(deps, { workspaceId: workspace.id, id: params.session_id, headers });
      const { after } = body;
      const last = from.newest[0]?.number ?? 0;
      if (after > last) {
        throw new PlatformError(
          'UNPROCESSABLE',
          `body.after: is ${after}, but the session ${from.session.id} has ${last} messages.`,
        );
      }
      const id = await forkSession(deps, workspace, from.session, { after, title: body.title });
      return { status: 201, body: await shown(workspace.id, id) };
    },
  };
}

/** Returns the first turns whose stored bytes fit in a page, at least one. */
function withinBytes<T extends { readonly bytes: number }>(turns: readonly T[]): readonly T[] {
  const first = turns[0]?.bytes ?? 0;
  const end = turns.findIndex(({ bytes }, index) => index > 0 && Math.abs(bytes - first) > MAX_PAGE_BYTES);
  return end === -1 ? turns : turns.slice(0, end);
}
