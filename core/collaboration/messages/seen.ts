import { memberKey } from '#core/accounts/workspaces/store.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, allOf, anyOf, exists, lessThan } from '#core/ports/table.ts';
import { MessageStore } from './store.ts';

/** `messages_seen_at` of a membership: its user has seen the messages of the workspace up to this time (ISO 8601). */
const SEEN_AT = 'messages_seen_at';
/** Of each level. */
const MAX_COUNTED = 100;

/** Notes what a member has seen. It never goes back, and not beyond now. Returns the time that counts from now on. */
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

/** How many messages a member has not seen; all since the membership began, if the member never said so. */
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

/** Sort keys go on with an id after the time: this is greater than those of messages of this very millisecond. */
const after = (time: string): string => `${time}~`;
