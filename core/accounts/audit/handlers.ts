import { requestIdOf } from '#core/http/request-id.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { TRUST_USER } from '../keys/store.ts';
import { findUser } from '../workspaces/store.ts';
import { type AuditEntry, LINK, listEntries } from './log.ts';
import type { auditRoutes } from './routes.ts';

export const auditHandlers = (deps: Pick<Deps, 'main'>): Handlers<typeof auditRoutes> => ({
  async listAuditEntries({ caller, query: { operation, user_id: userId, from, to, limit, cursor } }) {
    const filter = { operation, userId, from: inUtc(from), to: inUtc(to) };
    const { entries, nextCursor } = await listEntries(deps, caller.workspace.id, filter, { limit, cursor });
    const ids = [...new Set(entries.flatMap((entry) => (actorOf(entry) === 'user' ? entry.userId! : [])))];
    const users = new Map(await Promise.all(ids.map(async (id) => [id, await findUser(deps, id)] as const)));
    return {
      status: 200,
      body: {
        entries: entries.map((entry) => {
          const user = users.get(entry.userId ?? '');
          const { displayName: name = null, email = null } = user ?? {};
          return {
            id: entry.id,
            created_at: entry.createdAt,
            actor: actorOf(entry),
            user: actorOf(entry) === 'user' ? { id: entry.userId!, name, email } : null,
            trust: entry.trust && { ...entry.trust, claims: { ...entry.trust.claims } },
            key_id: entry.keyId,
            operation: entry.operation,
            target: entry.target,
            address: entry.address,
            outcome: entry.outcome,
            error_code: entry.errorCode,
            request_id: requestIdOf(entry.id),
          };
        }),
        next_cursor: nextCursor,
      },
    };
  },
});

function actorOf({ userId }: AuditEntry) {
  if (userId === null) return 'operator';
  if (userId === LINK) return 'link';
  return userId.startsWith(TRUST_USER) ? 'trust' : 'user';
}

/** Converts a time to UTC, because sort keys begin with times in UTC. */
const inUtc = (time: string | undefined): string | undefined =>
  time === undefined ? undefined : isoTime(Date.parse(time));
