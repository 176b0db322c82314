import { memberKey } from '#core/accounts/workspaces/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, anyOf, exists, lessThan } from '#core/ports/table.ts';
import { MessageStore } from './store.ts';

/**
 * Attribute `messages_seen_at` of a membership: time (ISO 8601) up to which its user has seen the messages of the
 * workspace.
 */
const SEEN_AT = 'messages_seen_at';
/** Maximum number of messages counted per level. */
const MAX_COUNTED = 100;

/**
 * Records the time up to which a member has seen the messages. The time never decreases, and is at most now. Returns
 * the resulting time.
 */
export async function markSeen(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  workspaceId: string,
  userId: string,
  until: number,
): Promise<string> {
  const time = isoTime(Math.min(until, clock.now()));
  const key = memberKey(userId, workspaceId);
  const isLater = allOf(exists(), anyOf(absent(SEEN_AT), lessThan(SEEN_AT, time)));
  const { ok } = await main.update(key, { set: { [SEEN_AT]: time } }, isLater);
  return ok ? time : (((await main.get(key))?.[SEEN_AT] as string | undefined) ?? time);
}

/** Returns the number of unread messages of a member; all since the membership began, if nothing is recorded. */
export async function unreadMessages(
  deps: Pick<Deps, 'main' | 'clock' | 'ids'>,
  workspaceId: string,
  userId: string,
): Promise<{ count: number; isAll: boolean; seenUntil: string }> {
  const member = await deps.main.get(memberKey(userId, workspaceId));
  const seenUntil = (member?.[SEEN_AT] ?? member?.accepted_at ?? isoTime(deps.clock.now())) as string;
  const found = await new MessageStore(deps, workspaceId).since(after(seenUntil), MAX_COUNTED);
  const ofLevels = Map.groupBy(found, ({ level }) => level).values();
  return { count: found.length, isAll: ofLevels.every((each) => each.length < MAX_COUNTED), seenUntil };
}

/** Sort keys have an ID after the time: the result sorts after all messages of the same millisecond. */
const after = (time: string): string => `${time}~`;
