import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { absent, exists, type Item, queryAll } from '#core/ports/table.ts';
import { hashKey } from '../keys/key-format.ts';
import type { ApiKey } from '../keys/store.ts';

/**
 * Sessions of browsers. Counters table: `SESSION#<hash of the cookie> / META` is a session; `KEYSESSIONS#<key id> /
 * <session id>` lists it under the key that created it. A session has the rights of its key, and ends with it.
 */
export interface Session {
  readonly id: string;
  readonly userId: string;
  readonly keyId: string;
  readonly keyHash: string;
  readonly createdAt: string;
  /** Accurate to ten minutes. */
  readonly lastSeenAt: string;
  /** Latest expiry. An idle session ends earlier. */
  readonly expiresAt: string;
  /** The browser's `User-Agent`. */
  readonly userAgent: string | null;
  readonly hash: string;
}

type SessionDeps = Pick<Deps, 'counters' | 'clock' | 'ids'>;

const IDLE_MS = 12 * 3_600_000;
const LONGEST_MS = 7 * 24 * 3_600_000;
/** Resolution of `last_seen_at`: a busy session must not cost a write per request. */
const LAST_SEEN_RESOLUTION_MS = 10 * 60_000;
const MAX_USER_AGENT = 200;

const sessionKey = (hash: string) => ({ pk: `SESSION#${hash}`, sk: 'META' });
const listOf = (keyId: string): string => `KEYSESSIONS#${keyId}`;

const fromItem = (item: Item): Session => ({
  id: item.id as string,
  userId: item.user_id as string,
  keyId: item.key_id as string,
  keyHash: item.key_hash as string,
  createdAt: item.created_at as string,
  lastSeenAt: item.last_seen_at as string,
  expiresAt: item.expires_at as string,
  userAgent: (item.user_agent as string | undefined) ?? null,
  hash: item.hash as string,
});

/** Creates a session for a key. Its token goes into the cookie and is not stored. */
export async function createSession(
  { counters, clock, ids }: SessionDeps,
  key: Pick<ApiKey, 'id' | 'userId' | 'hash'>,
  userAgent: string | null,
): Promise<{ readonly token: string; readonly session: Session; readonly maxAgeSeconds: number }> {
  const token = newToken(ids);
  const hash = hashKey(token);
  const [id, now] = [ids.uuid(), clock.now()];
  const expires = now + LONGEST_MS;
  const item: Item = {
    ...sessionKey(hash),
    id,
    user_id: key.userId,
    key_id: key.id,
    key_hash: key.hash,
    created_at: isoTime(now),
    last_seen_at: isoTime(now),
    expires_at: isoTime(expires),
    ...(userAgent !== null && { user_agent: userAgent.slice(0, MAX_USER_AGENT) }),
    hash,
    ttl: epochSeconds(now + IDLE_MS),
  };
  await counters.transact([
    { op: 'put', item, condition: absent() },
    { op: 'put', item: { pk: listOf(key.id), sk: id, hash, ttl: epochSeconds(expires) } },
  ]);
  return { token, session: fromItem(item), maxAgeSeconds: LONGEST_MS / 1000 };
}

/** Finds the session of a cookie; `undefined` if it has ended. The caller must still look up its key. */
export async function findSession({ counters }: Pick<Deps, 'counters'>, token: string): Promise<Session | undefined> {
  const item = await counters.get(sessionKey(hashKey(token)));
  return item && fromItem(item);
}

/** Records that the session was used, at most once every ten minutes, and extends it. */
export async function touchSession(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  session: Session,
): Promise<void> {
  const now = clock.now();
  if (now - Date.parse(session.lastSeenAt) < LAST_SEEN_RESOLUTION_MS) return;
  const ttl = epochSeconds(Math.min(now + IDLE_MS, Date.parse(session.expiresAt)));
  await counters.update(sessionKey(session.hash), { set: { last_seen_at: isoTime(now), ttl } }, exists());
}

export async function endSession({ counters }: Pick<Deps, 'counters'>, { hash, keyId, id }: Session): Promise<void> {
  await counters.transact([
    { op: 'delete', key: sessionKey(hash) },
    { op: 'delete', key: { pk: listOf(keyId), sk: id } },
  ]);
}

/** Lists the sessions of a key, oldest first. */
export async function listSessions({ counters }: Pick<Deps, 'counters'>, keyId: string): Promise<Session[]> {
  const listed = await Array.fromAsync(queryAll(counters, { pk: listOf(keyId) }));
  const items = await Promise.all(listed.map(({ hash }) => counters.get(sessionKey(hash as string))));
  const sessions = items.filter((item) => item !== undefined).map(fromItem);
  return sessions.sort((a, b) => a.createdAt.localeCompare(b.createdAt));
}
