import { hashKey } from '#core/accounts/keys/key-format.ts';
import { clientOf } from '#core/accounts/limits/address.ts';
import { endOfDay } from '#core/accounts/limits/rate-limit.ts';
import { PlatformError } from '#core/base/errors.ts';
import { dayOf, epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { absent, allOf, anyOf, equals, exists, type Item, lessThan } from '#core/ports/table.ts';
import type { ChatLink } from './link.ts';
import { forVisitors, overForToday } from './use.ts';

/*
 * Visitors of links, who are known by a secret that only their browser has. It is not stored: keys contain its hash, so
 * that a session is found with the secret of its visitor alone.
 *
 * Runs table: `CHATVISITOR#<hash of the secret> / <session id>`: a session of a visitor, with its link, the id of its last
 * run, and `is_under_way` until the end of that is noted. It expires with the session.
 *
 * Counters table, with expiry:
 * - `CHATVISITOR#<hash of the secret> / USE`: `m_<day>`, messages of a UTC day; `run`, the message under way, and
 *   `run_until`, the epoch second by which it has certainly ended;
 * - `CHATADDRESS#<client>#<link id> / <day>`: sessions that an address has opened.
 */

/** Sessions that one address may open with a link in a day: a secret costs nothing, an address does. */
const MAX_SESSIONS_PER_ADDRESS = 50;
/** Days for which a session is kept after it was opened. */
export const SESSION_DAYS = 30;
const DAY_SECONDS = 24 * 3600;

type VisitorDeps = Pick<Deps, 'runs' | 'counters' | 'clock' | 'ids'>;

/** A session of a visitor with a link. */
export interface VisitorSession {
  readonly id: string;
  readonly visitor: string;
  /** Absent before the first message. */
  readonly lastRunId?: string;
  /** Whether the end of that run was not noted yet. */
  readonly isUnderWay: boolean;
}

const partitionOf = (visitor: string): string => `CHATVISITOR#${hashKey(visitor)}`;
const useKey = (visitor: string) => ({ pk: partitionOf(visitor), sk: 'USE' });

export const newVisitor = ({ ids }: Pick<Deps, 'ids'>): string => newToken(ids);

/** Counts a session that an address opens. Throws RATE_LIMITED. */
export async function countSession(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  link: ChatLink,
  address: string | undefined,
): Promise<void> {
  if (address === undefined) return;
  const now = clock.now();
  const counted = await counters.update(
    { pk: `CHATADDRESS#${clientOf(address)}#${link.id}`, sk: dayOf(now) },
    { add: { sessions: 1 }, set: { ttl: epochSeconds(endOfDay(now)) } },
    anyOf(absent('sessions'), lessThan('sessions', MAX_SESSIONS_PER_ADDRESS)),
  );
  if (!counted.ok) throw overForToday(now);
}

/** Notes a session of a visitor. */
export async function noteSession({ runs, clock }: VisitorDeps, link: ChatLink, visitor: string, id: string) {
  const expires = Math.min(link.expires, epochSeconds(clock.now()) + SESSION_DAYS * DAY_SECONDS);
  const item = { pk: partitionOf(visitor), sk: id, workspace_id: link.workspaceId, link_id: link.id, ttl: expires };
  await runs.put(item, absent());
}

/** Finds a session with the secret of its visitor; `undefined` for one of another visitor or link, as for none. */
export async function findSession(
  { runs }: Pick<Deps, 'runs'>,
  link: ChatLink,
  visitor: string,
  id: string,
): Promise<VisitorSession | undefined> {
  const item = await runs.get({ pk: partitionOf(visitor), sk: id });
  if (item === undefined || item.link_id !== link.id) return undefined;
  const isUnderWay = item.is_under_way === true;
  return { id, visitor, isUnderWay, ...(item.run_id !== undefined && { lastRunId: item.run_id as string }) };
}

/** Notes the run of the last message of a session. */
export async function noteRun({ runs }: Pick<Deps, 'runs'>, { id, visitor }: VisitorSession, runId: string) {
  const set = { run_id: runId, is_under_way: true };
  await runs.update({ pk: partitionOf(visitor), sk: id }, { set }, exists());
}

/** Notes that the run of a message has ended. Safe to repeat. */
export async function noteEnd({ runs }: Pick<Deps, 'runs'>, { id, visitor }: VisitorSession, runId: string) {
  await runs.update({ pk: partitionOf(visitor), sk: id }, { remove: ['is_under_way'] }, equals('run_id', runId));
}

/**
 * Counts a message of a visitor, who has one under way at a time. Throws RATE_LIMITED if the messages of the day are used
 * up, and CONFLICT while another one is under way.
 *
 * @param until Epoch milliseconds by which the run has certainly ended.
 */
export async function takeTurn(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  link: ChatLink,
  visitor: string,
  runId: string,
  until: number,
): Promise<void> {
  const now = clock.now();
  const count = `m_${dayOf(now)}`;
  const taken = await counters.update(
    useKey(visitor),
    {
      add: { [count]: 1 },
      set: { run: runId, run_until: epochSeconds(until), ttl: epochSeconds(until) + DAY_SECONDS },
    },
    allOf(
      anyOf(absent('run'), equals('run', runId), lessThan('run_until', epochSeconds(now))),
      anyOf(absent(count), lessThan(count, link.messagesPerVisitor)),
    ),
  );
  if (taken.ok) return;
  const item = await counters.get(useKey(visitor));
  if (usedOf(item, count) >= link.messagesPerVisitor) throw overForToday(now);
  throw forVisitors(
    new PlatformError('CONFLICT', 'The answer to your last message is still under way: wait for it, or stop it.'),
  );
}

/** Ends the turn of a message. One that did not run is not counted. Safe to repeat. */
export async function endTurn(
  { counters, clock }: Pick<Deps, 'counters' | 'clock'>,
  visitor: string,
  runId: string,
  { isCounted }: { readonly isCounted: boolean },
): Promise<void> {
  const add = isCounted ? {} : { [`m_${dayOf(clock.now())}`]: -1 };
  await counters.update(useKey(visitor), { add, remove: ['run', 'run_until'] }, equals('run', runId));
}

const usedOf = (item: Item | undefined, name: string): number => (item?.[name] as number | undefined) ?? 0;
